"""Decisions and statistics: every approximation says that it is one."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_maker import make_quality, make_trace

from carsim.base.errors import InputError
from carsim.decisions.trace import Decisions, Trace, captured, dense, replay_ratio, trace_stats
from carsim.decisions.trace.decisions import DecisionShape, check_decisions, rescope, rethreshold
from carsim.decisions.trace.file import load_trace, save_trace
from carsim.decisions.trace.resize import crop, enlarge, layers_at_depth, resample
from carsim.design import load_design
from carsim.design.load import for_work
from carsim.workload.workload import workload_of


@given(st.integers(1, 40), st.integers(1, 40))
def test_depths_are_mapped_in_order_evenly_and_from_both_ends_alike(have: int, wanted: int) -> None:
    taken = layers_at_depth(have, wanted)
    assert (np.diff(taken) >= 0).all()
    assert taken[0] >= 0
    assert taken[-1] < have
    counts = np.bincount(taken, minlength=have)
    assert counts.max() - counts.min() <= 1
    # Each is the layer in which the middle of its own depth lies.
    middles = (np.arange(wanted) + 0.5) / wanted
    assert (taken <= middles * have + 1e-9).all()
    assert (middles * have - 1e-9 <= taken + 1).all()


def test_captured_decisions_are_the_trace() -> None:
    trace = make_trace()
    decisions = captured(trace)
    assert decisions.replay is trace.replay
    assert decisions.source == "captured"
    assert decisions.label == "captured in unsaved trace at tau 0.1"
    assert (decisions.n_steps, decisions.n_layers, decisions.n_rows) == (12, 2, 4)
    assert decisions.pairs == ((0, 1), (2, 3))


def test_own_tau_is_captured_and_any_other_is_open_loop() -> None:
    trace = make_trace()
    assert rethreshold(trace, 0.1).source == "captured"
    assert rethreshold(trace, [0.1, 0.1]).source == "captured"
    other = rethreshold(trace, -0.5)
    assert other.source == "re-thresholded (open loop)"
    assert "tau 0.1" in other.label
    assert "tau -0.5 (open loop)" in other.label
    np.testing.assert_array_equal(other.replay, np.nan_to_num(trace.tas, nan=-9) > -0.5)
    by_layer = rethreshold(trace, [-0.5, 9.0])
    np.testing.assert_array_equal(by_layer.replay[:, 0], other.replay[:, 0])
    assert not by_layer.replay[:, 1].any()


def test_one_tau_leaves_exempt_layers_exempt() -> None:
    trace = make_trace(tau=(0.1, float("inf")))
    assert rethreshold(trace, 0.1).source == "captured"
    lower = rethreshold(trace, -0.5)
    assert lower.replay[:, 0].sum() > trace.replay[:, 0].sum()
    assert not lower.replay[:, 1].any()
    assert "re-thresholded at tau -0.5 (layer 1 never replays) (open loop)" in lower.label
    every = rethreshold(trace, [-0.5, -0.5])
    assert every.replay[:, 1].any(), "a threshold for each layer replaces all of them"


def test_one_tau_replaces_all_where_no_layer_replayed() -> None:
    for tau in (float("inf"), (float("inf"), float("inf"))):
        trace = make_trace(tau=tau)
        assert rethreshold(trace, -0.5).replay[4:].any(axis=(0, 2)).all()
        assert "re-thresholded at tau -0.5 (open loop)" in rethreshold(trace, -0.5).label


def test_own_decisions_have_a_label_and_a_hash_of_their_own(tmp_path: Path) -> None:
    base = make_trace(quality=make_quality())
    replay = np.zeros_like(base.replay)
    replay[5::2] = True
    mine = Trace.from_decisions(replay, base, "every second step")
    decisions = captured(mine)
    assert (decisions.label, decisions.source) == ("every second step", "own decisions")
    assert mine.name == "every second step"
    assert mine.meta.quality is None
    saved = save_trace(tmp_path / "mine.npz", mine)
    assert len(mine.sha256) == 64
    assert mine.sha256 == saved.sha256
    assert captured(load_trace(tmp_path / "mine.npz")).label == "every second step"
    np.testing.assert_array_equal(load_trace(tmp_path / "mine.npz").replay, replay)
    with pytest.raises(InputError, match="hold no scores"):
        rethreshold(mine, 0.3)
    replay[0] = True
    with pytest.raises(InputError, match="every step: array 'replay': frame 0 cannot replay"):
        Trace.from_decisions(replay, base, "every step")
    with pytest.raises(InputError, match="expected bool of shape"):
        Trace.from_decisions(replay[4:], base, "too short")
    alone = replace(base, meta=base.meta.model_copy(update={"guidance_pairs": ()}))
    with pytest.warns(UserWarning, match="rows without guidance pairs, each of which is a video"):
        Trace.from_decisions(np.zeros_like(replay), alone, "no pairs")


def test_changed_decisions_are_the_users_own(tmp_path: Path) -> None:
    """They claim neither the file nor the hash of the trace that they were changed from."""
    base = save_trace(tmp_path / "base.npz", make_trace(quality=make_quality()))
    replay = base.replay.copy()
    replay[7] = ~replay[7]
    changed = replace(base, replay=replay)
    decisions = captured(changed)
    assert decisions.source == "own decisions"
    assert decisions.label == "own decisions, changed from what was decided at tau 0.1"
    assert changed.path is None
    assert changed.sha256 != base.sha256
    with pytest.raises(InputError, match="hold no scores"):
        rethreshold(changed, 0.3)
    saved = save_trace(tmp_path / "changed.npz", changed)
    assert saved.sha256 == changed.sha256
    opened = load_trace(saved.path)
    assert captured(opened).label == decisions.label
    np.testing.assert_array_equal(opened.replay, replay)
    again = replace(opened, replay=base.replay)
    assert captured(again).label.endswith(f"changed from {decisions.label}")


def test_what_is_not_changed_stays_captured(tmp_path: Path) -> None:
    base = save_trace(tmp_path / "base.npz", make_trace())
    same = replace(base, replay=base.replay.copy())
    assert captured(same).source == "captured"
    assert same.sha256 == base.sha256
    assert "base.npz" not in captured(same).label, "it may differ from the file"


def test_rethresholding_keeps_the_scope() -> None:
    lower = rethreshold(make_trace(decision_scope="pair"), -0.5)
    assert lower.scope == "pair"
    np.testing.assert_array_equal(lower.replay[..., 0], lower.replay[..., 1])


def test_rethresholding_refuses_what_it_cannot_do() -> None:
    with pytest.raises(InputError, match=r"tau: expected one number, or 2 \(one per layer\)"):
        rethreshold(make_trace(), [0.1, 0.2, 0.3])
    with pytest.raises(InputError, match="tau: expected"):
        rethreshold(make_trace(), float("nan"))
    with pytest.raises(InputError, match="hold no scores"):
        rethreshold(make_trace(tau=(0.1, None)), 0.3)


def test_rescoping_is_open_loop_and_only_coarsens() -> None:
    rows = captured(make_trace())
    pairs = rescope(rows, "pair")
    batch = rescope(pairs, "batch")
    np.testing.assert_array_equal(rescope(rows, "batch", batch=2).replay, pairs.replay)
    assert pairs.source == batch.source == "re-scoped (open loop)"
    assert pairs.label == f"{rows.label}, re-scoped to pair (open loop)"
    np.testing.assert_array_equal(pairs.replay[..., 0], rows.replay[..., 0] & rows.replay[..., 1])
    everyone = np.broadcast_to(rows.replay.all(-1, keepdims=True), rows.replay.shape)
    np.testing.assert_array_equal(batch.replay, everyone)
    assert rescope(rows, "row") is rows
    with pytest.raises(InputError, match="'row' is finer than 'pair'"):
        rescope(pairs, "row")


def test_resampling_keeps_pairs_whole_and_the_first_frame_dense() -> None:
    decisions = captured(make_trace())
    more = resample(decisions, np.random.default_rng(1), tokens_per_frame=4, n_rows=12, n_frames=7)
    assert more.replay.shape == (28, 2, 12)
    assert more.source == "resampled"
    assert "resampled from 4 rows of 3 frames to 12 rows of 7 frames (copies" in more.label
    np.testing.assert_array_equal(more.replay[:12, :, :4], decisions.replay)
    assert more.pairs == tuple((row, row + 1) for row in range(0, 12, 2))
    originals = [decisions.replay[..., list(pair)] for pair in decisions.pairs]
    for pair in more.pairs:
        copy = more.replay[:12][..., list(pair)]
        assert any(np.array_equal(copy, original) for original in originals)
    frames = decisions.replay.reshape(3, 4, 2, 4)
    for frame in more.replay[12:, :, :4].reshape(4, 4, 2, 4):
        assert any(np.array_equal(frame, original) for original in frames[1:])


def test_resampling_single_rows_and_nothing_at_all() -> None:
    decisions = captured(make_trace(guidance_pairs=()))
    rng = np.random.default_rng(0)
    assert resample(decisions, rng, tokens_per_frame=4, n_rows=7).replay.shape == (12, 2, 7)
    assert resample(dense(8, 1, 1), rng, tokens_per_frame=4, n_frames=9).n_steps == 36


def test_resampling_refuses_what_it_cannot_do() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="3 extra rows are no whole number of guidance pairs"):
        resample(captured(make_trace()), rng, tokens_per_frame=4, n_rows=7)
    with pytest.raises(InputError, match="never replays"):
        resample(dense(4, 1, 1), rng, tokens_per_frame=4, n_frames=2)


def test_dense_replays_nothing_and_has_no_eligible_step_in_one_frame() -> None:
    assert replay_ratio(dense(4, 2, 2).replay, 4) == (0.0, 0.0)
    assert dense(4, 2, 2).source == "dense"


def test_phi_is_taken_over_layers_that_can_replay() -> None:
    """Rows decide independently in layer 0; in layer 1, whose threshold is infinite, none can."""
    trace = make_trace(tau=(0.1, np.inf))
    tas = np.full_like(trace.tas, -1.0)
    tas[:4] = np.nan
    tas[4:8, 0, 0] = 1.0
    tas[[4, 5, 8, 9], 0, 1] = 1.0
    stats = trace_stats(type(trace)(np.nan_to_num(tas) > 0.1, tas, trace.meta))
    assert stats.pair_phi[0] == pytest.approx(0.0)


def test_statistics_of_a_pattern_made_by_hand() -> None:
    """Rows 0 and 1 agree, row 2 does the opposite, row 3 never replays; layer 1 always computes."""
    trace = make_trace()
    tas = np.full_like(trace.tas, -1.0)
    tas[:4] = np.nan
    tas[4:8, 0, :2] = 1.0
    tas[8:, 0, 2] = 1.0
    stats = trace_stats(type(trace)(np.nan_to_num(tas) > 0.1, tas, trace.meta))
    assert stats.ratio.over_eligible == pytest.approx(12 / 64)
    assert stats.ratio.over_all == pytest.approx(12 / 96)
    assert [layer.over_eligible for layer in stats.by_layer] == [12 / 32, 0.0]
    assert [row.over_eligible for row in stats.by_row] == [4 / 16, 4 / 16, 4 / 16, 0.0]
    assert stats.by_frame.tolist() == [0.0, 8 / 32, 4 / 32]
    assert stats.pair_phi[0] == pytest.approx(1.0)
    assert np.isnan(stats.pair_phi[1])
    assert stats.clip_phi == pytest.approx(-1 / 3)
    assert stats.within_layer_pair_phi == pytest.approx(1.0)
    assert stats.within_layer_clip_phi == pytest.approx(-1.0)
    assert stats.tas_quantiles[[0, -1]].tolist() == [-1.0, 1.0]


def test_statistics_of_a_dense_trace() -> None:
    stats = trace_stats(make_trace(tau=None))
    assert stats.ratio.over_all == 0.0
    assert not stats.tas_quantiles.size
    assert np.isnan(stats.clip_phi)


def test_cropping_keeps_the_first_frames() -> None:
    decisions = captured(make_trace())
    part = crop(decisions, 2, 4)
    np.testing.assert_array_equal(part.replay, decisions.replay[:8])
    assert part.source == "captured"
    assert part.label.endswith("the first 2 of 3 frames")


def test_larger_frames_decide_as_the_tokens_at_their_place() -> None:
    decisions = captured(make_trace())
    larger = enlarge(decisions, 4, 9)
    assert larger.source == "resampled"
    assert larger.label.endswith("resampled from 4 to 9 tokens per frame")
    assert larger.n_steps == 27
    small, large = (
        each.replay.reshape(3, side, side, 2, 4) for each, side in ((decisions, 2), (larger, 3))
    )
    # Of three places, the first two lie over the first of two.
    np.testing.assert_array_equal(large[:, :2, :2], small[:, :1, :1].repeat(2, 1).repeat(2, 2))
    np.testing.assert_array_equal(large[:, 2, 2], small[:, 1, 1])
    assert replay_ratio(enlarge(decisions, 4, 16).replay, 16) == replay_ratio(decisions.replay, 4)
    assert enlarge(decisions, 4, 4) is decisions
    for wanted in (1, 8):
        with pytest.raises(InputError, match="cannot be enlarged"):
            enlarge(decisions, 4, wanted)


SCORES = np.array([0.01, 0.3, -1.0])


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (SCORES, "float64"),
        (np.array([0.0, 1.0, 0.0]), "float64"),
        (np.array([0, 2, 0]), "2"),
        (np.array([0, -1, 0], np.int8), "-1"),
        (np.array(["", "False", ""]), "<U5"),
    ],
)
def test_only_truth_values_are_decisions(values: Any, says: str) -> None:
    """A score that is cast to bool is True: every step would replay."""
    base = make_trace()
    array = np.zeros(base.replay.shape, values.dtype)
    array[5, 0, :3] = values
    with pytest.raises(InputError, match=re.escape(says)) as error:
        Trace.from_decisions(array, base, "an idea")
    assert "bool" in str(error.value)
    with pytest.raises(InputError, match=re.escape(says)):
        replace(base, replay=array)
    with pytest.raises(InputError, match=re.escape(says)):
        Decisions(array, "captured", "made up")
    with pytest.raises(InputError, match=re.escape(says)):
        replay_ratio(array, 4)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64])
def test_zeros_and_ones_are_decisions_of_any_whole_type(dtype: Any) -> None:
    base = make_trace()
    wanted = np.zeros(base.replay.shape, bool)
    wanted[5::2] = True
    for made in (
        Trace.from_decisions(wanted.astype(dtype), base, "an idea"),
        Trace.from_decisions(wanted.astype(dtype).tolist(), base, "an idea"),
        replace(base, replay=wanted.astype(dtype)),
    ):
        assert made.replay.dtype == bool
        np.testing.assert_array_equal(captured(made).replay, wanted)


@pytest.mark.parametrize("label", ["", "  ", None, 3])
def test_own_decisions_need_a_label(label: Any) -> None:
    """Without one they would count as captured."""
    base = make_trace()
    with pytest.raises(InputError, match="label"):
        Trace.from_decisions(np.zeros_like(base.replay), base, label)


def test_decisions_that_take_too_much_memory_are_refused_before_they_are_made() -> None:
    check_decisions("x", DecisionShape(2048, 32, 32))
    with pytest.raises(InputError, match=r"^x: decisions of 20,480,000 .* take some 419\.4 GB"):
        check_decisions("x", DecisionShape(20_480_000, 32, 32))
    with pytest.raises(InputError, match=r"take some 2\.2 GB of memory, the limit is 2\.1"):
        check_decisions("x", DecisionShape(1 << 20, 32, 22), drawn=False)


@pytest.mark.parametrize("shape", [(4, 30), (4, 29, 2), (3, 30, 2), (4, 30, 2, 256)])
def test_decisions_of_forwards_of_another_shape_are_one_line(shape: tuple[int, ...]) -> None:
    work = workload_of("diffusion:wan2.1_1.3b,480x832,frames=5,steps=4")
    model = for_work(load_design("zcu102"), work).model
    with pytest.raises(InputError) as caught:
        Trace.from_decisions(np.zeros(shape, np.bool_), model=model)
    words = f"expected an array [4 forwards, 30 layers, rows], got one of shape {shape}"
    assert caught.value.problem == words
    assert caught.value.cure == "give one decision for each forward, layer and row"


def test_decisions_of_forwards_need_no_trace_of_the_sample(
    recwarn: pytest.WarningsRecorder,
) -> None:
    work = workload_of("diffusion:wan2.1_1.3b,480x832,frames=5,steps=4")
    model = for_work(load_design("zcu102"), work).model
    replay = np.zeros((4, 30, 2), np.bool_)
    replay[2] = True
    trace = Trace.from_decisions(replay, label="third", model=model)
    assert (trace.replay == replay).all()
    assert not recwarn.list  # the rows are passes of one sample, and no videos
