"""Synthetic traces: published marginals, the correlations of a captured trace, and a label."""

import math
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_maker import make_trace

from carsim.base.errors import InputError
from carsim.decisions.trace import (
    Assumptions,
    SyntheticModel,
    Trace,
    captured,
    crop,
    load_trace,
    measure,
    phi,
    replay_ratio,
    rethreshold,
    save_trace,
    synthesize,
    trace_stats,
)
from carsim.decisions.trace.assumed import TWIN, profile
from carsim.decisions.trace.copula import correlation_of, phi_of, thresholds
from carsim.decisions.trace.meta import SYNTHETIC
from carsim.decisions.trace.synthetic import draw

SMALL: dict[str, Any] = {"frames": 3, "tokens_per_frame": 8, "pairs": 2, "layers": 4}
WIDE = SyntheticModel(ratio=0.6, frames=6, tokens_per_frame=1024, pairs=4, layers=6)
"""Few frames, layers and rows of many places, which are independent: they tell the error."""

SIGMAS = 5  # of a normal: 6 of ten million draws lie farther out


@st.composite
def assumptions(draw_one: st.DrawFn) -> Assumptions:
    share = st.floats(0, 1)
    pair, persistence = draw_one(share), draw_one(share)
    return Assumptions(
        dip=draw_one(st.floats(0, 6)),
        within_pair=pair,
        across_clips=draw_one(st.floats(0, pair)),
        across_layers=draw_one(share),
        persistence=persistence,
        lasting=draw_one(st.floats(0, persistence)),
    )


MODELS = st.builds(
    SyntheticModel,
    ratio=st.floats(0, 1),
    assumed=assumptions(),
    frames=st.integers(2, 4),
    tokens_per_frame=st.integers(1, 9),
    pairs=st.integers(1, 3),
    layers=st.integers(1, 5),
    prompt_tokens=st.integers(1, 9),
    seed=st.integers(0, 2**70),
)


# ------------------------------------------------------------------------------------ copula


@pytest.mark.parametrize("p", [0.02, 0.3, 0.5, 0.99])
def test_phi_of_equal_decisions_is_one_and_of_strangers_zero(p: float) -> None:
    assert phi_of(1.0, p, p) == pytest.approx(1, abs=1e-6)
    assert phi_of(0.0, p, p) == 0


def test_phi_is_what_draws_show() -> None:
    """A million pairs: the standard error of phi is below 0.0015 at these probabilities."""
    rng = np.random.default_rng(0)
    for correlation, p, q in ((0.3, 0.5, 0.2), (0.9, 0.5, 0.5), (0.7, 0.9, 0.6)):
        first, other = rng.standard_normal((2, 10**6))
        second = correlation * first + math.sqrt(1 - correlation**2) * other
        drawn = phi(first > thresholds(p), second > thresholds(q))
        assert drawn == pytest.approx(float(phi_of(correlation, p, q)), abs=SIGMAS * 0.0015)


@given(correlation=st.floats(0, 0.999), p=st.floats(0.01, 0.99))
def test_a_correlation_comes_back_from_its_phi(correlation: float, p: float) -> None:
    value = float(phi_of(correlation, p, p))
    assert 0 <= value <= correlation + 1e-9, "Gebelein: decisions correlate less than normals"
    assert correlation_of(value, [p], [p]) == pytest.approx(correlation, abs=1e-6)


def test_a_phi_out_of_reach_gives_an_end() -> None:
    assert correlation_of(-0.2, [0.5], [0.5]) == 0
    assert correlation_of(1.0, [0.2], [0.7]) == pytest.approx(1)


# ------------------------------------------------------------------------------------ marginals


