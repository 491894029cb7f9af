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

from carsim.account.ranges import LIMIT, kinds, largest
from carsim.account.totals import exact_sums
from carsim.base.errors import InputError
from carsim.base.units import PARTS
from carsim.decisions.attention import PLAIN
from carsim.decisions.replay import FASTCAR
from carsim.design import Design, load_design, override, shipped_designs
from carsim.design.load import configs_folder
from carsim.hardware.schedule import SCHEDULES
from carsim.machine.build import build
from carsim.machine.cases import Cases, RowCases, distinct_reads
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import LaneOp
from carsim.machine.phase import Phase, moved_bytes
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.machine.solve.operand import Operand
from carsim.program.head import Head
from carsim.program.prompt import PromptLayer
from carsim.program.reads import Reads
from carsim.runs.pipeline import run
from carsim.workload.geometry import Video
from carsim.workload.head import HeadStep
from carsim.workload.precision import Precision
from carsim.workload.workload import Workload


def plan_of(design: Design, video: Video) -> Plan:
    steps = range(video.n_steps // design.policy.tokens_per_step)
    return Plan(Phases(Hardware(design)), video, PLAIN, "drs", FASTCAR, steps)


def long_prompt(tokens: int, buffer_kib: int) -> tuple[Design, Workload]:
    changes = [
        "model.preset=llama3_70b",
        "model.context=131072",
        "policy.batch=1",
        f"machine.activation_buffer_kib={buffer_kib}",
    ]
    return load_design("u280", changes), Workload("text", prompt=tokens, tokens=16)


def test_a_prompt_that_a_larger_buffer_allows_names_the_buffer() -> None:
    message = (
        r"machine\.activation_buffer_kib: 32 is too small: a prompt of 32,000 tokens .*; give 64 or"
    )
    design, work = long_prompt(32_000, 32)
    with pytest.raises(InputError, match=message):
        run(design, workload=work, allow_misfit=True, what_if=False)
    design, work = long_prompt(32_000, 64)  # the cure works
    run(design, workload=work, allow_misfit=True, what_if=False)


def test_a_prompt_that_no_buffer_allows_is_named() -> None:
    design, work = long_prompt(130_000, 256)
    with pytest.raises(InputError, match="`workload` prompt: 130000 is too large: time of prompt"):
        run(design, workload=work, allow_misfit=True, what_if=False)


def test_a_forward_that_a_mapping_makes_too_long_names_the_mapping() -> None:
    design = load_design(str(configs_folder() / "boards" / "h100sxm.yaml"))
    message = r"machine\.mapping: 'tensor' makes a forward too long: .*; take batch"
    with pytest.raises(InputError, match=message):
        run(design, workload="diffusion:wan2.1_14b", what_if=False)
    dealt = override(design, {"machine.mapping": "batch"})  # the cure works
    run(dealt, workload="diffusion:wan2.1_14b", what_if=False)


def test_each_product_of_an_op_is_launched() -> None:
    """A prompt's layer has seven: with W_q; with W_k and W_v; with keys; with values; with W_o;
    with W_gate and W_up; and with W_down."""
    cycles = []
    for kernel_cycles in (0, 1000):
        design = tiny_design(f"machine.overheads.kernel_cycles={kernel_cycles}")
        work = {kind.name: kind.work for kind in kinds(plan_of(design, Video(2, 16, 5)))}
        cycles.append(work["prompt"].cycles)
    assert cycles[1] - cycles[0] == 7 * 1000


def longest_phases(plan: Plan) -> dict[str, Phase]:
    """The phases that are longest, as they are simulated."""
    phases, machine = plan.phases, plan.machine
    longest = Reads.of_tokens(plan.video.max_context)
    everyone = RowCases(np.ones((1, machine.rows), np.bool_), np.zeros(1, np.int64))

    def of_head(steps: tuple[HeadStep, ...], codes: int) -> Phase:
        return build(machine, Head(steps=steps), None, Cases(Reads.of_tokens(codes)))

    found = {}
    for block in plan.program(decided=True).blocks:
        reads = longest._replace(aligned_outside=True) if block.reads_tokens else None
        rows = everyone if block.follows else None
        found[block.label] = build(machine, block, SCHEDULES["drs"], Cases(reads, rows))
    head = of_head(phases.head_passes[0].steps, 0)
    of_passes = [of_head(*each).steps for each in phases.head_passes]
    found["head"] = replace(head, steps=sum(of_passes, ()))
    for dense, name in ((False, "prompt"), (True, "dense prompt")):
        prompt = PromptLayer(tokens=plan.video.prompt_tokens, dense=dense)
        found[name] = build(machine, prompt, None, Cases())
    return found


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
    often = [(kind.name, kind.visits) for kind in kinds(plan)]
    layers, steps = design.model.body.n_layers, len(plan.steps)
    for end, visits in (("attention", layers * steps), ("MLP", layers * steps), ("prompt", layers)):
        assert sum(n for name, n in often if name.endswith(end)) == visits
    for name, _, work in kinds(plan):
        phase = phases[name]
        cycles = sum((step.pre_cycles + step.cycles).max() for step in phase.steps)
        moved = moved_bytes(phase.steps, phase.n, len(plan.hw.paths)).sum()
        done = max(
            sum(int((step.macs + step.vector_ops).sum(axis=-1).max()) for step in phase.steps),
            sum(int(step.sram_bytes.sum(axis=-1).max()) for step in phase.steps),
        )
        assert cycles <= 2 * work.cycles, name
        assert moved <= 2 * work.moved, name
        assert done <= 2 * work.done, name


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
    design = tiny_design(*overrides)
    video = Workload("video", frames=2)
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
    (cases,), index = distinct_reads([Reads(reads, reads // 2, reads + 7)])
    assert cases.take(index).attended.tolist() == reads.tolist()
    assert sorted(cases.contexts.tolist()) == [12, 2**30 + 7]


def test_sums_of_many_phases_are_exact() -> None:
    """Two figures of two phases, counted beyond 64 bits; each figure is there twice."""
    figures = np.array([[2**50 + 1, 7], [0, 1]])
    twice = np.stack([figures, figures], axis=2)
    many = np.array([[2**40, 3]])  # of both figures alike
    assert exact_sums(many[None], twice)[:, 0].tolist() == [
        [2**40 * (2**50 + 1) + 3 * 7] * 2,
        [3 * 1] * 2,
    ]
    by_figure = np.array([[2, 3], [1, 1]])
    assert exact_sums(by_figure[:, None], twice)[:, 0].tolist() == [
        [2 * (2**50 + 1) + 3 * 7] * 2,
        [1] * 2,
    ]
    beyond_floats = np.array([[[5, 8]]])
    assert exact_sums(beyond_floats, twice)[:, 0].tolist() == [
        [5 * (2**50 + 1) + 56] * 2,
        [8] * 2,
    ]


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
    operand = Operand(cast("LaneOp", SimpleNamespace(rate=Fraction(1), slots=2, **arrays)), 0)
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
