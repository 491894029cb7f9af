"""Whole forwards that reuse the last one, and tokens of the others that reuse earlier frames."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_forwards import designs
from forward_oracle import ForwardOracle, Passing, Reuse, passing
from hypothesis import given, settings
from hypothesis import strategies as st
from longlive import (
    CHUNK,
    FRAME,
    D,
    F,
    check_fluid_is_near_tile,
    check_forwards_one_by_one,
    longlive,
    plan_of,
    report_of,
)

from carsim import InputError, run
from carsim.account.simulation import simulate_policy
from carsim.decisions.replay import FASTCAR
from carsim.decisions.trace import load_trace, save_trace
from carsim.decisions.trace.stated import stated_trace
from carsim.design import Design, override
from carsim.explore.bounds import bounds_of
from carsim.explore.evaluate import Evaluator
from carsim.explore.grid import GridStudy
from carsim.explore.points import make_points
from carsim.explore.study import load_study
from carsim.machine.batches import Batches
from carsim.machine.token_batches import TokenBatches, expected_loads
from carsim.runs.report import Report
from carsim.workload.network import DiffusionTransformer
from carsim.workload.workload import workload_of

BOTH = {"kind": "forwards_and_tokens"}
LONGLIVE = "chunks:longlive_1.3b,chunks=2"


def kept_bytes(report: Report) -> int:
    """Bytes of outputs that are held for later reuse."""
    contents = [content for use in report.fit.memories for content in use.contents]
    return sum(each.nbytes for each in contents if each.content == "replay cache")


# ------------------------------------------------------------------ by hand


@pytest.mark.parametrize("source", ["frame", "chunk"])
def test_what_is_kept_is_the_sum_of_both(source: str) -> None:
    tokens = f"replay=0.6,source={source}"
    both = report_of(f"{LONGLIVE},every=2,{tokens}", skip=BOTH)
    of_forwards = report_of(f"{LONGLIVE},every=2", skip={"kind": "all_layers"})
    of_tokens = report_of(f"{LONGLIVE},{tokens}")
    assert kept_bytes(of_forwards) == CHUNK * D
    assert kept_bytes(both) == kept_bytes(of_forwards) + kept_bytes(of_tokens)


def test_products_are_those_of_forwards_and_tokens_that_compute() -> None:
    work = f"{LONGLIVE},every=2,replay=0.6,source=frame"
    report = report_of(work, skip=BOTH)
    trace = stated_trace(workload_of(work), longlive(work).model, 1)
    assert trace.reused is not None
    assert trace.meta.ranges is not None
    # Of the five forwards of a chunk, the second reuses the first.
    assert trace.meta.ranges.whole_forwards == (1, 6)
    computing = FRAME - trace.reused.astype(np.int64)
    assert computing[[1, 6]].sum() == 0
    dense, own = report.rows[0].simulation.totals, report.chosen.simulation.totals
    assert own["mlp"].macs == computing.sum() * 2 * D * F
    for name in ("qkv", "output", "cross"):
        assert 10 * own[name].macs == 8 * dense[name].macs
    assert own["leave"].macs == dense["leave"].macs


@pytest.mark.parametrize(
    ("work", "skip"),
    [("every=2", {"kind": "all_layers"}), ("replay=0.6,source=frame", {"kind": "mlp"})],
)
def test_one_kind_of_reuse_alone_is_that_of_its_part(work: str, skip: dict[str, Any]) -> None:
    whole = report_of(f"{LONGLIVE},{work}", skip=BOTH)
    part = report_of(f"{LONGLIVE},{work}", skip=skip)
    assert whole.chosen.cycles == part.chosen.cycles
    assert whole.chosen.simulation.activity == part.chosen.simulation.activity
    assert kept_bytes(whole) == kept_bytes(part)


def test_both_gain_more_than_either() -> None:
    tokens = report_of(f"{LONGLIVE},replay=0.6,source=frame")
    forwards = report_of(f"{LONGLIVE},every=2", skip=BOTH)
    both = report_of(f"{LONGLIVE},every=2,replay=0.6,source=frame", skip=BOTH)
    assert both.chosen.latency_s < min(tokens.chosen.latency_s, forwards.chosen.latency_s)
    assert both.chosen.variant.name == "reuse of forwards and replay across frames + DRS"


# ------------------------------------------------------------------ drawn networks


def is_diffusion(design: Design) -> bool:
    """The network is a diffusion transformer."""
    return isinstance(design.model.network, DiffusionTransformer)


def has_image_tokens_alone(design: Design) -> bool:
    """No token of a text is in the sequence."""
    network = design.model.network
    return isinstance(network, DiffusionTransformer) and network.text in ("cross", "none")


@st.composite
def composed(draw: st.DrawFn) -> tuple[Design, Batches]:
    """A drawn network, forwards that reuse the last one, and tokens of the others."""
    design = draw(designs(regular=True).filter(is_diffusion))
    network = design.model.network
    assert isinstance(network, DiffusionTransformer)
    kind = draw(st.sampled_from(["mlp", "attention", "attention_too"]))
    if network.text == "streams":
        kind = "attention"
        design = override(design, {"model.network.single_stream": "apart"})
    skip = {**BOTH, "tokens": {"kind": kind}}
    schedule = draw(st.sampled_from(["static", "drs", "interleaved_tokens"]))
    design = override(design, {"policy.skip": skip, "policy.schedule": schedule})
    return design, drawn_batches(draw, design)


@st.composite
def dealt(draw: st.DrawFn) -> tuple[Design, Batches]:
    """A drawn network whose tokens skip the MLP and are dealt, and forwards that reuse."""
    design = draw(designs(regular=True).filter(has_image_tokens_alone))
    design = override(design, {"policy.skip": BOTH, "policy.schedule": "drs"})
    return design, drawn_batches(draw, design)


def drawn_batches(draw: st.DrawFn, design: Design) -> Batches:
    """Decisions of forwards and tokens of a design; some token computes in every layer."""
    network, sample = design.model.network, design.model.sample
    assert network is not None
    assert sample is not None
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    forwards = rng.random(sample.forwards) < 0.5
    forwards[0] = False
    tokens = network.tokens(sample)
    per_range = draw(st.sampled_from([n for n in (1, 2, 3, 4) if tokens % n == 0]))
    layer_steps = (1, sample.forwards, design.model.body.n_layers)
    ranges = design.policy.batch * tokens // per_range
    computing = rng.integers(0, per_range + 1, size=(*layer_steps, ranges))
    computing[..., 0] = per_range
    computing[:, forwards] = 0
    source: Any = "frame" if sample.chunk_frames is None else "chunk"
    by_token = TokenBatches(computing, per_range, source, forwards)
    wholly = np.zeros((*layer_steps, design.policy.batch), np.bool_)
    wholly[:, forwards] = True
    return Batches(wholly, 1, 0, "drawn", "drawn", rule=FASTCAR, tokens=by_token)


@given(drawn=composed())
@settings(max_examples=25)
def test_forwards_one_after_the_other_give_the_same(drawn: tuple[Design, Batches]) -> None:
    design, batches = drawn
    check_forwards_one_by_one(design, batches)


@given(drawn=composed())
@settings(max_examples=8)
def test_fluid_is_near_tile(drawn: tuple[Design, Batches]) -> None:
    design, batches = drawn
    check_fluid_is_near_tile(design, batches)


@given(drawn=dealt())
@settings(max_examples=40)
def test_work_equals_the_oracle(drawn: tuple[Design, Batches]) -> None:
    design, batches = drawn
    network, sample = design.model.network, design.model.sample
    assert isinstance(network, DiffusionTransformer)
    assert sample is not None
    tokens = batches.tokens
    assert tokens is not None
    assert tokens.whole_forwards is not None
    activity = simulate_policy(plan_of(design, batches), batches).decode_activity
    oracle = ForwardOracle(design)
    scored = network.tokens(sample)
    if tokens.source == "frame":
        scored -= network.tokens_per_frame(sample)
    every_forward: list[Passing | None] = [None] * sample.forwards
    if sample.chunk_frames is not None:
        every_forward = list(passing(sample))
    counted = {"macs": 0, "bytes": 0}
    for forward, is_whole in enumerate(tokens.whole_forwards.tolist()):
        computing = tokens.computing[0, forward].sum(axis=-1).tolist()
        of_forward = oracle.forward(every_forward[forward], Reuse(is_whole, computing, scored))
        for name in counted:
            counted[name] += of_forward[name]
    assert activity.macs == counted["macs"]
    assert sum(activity.dram_bytes.values()) == counted["bytes"]


# ------------------------------------------------------------------ interleaved tokens


def test_every_third_token_of_a_line_is_a_core_s() -> None:
    # Tokens 0 to 6 compute but for 3: core 0 of 3 has 0, (3,) 6, core 1 has 1, 4, core 2 has 2, 5.
    computing = np.array([[[[1, 1, 1, 0, 1, 1, 1]]]])
    tokens = TokenBatches(computing, per_range=1, source="frame")
    schedule = longlive(LONGLIVE, schedule="interleaved_tokens").policy.schedule
    plan = plan_of(longlive(LONGLIVE, schedule=schedule), batches_of(tokens))
    machine = replace(plan.machine, cores=3)
    loads, _ = tokens.loads(machine, plan.schedule_of(decided=True), computing)
    assert loads.tolist() == [[2, 2, 2]]


def batches_of(tokens: TokenBatches) -> Batches:
    """Decisions by token."""
    wholly = np.zeros((*tokens.computing.shape[:3], 1), np.bool_)
    return Batches(wholly, 1, 0, "drawn", "drawn", rule=FASTCAR, tokens=tokens)


@pytest.mark.parametrize("computing", [[1560, 624, 600], [20, 1000, 1500]])
def test_expected_loads_are_near_the_mean_of_random_orders(computing: list[int]) -> None:
    cores = 8
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(400):
        line = [rng.permutation(FRAME) < count for count in computing]
        of_cores = [np.concatenate(line)[core::cores].sum() for core in range(cores)]
        drawn.append(sorted(of_cores, reverse=True))
    found = expected_loads(np.array([computing]), FRAME, cores)[0]
    assert found.sum() == sum(computing)
    assert found == pytest.approx(np.mean(drawn, axis=0), rel=0.01)


@given(counts=st.lists(st.integers(0, 12), min_size=1, max_size=5), cores=st.integers(1, 20))
def test_expected_loads_keep_every_token(counts: list[int], cores: int) -> None:
    loads = expected_loads(np.array([counts, [0] * len(counts)]), 12, cores)
    assert loads.sum(axis=1).tolist() == [sum(counts), 0]
    assert (loads >= 0).all()
    assert loads.max() <= -(-12 * len(counts) // cores)


def test_dealing_tokens_gains_little_over_interleaved_ones() -> None:
    report = report_of(f"{LONGLIVE},replay=0.6,source=frame")
    mlps = {row.variant.schedule: row.simulation.totals["mlp"].cycles for row in report.rows[1:-1]}
    assert mlps["static"] > 1.4 * mlps["drs"]
    assert mlps["drs"] < mlps["interleaved_tokens"] < 1.06 * mlps["drs"]


# ------------------------------------------------------------------ files, sweeps, bad input


def test_a_trace_says_which_forwards_reuse_as_a_whole(tmp_path: Path) -> None:
    work = f"{LONGLIVE},every=2,replay=0.6,source=frame"
    design = longlive(work, skip=BOTH)
    trace = stated_trace(workload_of(work), design.model, 1)
    saved = save_trace(tmp_path / "both.npz", trace)
    read = load_trace(saved.path or "")
    assert read.meta == trace.meta
    stored = run(design, read, what_if=False, allow_misfit=True)
    assert stored.chosen.cycles == report_of(work, skip=BOTH).chosen.cycles
    assert trace.reused is not None
    computing = trace.reused.copy()
    computing[1, 0, 0, 2] = 0
    wholly = trace.replay.copy()
    wholly[1, 0, 0] = False
    scores = np.where(wholly, trace.tas, np.where(trace.tas > 0, 0, trace.tas))
    other = replace(trace, reused=computing, replay=wholly, tas=scores)
    with pytest.raises(InputError, match="in a forward that reuses as a whole at step 1"):
        save_trace(tmp_path / "other.npz", other)
    without = stated_trace(workload_of(f"{LONGLIVE},replay=0.6"), design.model, 1)
    assert without.meta.ranges is not None
    assert "whole_forwards" not in without.meta.ranges.model_dump(mode="json")


def test_points_of_other_sources_and_calendars_are_as_runs(tmp_path: Path) -> None:
    works = [
        f"{LONGLIVE},replay=0.6,source=frame",
        f"{LONGLIVE},replay=0.6,source=chunk",
        f"{LONGLIVE},every=2,replay=0.6,source=chunk",
        f"{LONGLIVE},every=3,replay=0.6,source=chunk",
    ]
    choices = "".join(f"      w{n}: {{workload: '{work}'}}\n" for n, work in enumerate(works))
    file = tmp_path / "study.yaml"
    file.write_text(
        "design: asic_7nm_hbm3\n"
        f"workload: {LONGLIVE}\n"
        "set: {policy.skip.kind: forwards_and_tokens}\n"
        f"axes:\n  workload:\n    choice:\n{choices}"
        "allow_misfit: true\n"
    )
    study = load_study(file)
    rows = Evaluator(study).evaluate(make_points(study))
    alone = [report_of(work, skip=BOTH).chosen.latency_s for work in works]
    assert [row["latency_s"] for row in rows] == pytest.approx(alone, rel=1e-12)
    assert len(set(alone)) == len(alone)


def test_bounds_of_a_grid_are_below_its_points(tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(
        "design: asic_7nm_hbm3\n"
        f"workload: {LONGLIVE},every=2,replay=0.6,source=frame,range_tokens=780\n"
        "set: {policy.skip.kind: forwards_and_tokens}\n"
        "axes:\n"
        "  policy.schedule: [static, interleaved_tokens, drs]\n"
        "  machine.array.cols: [32, 64]\n"
        "allow_misfit: true\n"
        "objectives: {seconds_per_video: min, energy_per_video_j: min, memory_used_gb: min}\n"
    )
    study = load_study(file)
    bounds = bounds_of(GridStudy(study)).objectives
    rows = Evaluator(study).evaluate(make_points(study))
    figures = [
        [row["seconds_per_video"], row["energy_per_video_j"], row["memory_used_gb"]] for row in rows
    ]
    assert (bounds <= np.array(figures) * (1 + 1e-12)).all()
    assert (bounds > 0.9 * np.array(figures)).all()


@pytest.mark.parametrize(
    ("work", "skip", "problem"),
    [
        ("every=2,replay=0.6", "mlp", "set policy.skip.kind=forwards_and_tokens"),
        ("every=2,replay=0.6", "all_layers", "set policy.skip.kind=forwards_and_tokens"),
        ("every=2,replay=0.6,source=step", "forwards_and_tokens", "say source=frame or"),
        ("every=2,replay=0.6,dense=4", "forwards_and_tokens", "no token has an output"),
    ],
)
def test_reuse_that_contradicts_itself_gets_one_line(work: str, skip: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        report_of(f"{LONGLIVE},{work}", skip={"kind": skip})
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"forwards": {"kind": "mlp"}}, "is no skip of whole forwards; take all_layers"),
        ({"tokens": {"kind": "every_module"}}, "take mlp, attention or attention_too"),
        ({"tokens": {"kind": "moon"}}, "no skip of kind 'moon'; known are mlp"),
        ({"tokens": "mlp"}, "no skip of kind None"),
    ],
)
def test_parts_that_do_not_fit_get_one_line(part: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        longlive(LONGLIVE, skip={**BOTH, **part})
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
