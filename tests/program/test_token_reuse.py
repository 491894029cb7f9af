"""Tokens of forwards that reuse outputs one by one: by hand, plainly, at both rungs, bad input."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_forwards import designs
from hypothesis import given, settings
from hypothesis import strategies as st
from longlive import (
    CHUNK,
    FRAME,
    LAYERS,
    D,
    F,
    check_fluid_is_near_tile,
    check_forwards_one_by_one,
    longlive,
    plan_of,
    report_of,
)

from carsim import InputError, load_design, run
from carsim.account.simulation import simulate_policy
from carsim.decisions.replay import FASTCAR, InputChange
from carsim.decisions.trace import load_trace, save_trace
from carsim.decisions.trace.stated import stated_trace
from carsim.decisions.trace.token_ranges import eligible_frames
from carsim.design import Design, override
from carsim.design.load import for_work
from carsim.explore.bounds import bounds_of
from carsim.explore.evaluate import Evaluator
from carsim.explore.grid import GridStudy
from carsim.explore.points import make_points
from carsim.explore.study import load_study
from carsim.hardware.schedule import SCHEDULES
from carsim.machine.arrays import MachineArrays
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware
from carsim.machine.token_batches import TokenBatches
from carsim.program.sample import forward_macs
from carsim.workload.sample import Sample
from carsim.workload.workload import Workload, workload_of

LONGLIVE = "chunks:longlive_1.3b,chunks=2,replay=0.6"

FLUX = "diffusion:flux1_dev,1024x1024,steps=3"


def reused_tokens(work: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Tokens that reuse, by forward, layer, row and frame."""
    trace = stated_trace(workload_of(work), longlive(work).model, 1)
    assert trace.reused is not None
    return trace.reused.astype(np.int64)


# ------------------------------------------------------------------ who may reuse


@pytest.mark.parametrize(
    ("source", "of_first_chunk", "of_later_chunk"),
    [("frame", "011", "011"), ("chunk", "011", "111")],
)
def test_frames_look_back_at_the_same_step(
    source: Any, of_first_chunk: str, of_later_chunk: str
) -> None:
    sample = Sample(height=16, width=16, steps=3, chunk_frames=3, chunks=2)
    work = Workload("chunks", replay=0.5, source=source, dense=1)
    eligible = eligible_frames(work, sample, 3).astype(int)
    none = "000"  # the first step, as the workload says, and the clean forward
    chunks = [[none, frames, frames, none] for frames in (of_first_chunk, of_later_chunk)]
    expected = [[int(digit) for digit in frames] for chunk in chunks for frames in chunk]
    assert eligible.tolist() == expected


def test_steps_that_refresh_all_tokens_follow_the_calendar() -> None:
    sample = Sample(height=16, width=16, steps=7)
    work = Workload("diffusion", replay=0.5, source="step", every=3)
    reuses = eligible_frames(work, sample, 1)[:, 0]
    assert reuses.tolist() == [False, True, True, False, True, True, False]


def test_drawn_ratios_are_near_the_stated_one_and_follow_the_seed() -> None:
    reused = reused_tokens(LONGLIVE)
    eligible = reused.any(axis=(1, 2))
    ratio = reused.sum() / (np.count_nonzero(eligible) * LAYERS * FRAME)
    assert ratio == pytest.approx(0.6, abs=0.002)  # six standard deviations
    assert (reused == reused_tokens(LONGLIVE)).all()
    assert (reused != reused_tokens(LONGLIVE + ",seed=1")).any()
    assert (reused_tokens(LONGLIVE + ",range_tokens=40") % 40 == 0).all()


# ------------------------------------------------------------------ work by hand


def test_products_scores_and_bytes_of_fastcar_across_chunks() -> None:
    report = report_of(LONGLIVE)
    dense, own = report.rows[0].simulation.totals, report.chosen.simulation.totals
    reused = int(reused_tokens(LONGLIVE).sum())
    assert dense["mlp"].macs - own["mlp"].macs == reused * 2 * D * F
    # A score of each token of a chunk: a product an element of the query, and the key it meets.
    scored = 10 * LAYERS * CHUNK
    assert own["attention"].vector_ops - dense["attention"].vector_ops == scored * D
    moved = sum(own["attention"].dram_bytes) - sum(dense["attention"].dram_bytes)
    assert moved == scored * D
    for name in ("qkv", "output", "cross"):
        assert own[name].macs == dense[name].macs
        assert own[name].dram_bytes == dense[name].dram_bytes


