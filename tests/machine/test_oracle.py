"""Runs against plain integers and fractions: work, bytes, cycles and joules."""

from collections import Counter
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from oracle import Oracle, Phase, bits
from strategies import designs, draw_replay, raw_design, videos

from carsim.base.errors import InputError
from carsim.cost.energy import energy
from carsim.cost.resources import resources
from carsim.decisions.attention import Dense, Streaming
from carsim.decisions.replay import FASTCAR
from carsim.decisions.trace import load_trace
from carsim.design import Design, build_design, load_design, override
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.schedule import SCHEDULES
from carsim.machine.batches import Batches, in_sets
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.machine.simulate import simulate
from carsim.workload.geometry import Video

EXACT = 10_000
"""Bits per element whose denominator is no larger are counted to the byte."""

NUDGE = Fraction(1, 10_000)
"""Others may be rounded by this share."""

ROUNDING = Fraction(1, 10**12)
"""Of joules, which are floats."""

DENSE = Dense()


@dataclass
class Case:
    """``replay``: bool[G, S, L, B]; None where nothing is decided."""

    design: Design
    video: Video
    attention: Any = DENSE
    schedule: str = "static"
    replay: Any = None
    fidelity: str = "fluid"

    def check(self, *, alone: bool = False) -> None:
        """Compare everything; with ``alone``, cycles are known exactly."""
        design, video, sets = self.design, self.video, self.design.policy.tokens_per_step
        hw, steps = Hardware(design), range(video.n_steps // sets)
        rule = None if self.replay is None else FASTCAR
        plan = Plan(Phases(hw, self.fidelity), video, self.attention, self.schedule, rule, steps)
        decided = self.replay
        if decided is None:
            shape = 1, len(steps), design.model.body.n_layers, design.policy.batch * sets
            decided = np.zeros(shape, np.bool_)
        found = simulate(plan, Batches(decided, 1, 0, "captured", "drawn", rule=rule))
        stored = (getattr(design.model, of) for of in ("weights", "kv", "activations", "replay"))
        is_exact = all(bits(each).denominator <= EXACT for each in stored)
        low, high = (
            Oracle(
                design,
                {path.name: path.rate for path in hw.paths},
                {path.name: rate for path, rate in zip(hw.paths, hw.fastest_rates, strict=True)},
                {path.name: path.latency_cycles for path in hw.paths},
                nudge,
            )
            for nudge in ((Fraction(1),) * 2 if is_exact else (1 - NUDGE, 1 + NUDGE))
        )
        decisions = None if rule is None else decided.tolist()
        least, most = (
            each.run(video, self.attention, self.schedule, decisions) for each in (low, high)
        )
        for name, total in found.totals.items():
            moved = zip((path.name for path in hw.paths), total.dram_bytes, strict=True)
            got = {of: getattr(total, of) for of in ("macs", "vector_ops", "sram_bytes")}
            least_of, most_of = (each.get(name) or Phase() for each in (least, most))
            for of, amount in (got | dict(moved)).items():
                assert least_of.work[of] <= amount <= most_of.work[of], (name, of)
            assert least_of.least <= total.cycles, name
            if self.attention.kind == "dense":  # keys that are gathered arrive more slowly
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
        for value, at_least, at_most in zip(astuple(board), *ends, strict=True):
            assert at_least * (1 - ROUNDING) <= value <= at_most * (1 + ROUNDING)


@st.composite
def cases(draw: st.DrawFn, **changes: Any) -> Case:
    private = designs(mapping="batch", weight_sharing="private")
    design, video = draw(designs() | private), draw(videos())
    frame = video.tokens_per_frame
    video = replace(video, prompt_tokens=draw(st.sampled_from([0, 1, 5, 40])))
    sets = [n for n in (1, 2, 3) if frame % n == 0]
    head = {"n_layers": 2, "hidden_size": 12, "n_heads": 3, "ffn_size": 20, "n_codes": 3}
    codes = {"kind": "depth_transformer", "codebook_size": 30} | head
    design = override(
        design,
        {
            "policy.tokens_per_step": draw(st.sampled_from(sets)),
            "model.body.experts": None,
            "model.body.window": draw(st.sampled_from([design.model.body.window, frame])),
            "machine.activation_buffer_kib": draw(st.sampled_from([1, 64])),
            "model.body.mlp": draw(st.sampled_from(["gated", "plain"])),
            "model.head": draw(st.sampled_from([codes, design.model.head.model_dump()])),
            "model.weights": draw(
                st.sampled_from([{"bits": 4.5}, {"bits": 4, "density": 0.3, "index_bits": 2}])
            ),
            "machine.overheads": draw(
                st.sampled_from([{}, {"kernel_cycles": 7, "broadcast_cycles": 5, "step_us": 2.5}])
            ),
            **changes,
        },
    )
    sparse = Streaming(sinks=draw(st.integers(0, 2)), window=draw(st.integers(1, 6)))
    replay = draw_replay(
        draw, draw(st.integers(1, 2)), video, design.model.body.n_layers, design.policy.batch
    )
    return Case(
        design,
        video,
        draw(st.sampled_from([Dense(), sparse])),
        draw(st.sampled_from(sorted(SCHEDULES))),
        draw(st.sampled_from([in_sets(replay, design.policy.tokens_per_step)] * 2 + [None])),
        draw(st.sampled_from(["fluid", "tile"])),
    )


@settings(max_examples=2 * settings.default.max_examples)
@given(cases())
def test_runs_on_drawn_designs(case: Case) -> None:
    case.check()


ONE_MEMORY = dict.fromkeys(("weights", "kv", "replay", "head"), "second")
HELD = {f"machine.{what}_kib": 1 << 16 for what in ("weight_buffer", "kv_buffer")}


@given(
    cases(
        **HELD,
        **{"machine.weight_sharing": "broadcast", "machine.tile_kib": 1 << 10},
        **{"machine.placement": ONE_MEMORY},
    )
)
def test_cycles_of_one_lane_are_known_where_operands_are_one_tile(case: Case) -> None:
    case.attention, case.replay = Dense(), None
    case.check(alone=True)


@pytest.mark.parametrize("name", ["zcu102_head", "u280"])
def test_shipped_designs_on_a_shipped_trace(name: str) -> None:
    """The first 64 tokens of two frames of one batch."""
    design, trace = load_design(name), load_trace("vilau_8f")
    replay = np.array(trace.replay[:512, :, : design.policy.batch]).reshape(2, 256, 32, -1)
    video = Video(2, 64, trace.prompt_tokens)
    Case(design, video, schedule="drs", replay=replay[None, :, :64].reshape(1, 128, 32, -1)).check()


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
    mapping = draw(st.sampled_from(sorted(MAPPINGS)))
    sharing = (
        "broadcast"
        if MAPPINGS[mapping].needs_broadcast
        else draw(st.sampled_from(["broadcast", "private", "private_per_sequence"]))
    )
    raw = raw_design(mapping=mapping, weight_sharing=sharing)
    raw["model"]["body"]["head_size"] = 8
    video = Video(2, 2, draw(st.sampled_from([0, 5, 100_000, LARGE])))
    try:
        design = override(build_design(raw, "extreme"), chosen)
    except InputError:
        reject()
    replay = None
    if design.policy.batch * design.model.body.n_layers < 10_000:
        replay = draw_replay(draw, 1, video, design.model.body.n_layers, design.policy.batch)
    return Case(design, video, schedule=draw(st.sampled_from(sorted(SCHEDULES))), replay=replay)


def check_or_refuse(case: Case) -> None:
    try:
        case.check()
    except InputError:
        return  # a line that names the field; the walk through the schema reads it


@given(extreme_cases())
def test_extremes_of_the_schema_are_right_or_refused(case: Case) -> None:
    check_or_refuse(case)
