"""Rounding while decoding: grids, polishing, compensation, and what the caches keep."""

from typing import Any

import numpy as np
import pytest
from decoder_oracle import decode_with as run
from decoder_oracle import naive_round, naive_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from random_model import random_model

from carsim.decisions.attention import Streaming
from carsim.decisions.trace.precision import PRODUCTS, Calibration, DecoderPrecision, Grouped
from carsim.decoder.content import Codebook
from carsim.decoder.group import RowGroup
from carsim.decoder.layers import rms_norm
from carsim.decoder.precision import (
    DAMPING,
    CodeGrid,
    Inputs,
    compensation,
    polished,
    polishing,
    rounded,
    unpolished,
)
from carsim.decoder.quantise import collect, quantise
from carsim.decoder.structures import Array, Config, DecoderPolicy, Weights, stack_weights
from carsim.testing.decoder import PROMPT, WIDTH, make_config

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


def make_group(config: Config, seed: int = 0) -> RowGroup:
    """The four rows of the tiny decoder as two guidance pairs of a model with few codes."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (7, 48)).astype(np.uint8)
    model = random_model(config.geometry, Codebook(pixels), seed)
    return RowGroup(
        config=config,
        policy=DecoderPolicy((None,) * config.geometry.n_layers),
        model=model,
        prompts=(b"abcd", b"x", b"efg", b"x"),
        prompt_tokens=PROMPT,
        tokens=rng.integers(0, 7, (config.n_steps, 2)),
        given_steps=config.n_steps,
        sampling=None,
        seeds=((0, 1), (0, 2)),
    )


def make(config: Config, wanted: DecoderPrecision) -> Weights:
    return quantise(make_group(config), wanted, lambda units: None)


# ------------------------------------------------------------------------------------ rounding


@given(ROWS, BITS)
def test_rounding_moves_by_a_step_at_most_and_by_half_a_step_inside(x: Array, bits: int) -> None:
    low, high = x.min(axis=0), x.max(axis=0)
    grid = CodeGrid.over(low, high, bits)
    moved = np.abs(grid.round(x) - x) / grid.step
    assert (moved <= 1 + 1e-6).all()
    first, last = -grid.zero * grid.step, (grid.most - grid.zero) * grid.step
    inside = (x >= first) & (x <= last)
    assert (moved[inside] <= 0.5 + 1e-6).all()
    # The ends of the grid are those of the range but for the rounding of the zero point.
    wide = high - low > 1e-9 * np.maximum(np.abs(low), np.abs(high))
    assert (np.abs(first - low)[wide] <= 0.5001 * grid.step[wide]).all()
    assert (np.abs(last - high)[wide] <= 0.5001 * grid.step[wide]).all()


@given(NUMBERS, BITS)
def test_a_range_without_extent_is_met_exactly(value: float, bits: int) -> None:
    at = np.array([value])
    assert CodeGrid.over(at, at, bits).round(at) == pytest.approx(at, rel=1e-12, abs=0)


@given(ROWS, BITS, st.sampled_from([None, 3, 4]))
def test_groups_are_rounded_as_number_by_number(x: Array, bits: Any, group: int | None) -> None:
    slow = [naive_round(row, bits, group or 12) for row in x]
    fast = rounded(x, Grouped(bits=bits, group=group))
    step = (x.max() - x.min()) or 1
    np.testing.assert_allclose(fast, slow, atol=1e-9 * step, rtol=1e-9)


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


def test_polishing_helps_where_outliers_stretch_the_grid() -> None:
    """Normals, one in 50 of them thirty times as large: what is not an outlier keeps its place."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 4000, 8)) * np.where(rng.random((1, 4000, 8)) < 0.02, 30, 1)
    usual = np.abs(x) < 3
    errors = [
        np.abs(Inputs.of(x, 4, polish=polish).round(0, x[0]) - x[0])[usual[0]].mean()
        for polish in (False, True)
    ]
    assert errors[1] < 0.5 * errors[0]


# -------------------------------------------------------------------------------- compensation


@given(st.integers(0, 10_000), BITS, st.integers(1, 40))
def test_compensation_does_not_raise_the_error_on_its_samples(seed: int, bits: int, samples: int):
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(1, samples, 6)) ** 3, rng.normal(size=(6, 4))
    x_rounded = Inputs.of(x, bits, polish=bool(seed % 2)).round(0, x[0])
    error = np.linalg.norm(x[0] @ w - x_rounded @ w)
    compensated = np.linalg.norm(x[0] @ w - x_rounded @ (w + compensation(w, x[0], x_rounded)))
    assert compensated <= error * (1 + 1e-9)


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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sixteen_bits_decode_to_the_bit_as_without_a_precision(dtype: str) -> None:
    config, policy = make_config(dtype=dtype), DecoderPolicy((0.0, 0.0))
    hidden, state, _ = run(config, policy, make(config, DecoderPrecision()))
    exact = stack_weights(config, make_group(config).model.arrays)
    expected, expected_state, _ = run(config, policy, exact)
    assert hidden.tobytes() == expected.tobytes()
    assert state.k.tobytes() == expected_state.k.tobytes()
    assert state.held.tobytes() == expected_state.held.tobytes()


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
    exact = stack_weights(config, group.model.arrays)
    collector = collect(group, exact, lambda units: None)
    samples = collector.samples("qkv")
    assert samples.shape == (2, 4 + 1 + 3 + 1 + 4 * config.n_steps, WIDTH)
    text = group.model.arrays["embed_text"][list(b"abcd")].astype(float)
    normed = rms_norm(text, group.model.arrays["ln_attn"][0], config.rms_eps)
    np.testing.assert_allclose(samples[0, :4], normed)
    assert collector.samples("down").shape[2] == config.geometry.ffn_size


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


def test_groups_must_divide_what_they_are_groups_of() -> None:
    geometry = make_config().geometry  # 8 inputs, 12 of the down projection, heads of 2
    precision().check(geometry.input_widths, geometry.head_dim)
    with pytest.raises(ValueError, match=r"weights: group 8 does not divide all of 8, 12"):
        precision(weights={"bits": 4, "group": 8}).check(geometry.input_widths, geometry.head_dim)
    with pytest.raises(ValueError, match=r"kv: group 4 does not divide all of 2"):
        precision(kv={"bits": 4, "group": 4}).check(geometry.input_widths, geometry.head_dim)


def test_a_precision_says_what_it_is() -> None:
    assert precision().short == "W4A4 KV4 replay 4, polished out down"
    assert precision().text == (
        "W4A4 KV4 replay 4, polished out down, weights in groups of 4, compensated"
    )
    assert DecoderPrecision().text == "W16A16 KV16 replay 16"
    assert DecoderPrecision().calibration == Calibration(clips=4, frames=1)