@pytest.mark.parametrize(
    ("source", "held"),
    [("frame", CHUNK * D), ("chunk", (CHUNK + 4 * LAYERS * FRAME) * D)],
)
def test_outputs_of_the_last_frame_are_held_for_each_step(source: str, held: int) -> None:
    report = report_of(f"{LONGLIVE},source={source}")
    contents = {each.content: each.nbytes for use in report.fit.memories for each in use.contents}
    assert contents["replay cache"] == held


def test_outputs_of_all_layers_and_inputs_are_held_across_steps() -> None:
    report = report_of(f"{LONGLIVE},source=step")
    contents = {each.content: each.nbytes for use in report.fit.memories for each in use.contents}
    assert contents["replay cache"] == LAYERS * CHUNK * D
    assert report.chosen.batches.rule == InputChange()
    assert contents["data of the rule"] == LAYERS * CHUNK * (D + 2)  # 8 bits, and a scale of 16


def test_keys_of_reused_tokens_are_kept_where_no_cache_has_them() -> None:
    work = "diffusion:wan2.1_1.3b,passes=1,steps=4,replay=0.5"
    design = for_work(load_design("zcu102"), workload_of(work))
    design = override(design, {"policy.skip": {"kind": "every_module"}})
    report = run(design, workload=work, what_if=False, allow_misfit=True)
    contents = {each.content: each.nbytes for use in report.fit.memories for each in use.contents}
    outputs_and_keys = 3 + 2
    assert contents["replay cache"] == outputs_and_keys * LAYERS * 32_760 * D
    dense, own = report.rows[0].simulation.totals, report.chosen.simulation.totals
    computing = 1 - stated_ratio(work, design)
    for name in ("qkv", "attention", "output", "cross", "mlp"):
        assert own[name].macs == pytest.approx(computing * dense[name].macs, rel=1e-9)


def stated_ratio(work: str, design: Design) -> float:
    """Share of all tokens that reuse."""
    trace = stated_trace(workload_of(work), design.model, 1)
    assert trace.reused is not None
    return float(trace.reused.sum()) / (trace.reused[..., 0].size * 32_760)


def test_a_list_of_tokens_costs_a_central_schedule_a_scan() -> None:
    machine = MachineArrays.of([Hardware(longlive(LONGLIVE))])
    # 147 latches of 32 bits at 8 cycles, a cycle for each token, 64 instructions for each core.
    drs = machine.listing_cycles(SCHEDULES["drs"], CHUNK)
    assert drs == 147 * 8 + CHUNK + 8 * 64 * 4
    static = machine.listing_cycles(SCHEDULES["static"], CHUNK)
    assert static == 19 * 8 + CHUNK // 8 + 64 * 4


def test_a_core_keeps_its_own_tokens_unless_they_are_dealt() -> None:
    # Two frames of 6 tokens on three cores of 4: frame 0 computes, frame 1 computes 2 of 6.
    tokens = TokenBatches(np.array([[[[6, 2]]]]), per_range=6, source="frame")
    machine = replace(MachineArrays.of([Hardware(longlive(LONGLIVE))]), cores=3)
    static, _ = tokens.loads(machine, SCHEDULES["static"], tokens.computing)
    dealt, _ = tokens.loads(machine, SCHEDULES["drs"], tokens.computing)
    assert static.tolist() == [[4, 2, 2]]  # 4; 2 and 2 / 6 of 2; the rest
    assert dealt.tolist() == [[3, 3, 2]]


def test_without_dealing_the_cores_of_the_first_frame_set_the_pace() -> None:
    report = report_of(LONGLIVE + ",source=frame")
    dense, static, dealt = report.rows[:3]
    assert static.variant.schedule == "static"
    assert dealt.variant.schedule == "drs"
    mlps = [row.simulation.totals["mlp"].cycles for row in (dense, static, dealt)]
    # A third of the tokens computes in any case, and fills its cores.
    assert mlps[1] == pytest.approx(mlps[0], rel=0.01)
    computing = 1 - reused_tokens(LONGLIVE + ",source=frame").sum() / (10 * LAYERS * CHUNK)
    assert mlps[2] == pytest.approx(computing * mlps[0], rel=0.02)
    assert dealt.cycles < dense.cycles


