"""What a rule of replay costs on the machine, where, and when its decision is known; by hand."""

from typing import ClassVar, Literal

import pytest
from ideal import APART, attend, compute, ideal_hardware, mlp_bound, output, qkv
from toy_rules import Cosine

from carsim.decisions.attention import PLAIN
from carsim.decisions.replay import FASTCAR, InputChange, Point, ReplayRule, Tas
from carsim.hardware.schedule import BASELINE
from carsim.machine.phases import FIDELITIES, Phases
from carsim.machine.plan import Plan
from carsim.program.program import TOKEN
from carsim.workload.geometry import Video
from carsim.workload.ops import Category

RUNGS = pytest.mark.parametrize("rung", FIDELITIES)
CHANGE = InputChange()  # of 32 elements: 32 bytes and a scale of 2
HEAD = Tas(head=1)  # of 4 heads of 8


class Late(Cosine):
    """The same, were it known after attention."""

    known_at: ClassVar[Point] = "attention"
    kind: Literal["late"] = "late"  # type: ignore[assignment]


@RUNGS
def test_an_input_is_normed_and_compared_behind_the_output_projection(rung: str) -> None:
    # 1024 bytes until 138; 4 x 34 bytes held behind them on the same memory: 155. The product is
    # done by then. Norm of 2 x 32 x 4 and score of 2 x 32 x 6 operations: a cycle each.
    phases = Phases(ideal_hardware(), rung)
    plain, scored = output(phases), output(phases, CHANGE)
    assert plain.cycles == 138 + 2
    assert scored.cycles == 155 + 1 + 1
    assert scored.times[0, Category.REPLAY] == 2
    assert scored.dram_bytes.tolist() == [[1024 + 136, 0]]
    assert scored.vector_ops - plain.vector_ops == 4 * 32 * (4 + 6)
    # Held in another memory, they are read beside it.
    apart = output(Phases(ideal_hardware(placement=APART), rung), CHANGE)
    assert apart.cycles == 138 + 2 + 1 + 1
    assert apart.dram_bytes.tolist() == [[1024, 136]]


@RUNGS
def test_the_norm_is_taken_once_and_inputs_are_written_by_those_that_compute(rung: str) -> None:
    # Gate and up until 394; 1536, 4 x 64 and 4 x 34 until 394 + 241 = 635, and a last cycle.
    phases = Phases(ideal_hardware(), rung)
    scored, first_frame = (compute(phases, "1111", known, rule=CHANGE) for known in (10_000, None))
    assert scored.cycles == 635 + 1
    assert scored.times[0, Category.MLP] == 2 + 4
    # In the first frame nothing is scored: the norm is the MLP's, and inputs are held all the same.
    assert first_frame.times[0, Category.MLP] == 1 + 2 + 4
    assert scored.dram_bytes.tolist() == first_frame.dram_bytes.tolist()
    assert scored.dram_bytes.tolist() == [[3072 + 1536 + 4 * 64 + 4 * 34, 0]]
    # One computes: it writes output and input; three read outputs.
    for rule, nbytes in ((CHANGE, 34), (FASTCAR, 0)):
        one = compute(phases, "0100", 10_000, rule=rule)
        assert one.dram_bytes.tolist() == [[4608 + 4 * 64 + nbytes, 0]]


def test_the_bound_writes_inputs_and_takes_no_norm_twice() -> None:
    slow = {"rows": 1, "cols": 1, "pipeline_cycles": 0}
    # Without a rule nothing goes to the replay cache, 4 x 64 bytes.
    for rule, norm, written in ((None, 1, 0), (FASTCAR, 1, 256), (CHANGE, 0, 256 + 136)):
        (cycles,), (nbytes,) = mlp_bound(Phases(ideal_hardware(array=slow)), 4, rule)
        assert cycles[4] == norm + 6144 + 3072
        assert nbytes[4].tolist() == [4608 + written, 0]
        assert nbytes[0].tolist() == [0 if rule is None else 256, 0]


