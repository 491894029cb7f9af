"""Runs against plain integers and fractions: work, bytes, cycles and joules."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from oracle import Cache, Oracle, Phase, bits
from strategies import Case, cases, draw_replay, raw_design, spreads
from tiny import resources

from carsim.account.simulation import Simulation
from carsim.base.errors import InputError
from carsim.base.plugins import load_plugin
from carsim.cost.energy import energy
from carsim.decisions.attention import ATTENTION, AttentionPolicy, Dense, Stack, Streaming
from carsim.decisions.trace import load_trace
from carsim.design import build_design, load_design, override
from carsim.hardware.schedule import SCHEDULES
from carsim.runs.pipeline import run
from carsim.workload.geometry import Video

EXACT = 10_000
"""Bits per element whose denominator is no larger are counted to the byte."""

NUDGE = Fraction(1, 10_000)
"""Others may be rounded by this share."""

ROUNDING = Fraction(1, 10**12)
"""Of joules, which are floats."""


def check(found: Simulation, replay: Any, *, alone: bool = False) -> None:
    """Compare everything; with ``alone``, cycles are known exactly."""
    plan = found.plan
    hw, design = plan.hw, plan.hw.design
    stored = (getattr(design.model, of) for of in ("weights", "kv", "activations", "replay"))
    by_role = [each for _, each in design.model.weights_by_role if each is not None]
    is_exact = all(bits(each).denominator <= EXACT for each in (*stored, *by_role))
    low, high = (
        Oracle(
            design,
            {path.name: path.rate for path in hw.paths},
            {path.name: rate for path, rate in zip(hw.paths, hw.fastest_rates, strict=True)},
            {path.name: path.latency_cycles for path in hw.paths},
            nudge,
            plan.phases.schedule("tuned").used if plan.schedule == "tuned" else (),
        )
        for nudge in ((Fraction(1),) * 2 if is_exact else (1 - NUDGE, 1 + NUDGE))
    )
    decisions = None if replay is None else np.asarray(replay).tolist()
    least, most = (
        each.run(plan.video, plan.attention, plan.schedule, decisions) for each in (low, high)
    )
    for name, total in found.totals.items():
        moved = zip((path.name for path in hw.paths), total.dram_bytes, strict=True)
        got = {of: getattr(total, of) for of in ("macs", "vector_ops", "sram_bytes")}
        least_of, most_of = (each.get(name) or Phase() for each in (least, most))
        for of, amount in (got | dict(moved)).items():
            assert least_of.work[of] <= amount <= most_of.work[of], (name, of)
        assert least_of.least <= total.cycles, name
        queued = design.machine.drs.core_queue_instructions is not None
        gathers = Cache.of(plan.attention).window is not None
        if not gathers and not queued:  # gathered keys arrive more slowly
            assert total.cycles <= most_of.most, name
        if alone:
            assert total.cycles == least_of.alone, name
    assert found.cycles == sum(total.cycles for total in found.totals.values())
    used = resources(design)
    logic = [each[2:] for each in design.board.technology.idle_power(design, used)]
    board, ends = energy(design, found.activity, used).board, []
    for oracle, phases in ((low, least), (high, most)):
        work = sum((phase.work for phase in phases.values()), start=Counter[str]())
        ends.append(oracle.joules(work, found.cycles, logic))
    for value, at_least, at_most in zip(board, *ends, strict=True):
        assert at_least * (1 - ROUNDING) <= value <= at_most * (1 + ROUNDING)


@settings(max_examples=2 * settings.default.max_examples)
@given(cases())
def test_runs_on_drawn_designs(case: Case) -> None:
    check(case.simulate(), case.replay)


IDEAS = Path(__file__).parents[2] / "docs/ideas"


@st.composite
def cache_policies(draw: st.DrawFn, *, windows: bool = True) -> AttentionPolicy:
    """Policies that share keys between layers or heads, or move tokens to a second memory.

    ``windows``: stacked with one that reads the first and the newest tokens.
    """
    kinds: list[AttentionPolicy] = []
    for stem, field, values in (
        ("shared_layers", "group", [2, 3]),
        ("shared_heads", "group", [2, 3, 4]),
        ("far_cache", "near", [1, 2, 3, 7, 30]),
    ):
        if draw(st.booleans()):
            if stem not in ATTENTION:
                load_plugin((IDEAS / f"{stem}.py").absolute())
            kinds.append(ATTENTION[stem].model_validate({field: draw(st.sampled_from(values))}))
    if not kinds and not windows:
        return Dense()
    if windows and (not kinds or draw(st.booleans())):
        kinds.insert(0, Streaming(sinks=draw(st.integers(0, 2)), window=draw(st.integers(1, 9))))
    return kinds[0] if len(kinds) == 1 else Stack(policies=tuple(kinds))


@given(case=cases(), policy=cache_policies(), data=st.data())
def test_shared_caches_and_second_memories_on_drawn_designs(
    case: Case, policy: AttentionPolicy, data: st.DataObject
) -> None:
    changes: dict[str, Any] = {
        "machine.placement.kv_far": data.draw(st.sampled_from(["ddr", "second"])),
        "model.body.global_layers": (),  # layers that share keys have one window
        "machine.decision_at": data.draw(st.sampled_from(["q", "attention"])),
    }
    check(replace(case.changed(changes), attention=policy).simulate(), case.replay)


@given(cases(), st.sampled_from(["video:2", "video:2,replay=0.6,seed=3", "video:3,prompt=0"]))
def test_workloads_on_drawn_designs(case: Case, workload: str) -> None:
    case = case.changed({"model.video.tokens_per_frame": case.video.tokens_per_frame})
    if case.design.model.makes == "text":
        workload = f"text:{case.video.prompt_tokens}+{3 * case.design.policy.tokens_per_step}"
    elif case.design.policy.batch % 2:  # replays are drawn for guidance pairs
        workload = "video:2,guidance=false"
    for row in run(case.design, workload=workload, allow_misfit=True, what_if=False).rows:
        if not row.is_bound:
            check(row.simulation, row.batches.replay if row.variant.replays else None)


ONE_MEMORY = dict.fromkeys(("weights", "kv", "replay", "head"), "second")
IN_ONE_MEMORY = {
    "machine.placement": ONE_MEMORY | {"kv_far": "second"},
    "model.body.global_layers": (),
}
HELD = {f"machine.{what}_kib": 1 << 19 for what in ("weight_buffer", "kv_buffer")}


@given(
    cases(
        **HELD,
        **{"machine.weight_sharing": "broadcast", "machine.tile_kib": 1 << 13},
        **{"machine.placement": ONE_MEMORY},
    )
)
def test_cycles_of_one_lane_are_known_where_operands_are_one_tile(case: Case) -> None:
    check(replace(case, attention=Dense(), replay=None).simulate(), None, alone=True)


@given(
    case=cases(
        **HELD,
        **{"machine.weight_sharing": "broadcast", "machine.tile_kib": 1 << 13},
        **IN_ONE_MEMORY,
    ),
    policy=cache_policies(windows=False),
)
def test_cycles_of_shared_caches_are_known_where_operands_are_one_tile(
    case: Case, policy: AttentionPolicy
) -> None:
    """Older tokens lie in the same memory: they are attended to first, and then the newest."""
    check(replace(case, attention=policy, replay=None).simulate(), None, alone=True)


@pytest.mark.parametrize("name", ["zcu102_head", "u280"])
def test_shipped_designs_on_a_shipped_trace(name: str) -> None:
    """The first 64 tokens of two frames of one batch."""
    design, trace = load_design(name), load_trace("vilau_8f")
    replay = np.array(trace.replay[:512, :, : design.policy.batch]).reshape(2, 256, 32, -1)
    video = Video(2, 64, trace.prompt_tokens)
    replay = replay[None, :, :64].reshape(1, 128, 32, -1)
    check(Case(design, video, schedule="drs", replay=replay).simulate(), replay)


SIXTEEN_DIGITS = 3.3333333333333335
BITS = [0.1, SIXTEEN_DIGITS, 7.000000000000001, 63.99999999999999, 64.0]
LARGE = 10**9
EXTREMES: dict[str, list[Any]] = {
    "model.body.n_layers": [1, 1000],
    "model.body.hidden_size": [1, 4096, 262_144, 10**6],
    "model.body.ffn_size": [1, 10**6],
    "model.body.n_heads": [4, 128, 10**6],
    "model.body.n_kv_heads": [1, 2],
    "model.body.head_size": [1, 128, 10**6],
    "model.head.vocabulary": [1, 10**6],
    "model.weights.bits": BITS,
    "model.kv.bits": BITS,
    "model.activations.bits": BITS,
    "model.replay.bits": BITS,
    "machine.cores": [1, 1024],
    "machine.array.rows": [1, LARGE],
    "machine.array.cols": [1, LARGE],
    "machine.array.pipeline_cycles": [0, LARGE],
    "machine.vector.lanes": [1, LARGE],
    "machine.vector.pipeline_cycles": [0, LARGE],
    "machine.overheads.kernel_cycles": [LARGE],
    "machine.overheads.step_us": [1e-300, 1e9],
    "machine.exchange_bytes_per_cycle": [1, LARGE],
    "machine.weight_buffer_kib": [2, 65_536],
    "machine.activation_buffer_kib": [1, LARGE],
    "machine.drs.index_register_bits": [1, LARGE],
    "machine.drs.instructions_per_sequence": [1, 10**6],
    "board.fabric_clock_mhz": [1.0, 10_000.0],
    "board.memories.ddr.interconnect_ns": [0.0, 1e6],
    "policy.batch": [1, 512],
}
"""Values at or near the ends of what the schema allows, which a run takes or refuses."""


@pytest.mark.parametrize(
    "changes",
    [
        *({f"model.{of}.bits": SIXTEEN_DIGITS} for of in ("kv", "activations")),
        *({"model.body.hidden_size": size} for size in (2**18, 2**19, 10**6)),
    ],
    ids=str,
)
def test_what_used_to_overflow(changes: dict[str, Any]) -> None:
    raw = raw_design(activation_buffer_kib=1)
    raw["model"]["body"] |= {"n_layers": 4, "ffn_size": 10**6}
    check_or_refuse(Case(override(build_design(raw, "large"), changes), Video(2, 16, 10_000)))


@st.composite
def extreme_cases(draw: st.DrawFn) -> Case:
    fields = draw(st.lists(st.sampled_from(sorted(EXTREMES)), min_size=1, max_size=4, unique=True))
    chosen = {field: draw(st.sampled_from(EXTREMES[field])) for field in fields}
    mapping, sharing = draw(spreads())
    raw = raw_design(mapping=mapping, weight_sharing=sharing)
    raw["model"]["body"]["head_size"] = 8
    video = Video(2, 2, draw(st.sampled_from([0, 5, 100_000, LARGE])))
    try:
        design = override(build_design(raw, "extreme"), chosen)
    except InputError:
        reject()
    replay = None
    if design.policy.batch * design.model.body.n_layers < 10_000:
        replay = draw_replay(draw, 1, video, design)
    return Case(design, video, schedule=draw(st.sampled_from(sorted(SCHEDULES))), replay=replay)


def check_or_refuse(case: Case) -> None:
    try:
        check(case.simulate(), case.replay)
    except InputError:
        return  # a line that names the field; the walk through the schema reads it


@given(extreme_cases())
def test_extremes_of_the_schema_are_right_or_refused(case: Case) -> None:
    check_or_refuse(case)