def test_single_stream_layers_whose_mlp_is_apart_skip_it_alone() -> None:
    work = FLUX + ",replay=0.5"
    fused = for_work(load_design("asic_7nm_hbm3"), workload_of(work))
    apart = override(fused, {"model.network.single_stream": "apart"})
    report = run(apart, workload=work, what_if=False, allow_misfit=True)
    assert apart.model.parameters == fused.model.parameters
    dense = report.rows[0].simulation.totals
    own = report.chosen.simulation.totals
    fused_macs = forward_macs(fused.model)
    apart_macs = forward_macs(apart.model)
    # The same matrices, cut: 38 layers of 512 text and 4,096 image tokens.
    of_mlps = 38 * (512 + 4096) * 2 * 3072 * 12288
    assert apart_macs["mlp"] == fused_macs["mlp"] + of_mlps
    assert sum(apart_macs.values()) == sum(fused_macs.values())
    trace = stated_trace(workload_of(work), apart.model, 1)
    assert trace.reused is not None
    skipped = (dense["mlp"].macs - own["mlp"].macs) / (2 * 3072 * 12288)
    # In dual layers, tokens that compute count as text and image in proportion, rounded up.
    assert skipped == pytest.approx(int(trace.reused.sum()), rel=1e-3)
    assert own["output"].macs == dense["output"].macs


# ------------------------------------------------------------------ the walk


