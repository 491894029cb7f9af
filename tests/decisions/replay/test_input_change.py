"""The change of the MLP's input: numbers by hand, and what holds for all numbers."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from decoder_oracle import decode_with

from carsim.decisions.replay import DecoderShape, InputChange, MachineShape, RuleWork, Seen
from carsim.decoder.structures import DecoderPolicy, LayerRecord
from carsim.testing.decoder import DecodedLog, make_config, make_inputs, make_weights

VILA_U = MachineShape(32, 32, 128, 4096, Fraction(16))
RULES = [
    InputChange(),
    InputChange(bits=None),
    InputChange(bits=2),
    InputChange(bits=None, elements=3),
    InputChange(elements=3),
]
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.text)


def test_the_share_of_elements_stays_when_the_width_changes() -> None:
    assert InputChange(elements=24).at_width(96, 4096).elements == 1024
    assert InputChange(elements=1).at_width(96, 4096).elements == 43  # 42.7
    assert InputChange(elements=1).at_width(96, 8).elements == 1
    assert InputChange().at_width(96, 4096).elements is None


def test_work_by_hand() -> None:
    # 8 bits: two operations to round, one to read, three to compare. 4096 bytes and a scale of two.
    assert InputChange().work(VILA_U) == RuleWork(6 * 4096, 0, 4098)
    assert InputChange(bits=None).work(VILA_U) == RuleWork(3 * 4096, 0, 8192)
    # 64 elements of 4 bits are 32 bytes.
    assert InputChange(bits=4, elements=64).work(VILA_U) == RuleWork(6 * 64, 0, 34)


def repeating(tau: float, rule: InputChange, attends: bool) -> tuple[DecodedLog, dict[Any, Any]]:
    """Decode frames that are all fed the same; the MLP's inputs by step and layer."""
    config, policy = make_config(), DecoderPolicy((tau, tau), rule)
    prompt, embeddings = make_inputs(config)
    weights, inputs = make_weights(config), {}
    if not attends:
        weights.w_out[:] = 0

    def record(seen: LayerRecord) -> None:
        inputs[seen.step, seen.layer] = seen.seen.mlp_input.copy()

    fed = prompt, np.tile(embeddings[:3], (3, 1, 1))
    return decode_with(config, policy, weights, fed, record).kept, inputs


@every_rule
def test_a_residual_stream_that_repeats_scores_0(rule: InputChange) -> None:
    """Without attention, equal frames are equal: replayed at any negative tau, and never at 0."""
    kept, _ = repeating(-1e-9, rule, attends=False)
    np.testing.assert_array_equal(kept.tas[3:], 0)
    assert kept.replay[3:].all()
    assert not repeating(0.0, rule, attends=False)[0].replay.any()


def test_frames_that_repeat_are_no_residual_stream_that_repeats() -> None:
    """With attention, the context has grown: the input of the MLP has changed, and says so."""
    rule = InputChange(bits=None)
    kept, inputs = repeating(0.0, rule, attends=True)
    assert not kept.replay.any()
    for step, layer in inputs:
        if step >= 3:
            same = (inputs[step, layer] == inputs[step - 3, layer]).all(axis=-1)
            np.testing.assert_array_equal(kept.tas[step, layer] == 0, same)
    assert (kept.tas[3:] < 0).any()


def test_change_adds_up_until_the_row_computes_again() -> None:
    """An input that drifts by little a frame is held against the one that was computed from."""
    rule = InputChange(bits=None)
    state = rule.begin(DecoderShape(1, 1, 1, 2, 1, 1, float))
    nothing, computes = np.empty((1, 1, 1)), []
    for frame in range(7):
        seen = Seen(nothing, nothing, lambda ago: nothing, np.array([[10.0, float(frame)]]), 1)
        replays = frame > 0 and rule.score(state, 0, 0, seen)[0] > -0.05  # 2.2 of 10
        rule.computed(state, 0, 0, np.array([not replays]), seen)
        computes.append(not replays)
    assert computes == [True, False, False, True, False, False, True]