@RUNGS
def test_one_head_multiplies_and_reads_a_fourth_of_four(rung: str) -> None:
    late, early = (Phases(ideal_hardware(decision_at=at), rung) for at in ("attention", "q"))
    plain, mean, head = (qkv(early, rule) for rule in (None, FASTCAR, HEAD))
    assert (mean.vector_ops - plain.vector_ops, head.vector_ops - plain.vector_ops) == (128, 32)
    assert (mean.dram_bytes - plain.dram_bytes).tolist() == [[4 * 32, 0]]
    assert (head.dram_bytes - plain.dram_bytes).tolist() == [[4 * 8, 0]]
    # After attention: within the window nothing is read, outside of it the same bytes as early.
    assert (qkv(late, HEAD).dram_bytes == plain.dram_bytes).all()
    for rule, nbytes in ((FASTCAR, 128), (HEAD, 32)):
        unscored, inside, outside = (
            attend(late, 8, scored, is_outside)
            for scored, is_outside in ((None, True), (rule, False), (rule, True))
        )
        assert inside.vector_ops - unscored.vector_ops == nbytes
        assert (inside.dram_bytes == unscored.dram_bytes).all()
        assert (outside.dram_bytes - unscored.dram_bytes).tolist() == [[nbytes, 0]]


@RUNGS
def test_split_over_cores_one_head_stays_with_one_core(rung: str) -> None:
    # On four cores a head each: the mean takes a head's products on each, one head takes as long.
    slow = {"lanes": 1, "pipeline_cycles": 0}
    phases = Phases(ideal_hardware(cores=4, mapping="tensor", decision_at="q", vector=slow), rung)
    assert qkv(phases, FASTCAR).compute_cycles == qkv(phases, HEAD).compute_cycles
    assert qkv(phases, FASTCAR).vector_ops - qkv(phases, HEAD).vector_ops == 4 * (32 - 8)


@RUNGS
def test_what_a_rule_of_queries_holds_is_read_where_it_is_scored(rung: str) -> None:
    for at, early in (("q", True), ("attention", False)):
        phases = Phases(ideal_hardware(decision_at=at, placement=APART), rung)
        read = qkv(phases, Cosine()) if early else attend(phases, 8, Cosine())
        idle = attend(phases, 8, Cosine()) if early else qkv(phases, Cosine())
        assert read.dram_bytes[0, 1] == 4 * 16
        assert idle.dram_bytes[0, 1] == 0
        assert output(phases, Cosine()) is output(phases)
        assert compute(phases, "1010", 10_000, rule=Cosine()).dram_bytes[0, 1] == 4 * 64 + 2 * 16


@pytest.mark.parametrize(
    ("rule", "decision_at", "known"),
    [
        (FASTCAR, "q", 100 + 7),
        (FASTCAR, "attention", 7),
        (FASTCAR, "residual", 0),
        (HEAD, "q", 100 + 7),
        (Late(), "q", 7),
        (Late(), "residual", 0),
        (CHANGE, "q", 0),
        (CHANGE, "attention", 0),
    ],
)
def test_a_decision_is_known_at_the_later_of_the_rules_point_and_the_machines(
    rule: ReplayRule, decision_at: str, known: int
) -> None:
    """Attention takes 100 cycles, the output projection 7."""
    phases, video = Phases(ideal_hardware(decision_at=decision_at)), Video(2, 3, 1)
    plan = Plan(phases, video, PLAIN, BASELINE.kind, rule, range(6))
    program = plan.program(decided=True)
    layer = program.layers[0]
    took = {"qkv": 1, "attention": 100, "output": 7}
    since = layer[program.known_from(layer, TOKEN) : -1]
    assert sum(took[block.name] for block in since) == known


def test_a_rule_that_is_known_late_is_not_scored_early() -> None:
    phases = Phases(ideal_hardware(decision_at="q"))
    assert (qkv(phases, Late()).vector_ops == qkv(phases, None).vector_ops).all()
    assert (attend(phases, 8, Late()).vector_ops > attend(phases, 8).vector_ops).all()