@st.composite
def token_decisions(draw: st.DrawFn) -> tuple[Design, Batches]:
    """A drawn network, what its tokens skip, and drawn decisions by range."""
    design = draw(designs(regular=True).filter(lambda each: each.model.network.kind == "diffusion"))  # type: ignore[union-attr]
    network, sample = design.model.network, design.model.sample
    assert network is not None
    assert sample is not None
    kinds = ["mlp", "attention", "attention_too", "every_module"]
    layers = range(design.model.body.n_layers)
    if any(network.is_fused(layer) for layer in layers):  # type: ignore[union-attr]
        kinds = ["every_module"]
    kind = draw(st.sampled_from(kinds))
    schedule = draw(st.sampled_from(["static", "drs"]))
    design = override(design, {"policy.skip": {"kind": kind}, "policy.schedule": schedule})
    tokens, batch = network.tokens(sample), design.policy.batch
    per_range = draw(st.sampled_from([n for n in (1, 2, 3, 4) if tokens % n == 0]))
    shape = (1, sample.forwards, design.model.body.n_layers)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    computing = rng.integers(0, per_range + 1, size=(*shape, batch * tokens // per_range))
    source: Any = "step" if kind == "every_module" else "frame"
    by_token = TokenBatches(computing, per_range, source)
    rule = draw(st.sampled_from([FASTCAR, InputChange()]))
    if kind in ("attention", "attention_too"):
        rule = FASTCAR
    wholly = np.zeros((*shape, batch), np.bool_)
    return design, Batches(wholly, 1, 0, "drawn", "drawn", rule=rule, tokens=by_token)


@given(drawn=token_decisions())
@settings(max_examples=8)
def test_forwards_one_after_the_other_give_the_same(drawn: tuple[Design, Batches]) -> None:
    design, batches = drawn
    check_forwards_one_by_one(design, batches)


@given(drawn=token_decisions())
@settings(max_examples=5)
def test_fluid_is_near_tile(drawn: tuple[Design, Batches]) -> None:
    design, batches = drawn
    check_fluid_is_near_tile(design, batches)


@given(drawn=token_decisions())
@settings(max_examples=8)
def test_macs_and_reused_elements_are_those_of_tokens(drawn: tuple[Design, Batches]) -> None:
    design, batches = drawn
    tokens = batches.tokens
    assert tokens is not None
    everything = replace(tokens, computing=np.full_like(tokens.computing, tokens.per_range))
    plan = plan_of(design, batches)
    own = simulate_policy(plan, batches).totals
    full = simulate_policy(plan, replace(batches, tokens=everything)).totals
    body, network = design.model.body, design.model.network
    assert network is not None
    reused = int((tokens.per_range - tokens.computing).sum())
    skipped = [block.name for block in plan.program(decided=True).skipped]
    d = body.hidden_size
    of_token = {"qkv": 3 * d * d, "output": d * d, "mlp": 2 * d * body.ffn_size}
    for name in of_token.keys() & set(skipped):
        if network.text != "streams":  # type: ignore[union-attr]
            assert full[name].macs - own[name].macs == reused * of_token[name]
    assert own["leave"].macs == full["leave"].macs


# ------------------------------------------------------------------ sweeps, fronts


def test_bounds_of_a_grid_are_below_its_points(tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(
        "design: asic_7nm_hbm3\n"
        "workload: chunks:longlive_1.3b,chunks=2,replay=0.6,range_tokens=780\n"
        "axes:\n"
        "  policy.schedule: [static, drs]\n"
        "  policy.skip.kind: [mlp, attention_too]\n"
        "allow_misfit: true\n"
        "objectives: {seconds_per_video: min, energy_per_video_j: min}\n"
    )
    study = load_study(file)
    bounds = bounds_of(GridStudy(study)).objectives
    rows = Evaluator(study).evaluate(make_points(study))
    figures = [[row["seconds_per_video"], row["energy_per_video_j"]] for row in rows]
    assert (bounds <= figures).all()
    assert (bounds > 0.9 * np.array(figures)).all()
    seconds = [row["seconds_per_video"] for row in rows]
    assert seconds[3] == min(seconds)  # tokens are dealt, and skip attention, too


# ------------------------------------------------------------------ the file, bad input


def test_a_trace_of_ranges_is_read_back_and_checked(tmp_path: Path) -> None:
    work = workload_of(LONGLIVE)
    trace = stated_trace(work, longlive(LONGLIVE).model, 1)
    saved = save_trace(tmp_path / "ranges.npz", trace)
    read = load_trace(saved.path or "")
    assert read.meta.ranges == trace.meta.ranges
    assert read.reused is not None
    assert (read.reused == trace.reused).all()
    drawn = report_of(LONGLIVE)
    stored = run(longlive(LONGLIVE), read, what_if=False, allow_misfit=True)
    assert stored.chosen.cycles == drawn.chosen.cycles
    beyond = replace(trace, reused=trace.reused + FRAME)  # type: ignore[operator]
    with pytest.raises(InputError, match="more tokens than the 1560 of a range at step 0"):
        save_trace(tmp_path / "beyond.npz", beyond)


@pytest.mark.parametrize(
    ("work", "policy", "problem"),
    [
        ("diffusion:wan2.1_1.3b,replay=0.5,source=chunk", {}, "is of videos in chunks"),
        ("chunks:longlive_1.3b,replay=0.5,range_tokens=7", {}, "do not divide the 1,560"),
        ("image:depth_anything_v2_small,replay=0.4", {}, "takes one forward"),
        ("diffusion:wan2.1_1.3b,source=frame", {}, "source is of tokens that reuse"),
        ("diffusion:wan2.1_1.3b,replay=1.5", {}, "replay: expected a share of 0 to 1"),
        ("diffusion:wan2.1_1.3b,replay=0.5,mlp_every=2,every=2", {}, "leave out one of them"),
        ("diffusion:wan2.1_1.3b,replay=0.5,source=frame,every=2", {}, "leave every or"),
        ("diffusion:wan2.1_1.3b,replay=0.5,source=moon", {}, "expected frame, chunk, step"),
        ("diffusion:wan2.1_1.3b,replay=0.5,dense=50", {}, "no token has an output"),
        (LONGLIVE, {"skip": {"kind": "every_module"}}, "leaves out keys and values"),
        (LONGLIVE + ",source=step", {"skip": {"kind": "all_layers"}}, "layer by layer"),
        (LONGLIVE + ",source=step", {"skip": {"kind": "attention"}}, "decide earlier"),
        (FLUX + ",replay=0.5", {}, "in layers 19 to 56; set model.network.single_stream=apart"),
        (FLUX + ",every=2", {"skip": {"kind": "mlp"}}, "or take every_module or by_module"),
        (FLUX + ",every=2", {"skip": {"kind": "attention"}}, "attention or MLP alone"),
    ],
)
def test_bad_reuse_gets_one_line(work: str, policy: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        report_of(work, **policy)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
