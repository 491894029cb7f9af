"""Reconstruction: weights rounded up or down so that outputs change least."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_group import make, make_group

from carsim.decisions.trace.precision import DecoderPrecision, Grouped
from carsim.decoder.precision import compensation, neighbours, rounded
from carsim.decoder.quantise import collect
from carsim.decoder.reconstruction import input_moments, reconstructed, rounding_cost
from carsim.decoder.structures import Array, stack_weights
from carsim.testing.decoder import make_config


def drawn(seed: int, n: int, out: int) -> tuple[Array, Array]:
    """Weights [n, out], and inputs [40, n] that are correlated."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(n, n))
    return rng.normal(size=(n, out)), rng.normal(size=(40, n)) @ mixing


def cost(w: Array, made: Array, x: Array) -> float:
    """Cost of rounded weights over all outputs."""
    return float(rounding_cost(made - w, input_moments(x)).sum())


@given(seed=st.integers(0, 999), bits=st.sampled_from([2, 3, 4]), group=st.sampled_from([None, 4]))
@settings(max_examples=40)
def test_no_single_weight_lowers_the_cost(seed: int, bits: Any, group: int | None) -> None:
    grouped = Grouped(bits=bits, group=group)
    w, x = drawn(seed, n=8, out=3)
    made = reconstructed(w, x, grouped)
    lower, upper = (values.T for values in neighbours(w.T, grouped))
    assert np.all(np.isclose(made, lower) | np.isclose(made, upper))
    least = cost(w, made, x)
    assert least <= cost(w, rounded(w.T, grouped).T, x) * (1 + 1e-9)
    for place in np.ndindex(w.shape):
        for values in (lower, upper):
            other = made.copy()
            other[place] = values[place]
            assert cost(w, other, x) >= least * (1 - 1e-9)


def test_the_best_of_all_choices_is_never_missed_by_much() -> None:
    """Of 2^6 choices for each of 20 products of one output: near the best in the mean."""
    over_best = []
    over_nearest = []
    grouped = Grouped(bits=3)
    for seed in range(20):
        w, x = drawn(seed, n=6, out=1)
        lower, upper = (values.T for values in neighbours(w.T, grouped))
        choices = product(*([low[0], high[0]] for low, high in zip(lower, upper, strict=True)))
        best = min(cost(w, np.array(choice)[:, None], x) for choice in choices)
        made = cost(w, reconstructed(w, x, grouped), x)
        assert made >= best * (1 - 1e-9)
        over_best.append(made / best)
        over_nearest.append(made / cost(w, rounded(w.T, grouped).T, x))
    assert np.mean(over_best) < 1.5
    assert np.mean(over_nearest) < 0.9


def test_independent_inputs_leave_the_nearest_values() -> None:
    w, _ = drawn(1, n=5, out=4)
    x = np.eye(5) * 3.0
    grouped = Grouped(bits=4)
    np.testing.assert_allclose(reconstructed(w, x, grouped), rounded(w.T, grouped).T)


def test_16_bits_are_left_alone() -> None:
    w, x = drawn(2, n=4, out=2)
    assert reconstructed(w, x, Grouped(bits=16)) is w


@pytest.mark.parametrize("activations", [16, 4])
def test_a_decoder_has_reconstructed_weights(activations: int) -> None:
    """Inputs are those that enter: exact ones, or as calibration rounds them."""
    config = make_config()
    fields = {"weights": 3, "activations": activations, "reconstruct": True}
    precision = DecoderPrecision.model_validate(fields)
    made = make(config, precision)
    group = make_group(config)
    exact = stack_weights(config, group.model.arrays)
    collector = collect(group, exact, lambda units: None)
    for layer in range(2):
        x = collector.samples("down", layer)
        if activations < 16:
            x = made.arithmetic.inputs["down"][layer].round(x)
        expected = reconstructed(exact.w_down[layer], x, precision.weights)
        np.testing.assert_allclose(made.w_down[layer], expected)


def test_reconstruction_follows_compensation() -> None:
    config = make_config()
    fields = {"weights": 3, "activations": 4, "compensate": True, "reconstruct": True}
    made = make(config, DecoderPrecision.model_validate(fields))
    group = make_group(config)
    exact = stack_weights(config, group.model.arrays)
    x = collect(group, exact, lambda units: None).samples("out", 0)
    entering = made.arithmetic.inputs["out"][0].round(x)
    changed = exact.w_out[0] + compensation(exact.w_out[0], x, entering)
    expected = reconstructed(changed.astype(exact.w_out.dtype), entering, Grouped(bits=3))
    np.testing.assert_allclose(made.w_out[0], expected)


def test_weights_of_16_bits_are_not_reconstructed() -> None:
    with pytest.raises(ValueError, match="reconstruct does nothing for weights of 16 bits"):
        DecoderPrecision(reconstruct=True)


def test_a_reconstructed_precision_says_so_and_others_are_written_as_before() -> None:
    fields = {"weights": 4, "reconstruct": True}
    assert DecoderPrecision.model_validate(fields).text.endswith(", reconstructed")
    assert "reconstruct" not in DecoderPrecision().model_dump()
