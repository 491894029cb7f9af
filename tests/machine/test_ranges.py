"""What is proven of a plan: no product leaves 64 bits, no array is larger than memory."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import designs, small_design
from tiny import tiny_design

from carsim.base.errors import InputError
from carsim.base.units import PARTS
from carsim.decisions.attention import PLAIN
from carsim.decisions.replay import FASTCAR
from carsim.design import Design, load_design, override, shipped_designs
from carsim.hardware.schedule import SCHEDULES
from carsim.machine.builders import BUILDERS
from carsim.machine.cases import AttendCases, MlpCases
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import Step
from carsim.machine.operand import Operand
from carsim.machine.phase import Phase, exactly, moved_bytes
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.machine.ranges import LIMIT, kinds, largest, work_of
from carsim.runs.pipeline import run
from carsim.workload.geometry import Video
from carsim.workload.head import HeadPass
from carsim.workload.precision import Precision
from carsim.workload.workload import Workload


def plan_of(design: Design, video: Video) -> Plan:
    steps = range(video.n_steps // design.policy.tokens_per_step)
    return Plan(Phases(Hardware(design)), video, PLAIN, "drs", FASTCAR, steps)


def test_each_product_of_an_op_is_launched() -> None:
    work = []
    for cycles in (0, 1000):
        plan = plan_of(tiny_design(f"machine.overheads.kernel_cycles={cycles}"), Video(2, 16, 5))
        every = ((op, is_split) for _, _, is_split, ops in kinds(plan) for op, _ in ops)
        work.append([(work_of(plan.hw, *each).cycles, len(each[0].gemms)) for each in every])
    assert [(cycles + 1000 * n, n) for cycles, n in work[0]] == work[1]


def longest_phases(plan: Plan) -> dict[str, Phase]:
    """The phases that are longest, as they are simulated."""
    phases, longest = plan.phases, np.array([plan.video.max_context])

    def steps_of(each: HeadPass) -> tuple[Step, ...]:
        return BUILDERS["head"](phases.hw, each.steps, np.array([each.codes])).steps

    layer = BUILDERS["head"](phases.hw, phases.head_passes[0].steps, np.zeros(1, np.int64))
    cases = AttendCases(longest, np.ones_like(longest), longest, aligned_outside=True)
    computing = MlpCases(np.ones((1, plan.hw.rows), np.bool_), np.zeros(1, np.int64))
    return {
        "QKV projection": BUILDERS["qkv"](phases.hw, plan.rule),
        "attention": BUILDERS["attention"](phases.hw, plan.rule, cases),
        "output projection": BUILDERS["output"](phases.hw, plan.rule),
        "MLP": BUILDERS["mlp"](phases.hw, SCHEDULES["drs"], computing, plan.rule),
        "dense MLP": BUILDERS["mlp"](
            phases.hw, SCHEDULES["drs"], computing._replace(dense=True), plan.rule
        ),
        "head": replace(layer, steps=sum(map(steps_of, phases.head_passes), ())),
        "prompt": BUILDERS["prefill"](phases.hw, plan.video.prompt_tokens, None, False),
        "dense prompt": BUILDERS["prefill"](phases.hw, plan.video.prompt_tokens, None, True),
    }


EXPERTS = override(
    small_design(batch=7, cores=7),
    {"model.body.experts": {"count": 16, "active": 3}, "model.body.ffn_size": 500},
)
"""One token on each core touches three experts of 16, all seven together twelve."""


@example(EXPERTS, Video(2, 5, 40))
@given(design=designs(), video=st.builds(Video, st.just(2), st.integers(1, 5), st.integers(1, 40)))
def test_no_phase_is_twice_what_was_proven_of_it(design: Design, video: Video) -> None:
    plan = plan_of(design, video)
    phases = longest_phases(plan)
    often = [(name, visits) for name, visits, *_ in kinds(plan)]
    layers, steps = design.model.body.n_layers, len(plan.steps)
    for end, visits in (("attention", layers * steps), ("MLP", layers * steps), ("prompt", layers)):
        assert sum(n for name, n in often if name.endswith(end)) == visits
    for name, _, is_split, ops in kinds(plan):
        works = [(work_of(plan.hw, op, is_split), times) for op, times in ops]
        phase = phases[name]
        cycles = sum((step.pre_cycles + step.cycles).max() for step in phase.steps)
        moved = moved_bytes(phase.steps, phase.n, len(plan.hw.paths)).sum()
        done = max(
            sum(int((step.macs + step.vector_ops).sum(axis=-1).max()) for step in phase.steps),
            sum(int(step.sram_bytes.sum(axis=-1).max()) for step in phase.steps),
        )
        for found, proven in ((cycles, "cycles"), (moved, "moved"), (done, "done")):
            most = sum(getattr(work, proven) * times for work, times in works)
            assert found <= 2 * most, (name, proven)


@pytest.mark.parametrize("name", shipped_designs())
def test_shipped_designs_are_far_inside(name: str) -> None:
    assert 500 * largest(plan_of(load_design(name), Video(8, 256, 62)))[0] < LIMIT


@pytest.mark.parametrize(
    ("overrides", "place"),
    [
        (["model.body.ffn_size=1000000", "machine.vector.lanes=1"], ""),
        (["model.body.hidden_size=1000000", "machine.array.rows=1"], "model.body.hidden_size"),
        (["model.weights.index_bits=1000000000", "model.body.ffn_size=60000"], "index_bits"),
        (["model.video.prompt_tokens=1000000000"], "model.video.prompt_tokens"),
        (["machine.overheads.kernel_cycles=1000000000"], ""),
        (["machine.overheads.step_us=1e9", "board.fabric_clock_mhz=10000.0"], ""),
    ],
)
def test_what_is_too_large_is_named_or_answered(overrides: list[str], place: str) -> None:
    design, video = tiny_design(*overrides), Workload("video", frames=2)
    if place:
        with pytest.raises(InputError, match=f"{place}: .* is too large: .* beyond 1.15e"):
            run(design, workload=video, allow_misfit=True, what_if=False)
        return
    for row in run(design, workload=video, allow_misfit=True, what_if=False).rows:
        assert all(0 < share <= 1 for share in row.ddr_utilisation.values())


def test_what_exceeds_memory_is_refused_before_it_is_made() -> None:
    many = ["policy.batch=1024", "machine.cores=1024", "machine.weight_sharing=private"]
    with pytest.raises(InputError, match=r"policy\.batch: 1,024 rows on 1,024 cores take some"):
        run(tiny_design(*many), workload="video:1", allow_misfit=True)


def test_cases_whose_codes_leave_64_bits_are_told_apart() -> None:
    reads = np.array([[2**30, 2**30], [5, 2**30]])
    cases, index = AttendCases(reads, reads // 2, reads + 7).distinct()
    assert cases.take(index).attended.tolist() == reads.tolist()
    assert sorted(cases.contexts.tolist()) == [12, 2**30 + 7]


def test_sums_of_many_phases_are_exact() -> None:
    counts, figures = np.array([[2**40, 3]]), np.array([[2**50 + 1, 7], [0, 1]])
    twice = np.stack([figures, figures], axis=2)
    assert exactly(counts[None], twice)[:, 0].tolist() == [[2**40 * (2**50 + 1) + 21] * 2, [3] * 2]
    of_each = np.array([[2, 3], [1, 1]])
    assert exactly(of_each[:, None], twice)[:, 0].tolist() == [[2 * (2**50 + 1) + 21] * 2, [1] * 2]


@given(
    nbytes=st.integers(1, 2**44),
    tile=st.integers(1, 2**40),
    cycles=st.integers(0, 2**44),
    part=st.floats(0, 1),
)
@example(nbytes=2**44, tile=2**43, cycles=2**44 - 1, part=0.6)
def test_parts_of_long_operands_are_exact(nbytes: int, tile: int, cycles: int, part: float) -> None:
    sizes = {"cycles": cycles, "stream_bytes": nbytes, "tile_bytes": tile}
    arrays = {name: np.array([[size]]) for name, size in sizes.items()}
    operand = Operand(cast("Step", SimpleNamespace(rate=Fraction(1), slots=2, **arrays)), 0)
    tiles = int(part * -(-nbytes // tile))
    exact = -(-cycles * min(tiles * tile, nbytes) // nbytes)
    assert operand.computed(operand.bytes_of(np.array([[tiles]]))) == exact
    assert operand.tile_cycles == cycles * min(tile, nbytes) // nbytes


BITS = st.floats(0.1, 64, allow_nan=False)


@given(bits=BITS, group=st.none() | st.integers(1, 10**9), elements=st.integers(0, 2**52))
def test_bytes_are_those_of_exact_arithmetic(bits: float, group: Any, elements: int) -> None:
    of_group = {"group": group, "scale_bits": 10**9} if group else {}
    precision = Precision(bits=bits, **of_group)
    exact = -(-elements * precision.bits_per_element // 8)
    assert precision.bytes_of(elements) == exact
    if exact < LIMIT:
        assert precision.bytes_of(np.array([elements, 0])).tolist() == [exact, 0]
    said = Fraction(str(bits)) + Fraction(of_group.get("scale_bits", 0), group or 1)
    assert abs(precision.bits_per_element - said) <= Fraction(1, PARTS)


def test_the_field_that_is_named_is_the_one_that_is_unusual() -> None:
    many = ["policy.batch=4096", "machine.cores=16", "machine.weight_sharing=private"]
    with pytest.raises(InputError, match=r"policy\.batch: 4096 is too large: time of prompt"):
        run(load_design("u280", many), workload="text:16", allow_misfit=True)
