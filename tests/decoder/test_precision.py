"""Rounding while decoding: grids, polishing, compensation, and what the caches keep."""

from typing import Any

import numpy as np
import pytest
from decoder_oracle import decode_with as run
from decoder_oracle import naive_round, naive_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from small_group import make, make_group

from carsim.decisions.attention import Streaming
from carsim.decisions.trace.precision import PRODUCTS, Calibration, DecoderPrecision, Grouped
from carsim.decoder.layers import rms_norm
from carsim.decoder.precision import (
    DAMPING,
    CodeGrid,
    compensation,
    polished,
    polishing,
    rounded,
    unpolished,
)
from carsim.decoder.quantise import collect
from carsim.decoder.structures import Array, DecoderPolicy, stack_weights
from carsim.testing.decoder import WIDTH, make_config

NUMBERS = st.floats(-1e4, 1e4, width=32)
ROWS = arrays.arrays(np.float64, st.tuples(st.integers(1, 9), st.just(12)), elements=NUMBERS)
FACTORS = st.floats(1e-3, 1e3)
BITS = st.sampled_from([2, 3, 4, 8])
FEW_BITS = {
    "weights": {"bits": 4, "group": 4},
    "activations": 4,
    "kv": {"bits": 4},
    "replay": 4,
    "polish": ("down", "out"),
    "compensate": True,
}


def precision(**fields: Any) -> DecoderPrecision:
    return DecoderPrecision.model_validate({**FEW_BITS, **fields})


# ------------------------------------------------------------------------------------ rounding


@given(NUMBERS, BITS)
def test_a_range_without_extent_is_met_exactly(value: float, bits: int) -> None:
    at = np.array([value])
    assert CodeGrid.over(at, at, bits).round(at) == pytest.approx(at, rel=1e-12, abs=0)


@given(ROWS, BITS, st.sampled_from([None, 3, 4]))
def test_groups_are_rounded_as_number_by_number(x: Array, bits: Any, group: int | None) -> None:
    slow = [naive_round(row, bits, group or 12) for row in x]
    fast = rounded(x, Grouped(bits=bits, group=group))
    np.testing.assert_allclose(fast, slow, atol=1e-9 * ((x.max() - x.min()) or 1), rtol=1e-9)


@pytest.mark.parametrize("group", [None, 4])
def test_of_no_rows_nothing_is_rounded(group: int | None) -> None:
    """As where all rows of a step replay, so that none has an output to hold."""
    none = np.zeros((0, 12), np.float32)
    found = rounded(none, Grouped(bits=4, group=group))
    assert (found.shape, found.dtype) == (none.shape, none.dtype)


# ----------------------------------------------------------------------------------- polishing


@given(NUMBERS, FACTORS)
def test_polishing_is_undone(value: float, w: float) -> None:
    x, factor = np.array([value]), np.array([w])
    assert unpolished(polished(x, factor), factor) == pytest.approx(x, rel=1e-6, abs=1e-6 * w)


@given(ROWS)
def test_w_is_the_95th_percentile_and_never_zero(x: Array) -> None:
    w, expected = polishing(x), np.percentile(np.abs(x), 95, axis=0)
    assert (w > 0).all()
    np.testing.assert_allclose(w[expected > 0], expected[expected > 0])


# -------------------------------------------------------------------------------- compensation


def test_compensation_is_the_formula_with_one_sample_a_column() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(5, 30)), rng.normal(size=(3, 5))  # columns are samples; W is out x in
    x_rounded = np.round(x)
    gram = x_rounded @ x_rounded.T
    damping = DAMPING * np.diag(gram).mean() * np.eye(5)
    expected = w @ (x - x_rounded) @ x_rounded.T @ np.linalg.inv(gram + damping)
    np.testing.assert_allclose(compensation(w.T, x.T, x_rounded.T), expected.T, atol=1e-12)


# ------------------------------------------------------------------------------------ decoding


@settings(max_examples=25)
@given(
    n_kv_heads=st.sampled_from([1, 2, 4]),
    fields=st.fixed_dictionaries(
        {
            "weights": st.sampled_from([16, 4, {"bits": 3, "group": 4}]),
            "activations": st.sampled_from([4, 8]),
            "kv": st.sampled_from([16, 2, 3, {"bits": 4, "group": 1}, 8]),
            "replay": st.sampled_from([4, 8, 16]),
            "polish": st.sampled_from([(), ("down",), PRODUCTS]),
            "compensate": st.booleans(),
        }
    ),
    attention=st.sampled_from([None, Streaming(sinks=1, window=4)]),
)
def test_equals_the_naive_decoder(n_kv_heads: int, fields: Any, attention: Any) -> None:
    """Keys, values and inputs are rounded where the naive decoder rounds them, one by one."""
    config = make_config(n_kv_heads)
    weights = make(config, DecoderPrecision.model_validate(fields))
    policy = DecoderPolicy((0.0, 0.0), **({"attention": attention} if attention else {}))
    hidden, _, kept = run(config, policy, weights)
    naive = naive_rows(config, policy, weights)
    np.testing.assert_array_equal(kept.replay, naive.replay)
    np.testing.assert_allclose(kept.mlp, naive.mlp, atol=1e-8)
    np.testing.assert_allclose(hidden, naive.hidden, atol=1e-8)


def test_weights_are_rounded_per_output_channel_or_in_groups_of_inputs() -> None:
    config = make_config()
    exact = stack_weights(config, make_group(config).model.arrays)
    for grouped in (Grouped(bits=3), Grouped(bits=3, group=2)):
        made = make(config, DecoderPrecision(weights=grouped))
        for layer in range(2):
            for output, column in enumerate(exact.w_down[layer].T):
                expected = naive_round(column, 3, grouped.group or len(column))
                np.testing.assert_allclose(made.w_down[layer, :, output], expected, atol=1e-12)


def test_calibration_keeps_the_inputs_of_valid_tokens_in_order() -> None:
    """Rows have 4, 1, 3 and 1 prompt tokens, then one input a step."""
    config = make_config()
    group = make_group(config)
    collector = collect(group, stack_weights(config, group.model.arrays), lambda units: None)
    samples = collector.samples("qkv", 0)
    assert samples.shape == (4 + 1 + 3 + 1 + 4 * config.n_steps, WIDTH)
    text = group.model.arrays["embed_text"][list(b"abcd")].astype(float)
    normed = rms_norm(text, group.model.arrays["ln_attn"][0], config.rms_eps)
    np.testing.assert_allclose(samples[:4], normed)
    assert collector.samples("down", 1).shape[1] == config.geometry.ffn_size


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"weights": 5}, "2, 3, 4, 8 or 16"),
        ({"kv": {"bits": 4, "group": 0}}, "greater than 0"),
        ({"replay": 2}, "4, 8 or 16"),
        ({"polish": ("down", "down")}, "twice"),
        ({"activations": 16}, "do nothing for activations of 16 bits"),
        ({"bits": 4}, "unknown key 'bits'"),
    ],
)
def test_a_bad_precision_says_why(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        precision(**fields)


def test_a_precision_says_what_it_is() -> None:
    assert precision().short == "W4A4 KV4 replay 4, polished out down"
    assert precision().text == "W4A4 KV4 replay 4, polished out down, compensated"
    assert DecoderPrecision().text == "W16A16 KV16 replay 16"
    assert DecoderPrecision().calibration == Calibration(clips=4, frames=1)
