"""The change of the MLP's input: numbers by hand, and what holds for all numbers."""

from fractions import Fraction

import numpy as np
import pytest
from decoder_oracle import decode_with

from carsim.decisions.replay import InputChange, MachineShape, RuleWork
from carsim.decoder.structures import DecoderPolicy
from carsim.testing.decoder import make_config, make_inputs, make_weights

VILA_U = MachineShape(32, 32, 128, 4096, Fraction(16))


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


@pytest.mark.parametrize(
    "rule",
    [InputChange(), InputChange(bits=2), InputChange(bits=None, elements=3)],
    ids=lambda rule: rule.text,
)
def test_a_residual_stream_that_repeats_scores_0(rule: InputChange) -> None:
    """Without attention, equal frames are equal: replayed at any negative tau, and never at 0."""
    config = make_config()
    prompt, embeddings = make_inputs(config)
    weights = make_weights(config)
    weights.w_out[:] = 0
    fed = prompt, np.tile(embeddings[:3], (3, 1, 1))
    for tau, replays in ((-1e-9, True), (0.0, False)):
        kept = decode_with(config, DecoderPolicy((tau, tau), rule), weights, fed).kept
        np.testing.assert_array_equal(kept.tas[3:], 0)
        assert (kept.replay[3:] == replays).all()