@given(ratio=st.floats(0, 1), dip=st.floats(0, 20), layers=st.integers(1, 40))
def test_layers_have_the_ratio_in_the_mean_and_the_least_in_the_middle(
    ratio: float, dip: float, layers: int
) -> None:
    p = profile(ratio, dip, layers)
    assert p.mean() == pytest.approx(ratio, abs=1e-9)
    np.testing.assert_allclose(p, p[::-1], atol=1e-12)
    assert (np.diff(p[: (layers + 1) // 2]) <= 1e-15).all(), "falls to the middle"


def test_the_dip_is_the_distance_of_the_middle_in_logits() -> None:
    ends, middle = profile(0.5, 2.0, 33)[[0, 16]]
    assert math.log(ends / (1 - ends)) - math.log(middle / (1 - middle)) == pytest.approx(2)
    assert np.ptp(profile(0.3, 0.0, 32)) == 0


@pytest.mark.parametrize("ratio", [0.2, 0.5, 0.8, 0.87])
def test_a_trace_has_the_ratio_that_was_asked_for(ratio: float) -> None:
    model = replace(WIDE, ratio=ratio)
    replay = draw(model)
    over_all, eligible = replay_ratio(replay, model.tokens_per_frame)
    assert eligible == pytest.approx(ratio, abs=SIGMAS * model.standard_error)
    assert over_all == pytest.approx(eligible * 5 / 6)
    assert model.standard_error < 0.01
    by_layer = replay[model.tokens_per_frame :].mean(axis=(0, 2))
    alone = replace(model, layers=1).standard_error  # of one layer, at the mean ratio
    np.testing.assert_allclose(by_layer, model.by_layer, atol=SIGMAS * 1.5 * alone)


def test_the_standard_error_is_an_upper_bound_and_not_a_wide_one() -> None:
    model = SyntheticModel(ratio=0.5, frames=5, tokens_per_frame=16, pairs=2, layers=4)
    drawn = [
        replay_ratio(draw(replace(model, seed=seed)), model.tokens_per_frame)[1]
        for seed in range(400)
    ]
    spread = np.std(drawn)  # itself known to 1 in sqrt(800)
    assert 0.7 * model.standard_error < spread < model.standard_error * (1 + SIGMAS / 800**0.5)


# ------------------------------------------------------------------------------------ correlations


def test_decisions_correlate_as_stated() -> None:
    """Every factor of the model, measured in 16 groups of 64 places each, which are independent."""
    clips = {"within_pair": 0.7, "across_clips": 0.3}
    assumed = replace(TWIN, **clips, across_layers=0.2, lasting=0.25, persistence=0.6)
    model = replace(WIDE, assumed=assumed)
    whole = measure(synthesize(model))
    shape = (model.frames, 16, 64, *model.shape[1:])
    groups = [
        asdict(measure(_of(draw(model).reshape(shape)[:, group], model))) for group in range(16)
    ]
    for name, wanted in asdict(assumed).items():
        error = np.std([each[name] for each in groups], ddof=1) / 4
        assert getattr(whole, name) == pytest.approx(wanted, abs=SIGMAS * error + 1e-3), name
        assert error < 0.05 * (4 if name == "dip" else 1), f"{name}: the test says something"


def _of(replay: np.ndarray[Any, Any], model: SyntheticModel) -> Trace:
    part = replace(model, tokens_per_frame=replay.shape[1])
    made = synthesize(replace(part, ratio=0.0))
    return replace(made, replay=replay.reshape(part.shape))


def test_correlations_multiply() -> None:
    """A row and its partner one frame later: the product of both correlations."""
    model = replace(WIDE, assumed=replace(TWIN, dip=0.0), ratio=0.5)
    x = draw(model).reshape(model.frames, model.tokens_per_frame, *model.shape[1:])[1:]
    found = phi(x[1:, ..., 0::2], x[:-1, ..., 1::2])
    wanted = float(phi_of(TWIN.within_pair * TWIN.persistence, 0.5, 0.5))
    assert found == pytest.approx(wanted, abs=SIGMAS / math.sqrt(model.tokens_per_frame * 4))


def test_rows_of_a_pair_agree_more_than_strangers_and_less_than_copies() -> None:
    stats = trace_stats(synthesize(WIDE))
    for found, correlation in (
        (stats.within_layer_pair_phi, TWIN.within_pair),
        (stats.within_layer_clip_phi, TWIN.across_clips),
    ):
        wanted = phi_of(correlation, WIDE.by_layer, WIDE.by_layer).mean()
        assert found == pytest.approx(wanted, abs=SIGMAS / math.sqrt(1024 * 4))
    same = draw(replace(WIDE, assumed=replace(TWIN, within_pair=1.0)))
    np.testing.assert_array_equal(same[..., 0::2], same[..., 1::2])


@settings(deadline=None)
@given(model=MODELS)
def test_what_holds_of_every_model(model: SyntheticModel) -> None:
    trace = synthesize(model)
    first = trace.replay[: model.tokens_per_frame]
    assert not first.any(), "the first frame never replays"
    np.testing.assert_array_equal(synthesize(model).replay, trace.replay)
    assert synthesize(model).sha256 == trace.sha256
    more = draw(replace(model, frames=model.frames + 2, pairs=model.pairs + 1))
    steps, _, rows = model.shape
    np.testing.assert_array_equal(more[:steps, :, :rows], trace.replay, "and goes on from there")
    higher = draw(replace(model, ratio=min(1.0, model.ratio + 0.1)))
    assert (higher >= trace.replay).all(), "what replays at a ratio replays at a higher one"


def test_a_cropped_trace_is_that_of_fewer_frames() -> None:
    long, short = (synthesize(SyntheticModel(0.5, **{**SMALL, "frames": n})) for n in (5, 3))
    np.testing.assert_array_equal(crop(captured(long), 3, 8).replay, short.replay)


def test_other_seeds_draw_other_decisions() -> None:
    drawn = [draw(SyntheticModel(0.5, **SMALL, seed=seed)) for seed in (0, 1, 2**32, 2**32 + 1)]
    assert len({each.tobytes() for each in drawn}) == 4


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_the_ends_are_dense_decoding_and_replay_wherever_it_may(ratio: float) -> None:
    model = SyntheticModel(ratio, **SMALL)
    assert draw(model)[8:].mean() == ratio
    assert model.standard_error == 0


# ------------------------------------------------------------------------------------ measuring


def test_a_trace_like_a_captured_one_shows_what_that_shows() -> None:
    """Places of the twin agree with their neighbours, so that its own error is what errors are."""
    own = load_trace(Path(__file__).parents[3] / "traces/vilau_8f_r80.npz")
    model = SyntheticModel.like(own, ratio=0.8)
    assert model.shape == own.replay.shape
    assert (model.pairs, model.prompt_tokens) == (own.n_rows // 2, own.prompt_tokens)
    drawn, wanted = measure(synthesize(model)), measure(own)
    for name, value in asdict(wanted).items():
        close = 0.25 if name == "dip" else 0.03
        assert getattr(drawn, name) == pytest.approx(value, abs=close), name


def test_the_defaults_are_those_of_the_first_shipped_trace() -> None:
    """If it fails: the trace was captured again, so write what it shows into ``TWIN``.

    Then make the published traces again (traces/README.md).
    """
    assert measure(load_trace(Path(__file__).parents[3] / "traces/vilau_8f.npz")) == TWIN


def test_what_is_too_small_to_show_is_nought() -> None:
    one = SyntheticModel(0.5, frames=2, tokens_per_frame=64, pairs=1, layers=1)
    found = measure(synthesize(one))
    assert found.within_pair > 0.5
    assert asdict(replace(found, within_pair=0)) == dict.fromkeys(asdict(found), 0)


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(InputError, match="has no guidance pairs; take a trace with"):
        measure(make_trace(guidance_pairs=()))
    for trace in (make_trace(tau=math.inf), make_trace(n_frames=1)):
        with pytest.raises(InputError, match="no layer both computes and replays"):
            measure(trace)


# ------------------------------------------------------------------------------------ the trace


def test_it_is_labelled_wherever_it_is_named(tmp_path: Path) -> None:
    trace = synthesize(SyntheticModel(0.5, **SMALL, seed=3))
    label = "synthetic (published marginals), 50 % of eligible steps, seed 3"
    assert label.startswith(SYNTHETIC)
    assert (trace.name, trace.title, trace.meta.tau_text) == (label, label, label)
    saved = save_trace(tmp_path / "drawn.npz", trace)
    loaded = load_trace(tmp_path / "drawn.npz")
    assert loaded.sha256 == saved.sha256 == synthesize(SyntheticModel(0.5, **SMALL, seed=3)).sha256
    assert (loaded.name, loaded.title) == ("drawn.npz", f"drawn.npz: {label}")
    decisions = captured(loaded)
    assert (decisions.source, decisions.label) == (SYNTHETIC, label)
    equal = SyntheticModel(0.125, replace(TWIN, dip=0.0))
    assert equal.label == "12.5 % of eligible steps, equal in all layers, seed 0"


def test_there_are_no_scores_to_threshold() -> None:
    trace = synthesize(SyntheticModel(0.5, **SMALL))
    assert trace_stats(trace).tas_quantiles.size == 0
    for tau in (0.5, 0.3, [0.5] * 4):
        with pytest.raises(InputError, match=r"synthetic \(published marginals\).* hold no scores"):
            rethreshold(trace, tau)


@settings(deadline=None)
@given(model=MODELS)
def test_the_command_says_all_of_the_model(model: SyntheticModel) -> None:
    words = shlex.split(model.command)
    assert words[:3] == ["carsim", "trace", "synthesize"]
    names = (name.removeprefix("--").replace("-", "_") for name in words[3::2])
    said = dict(zip(names, map(float, words[4::2]), strict=True))
    assumed = {name: said.pop(name) for name in asdict(TWIN)}
    video = {name: value if name == "ratio" else int(value) for name, value in said.items()}
    video |= {"seed": model.seed}  # a float would lose digits of it
    assert SyntheticModel(**video, assumed=Assumptions(**assumed)) == model


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"ratio": 1.01}, "ratio: expected 0 to 1, got 1.01"),
        ({"ratio": math.nan}, "ratio: expected 0 to 1, got nan"),
        ({"frames": 1}, "frames: expected 2 or more, got 1"),
        ({"layers": 0}, "layers: expected 1 or more, got 0"),
        ({"seed": -1}, "seed: expected 0 or more, got -1"),
        (
            {"frames": 10**7},
            "synthetic trace: .* and 32 rows take some 52428.8 GB of memory",
        ),
    ],
)
def test_a_model_out_of_range_is_refused(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        SyntheticModel(**{"ratio": 0.5, **changes})


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"dip": -1.0}, "dip: expected 0 to 20, got -1.0"),
        ({"across_layers": 1.5}, "across_layers: expected 0 to 1, got 1.5"),
        ({"across_clips": 0.95}, "across_clips: expected 0 to 0.922, got 0.95"),
        ({"lasting": 0.9}, "lasting: expected 0 to 0.555, got 0.9"),
    ],
)
def test_an_assumption_out_of_range_is_refused(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        replace(
            Assumptions(
                dip=2.0,
                within_pair=0.922,
                across_clips=0.1,
                across_layers=0.1,
                persistence=0.555,
                lasting=0.1,
            ),
            **changes,
        )
