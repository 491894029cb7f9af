"""Gates and SimPy send the same instruction to the same core in the same cycle."""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra carsim[rtl]")

from gates import Dispatched, Gates, by_groups, mutant

from carsim.hardware.rtl import scheduler as gates
from carsim.hardware.schedule import REPLAYS, SCHEDULES, Registers

CENTRAL = sorted(kind for kind, schedule in SCHEDULES.items() if schedule.central)
OWN = sorted(kind for kind, schedule in SCHEDULES.items() if not schedule.central)
CYCLES = 300


class Case:
    """Layers, hardware, and cores that are not always ready.

    Args:
        seed: Everything follows from it.
        kind: Schedule.
    """

    def __init__(self, seed: int, kind: str) -> None:
        draw = np.random.default_rng(seed)
        self.kind, self.cores = kind, int(draw.integers(1, 6))
        width = int(draw.integers(1, 10))
        self.registers = Registers(
            index_register_bits=width,
            latch_cycles=int(draw.integers(1, 5)),
            scan_cycles_per_sequence=int(draw.integers(0, 4)),
            instructions_per_sequence=int(draw.integers(1, 5)),
            cycles_per_instruction=int(draw.integers(1, 5)),
        )
        self.most = width * int(draw.integers(1, 4)) if SCHEDULES[kind].central else width
        computes = draw.random()
        self.layers = [
            (draw.random(int(draw.integers(1, self.most + 1))) < computes).tolist()
            for _ in range(4)
        ]
        self._ready = draw.random((self.cores, CYCLES)) < draw.choice([0.2, 0.6, 1.0])

    def ready(self, core: int, cycle: int) -> bool:
        return cycle >= CYCLES or bool(self._ready[core, cycle])

    def gates(self, module: ModuleType = gates) -> list[Dispatched]:
        dut: Any
        if SCHEDULES[self.kind].central:
            dut = module.Scheduler(self.kind, self.cores, self.registers, most=self.most)
        else:
            dut = module.OwnChecks(self.cores, self.registers)
        return Gates(dut, self.kind, self.cores, self.registers).run(self.layers, self.ready)

    def simpy(self) -> list[Dispatched]:
        return by_groups(self.kind, self.registers, self.layers, self.cores, self.ready)


@pytest.mark.parametrize("kind", SCHEDULES)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_every_instruction_is_taken_in_the_cycle_and_by_the_core_that_simpy_says(
    kind: str, seed: int
) -> None:
    case = Case(seed, kind)
    assert case.gates() == case.simpy()


@pytest.mark.parametrize("kind", SCHEDULES)
def test_all_cores_ready_every_decision_of_four_sequences_takes_the_closed_form(kind: str) -> None:
    case = Case(0, kind)
    case.cores, case.most = 3, 4
    case.registers = Registers(index_register_bits=4, instructions_per_sequence=3)
    case.layers = [[bool(code >> b & 1) for b in range(4)] for code in range(16)]
    case._ready[:] = True
    schedule = SCHEDULES[kind]
    for computing, found in zip(case.layers, case.gates(), strict=True):
        assert found.end == schedule.dispatch_cycles(case.registers, 4, 3)
        (assigned,) = schedule.assign(np.array([computing]), 3).tolist()
        told = {(each.sequence, each.core) for each in found.sent}
        assert told == {(b, core) for b, core in enumerate(assigned) if core != REPLAYS}
        assert len(found.sent) == 3 * len(told)


@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize(("width", "most"), [(32, 32), (7, 7), (4, 10)])
def test_every_batch_that_the_port_can_carry_ends(kind: str, width: int, most: int) -> None:
    """Of none and of too many nothing is sent, and what comes next is as it would have been."""
    registers = Registers(index_register_bits=width, instructions_per_sequence=2)
    central = SCHEDULES[kind].central
    most = most if central else width
    dut: Any = (
        gates.Scheduler(kind, 3, registers, most=most) if central else gates.OwnChecks(3, registers)
    )
    bits = [b % 3 > 0 for b in range(most)]
    batches = range(1 << len(dut.batch))
    assert {0, most} < {*batches}
    layers = [bits[: min(batch, most)] for batch in batches]
    found = iter(
        Gates(dut, kind, 3, registers).run(layers, lambda core, cycle: True, batches=batches)
    )
    for batch, layer in zip(batches, layers, strict=True):
        if 0 < batch <= most:
            expected = by_groups(kind, registers, [layer], 3, lambda core, cycle: True)
            assert [next(found) for _ in expected] == expected
        else:
            assert next(found) == Dispatched((), 1, error=True)
    assert next(found, None) is None


@pytest.mark.parametrize("width", [2, 32, 64])
@pytest.mark.parametrize("cores", [1, 16])
def test_the_ends_of_the_range_that_is_synthesised(width: int, cores: int) -> None:
    case = Case(width, CENTRAL[0])
    case.cores, case.most = cores, width
    case.registers = Registers(index_register_bits=width, instructions_per_sequence=2)
    case.layers = [[b % 3 > 0 for b in range(width)], [True] * width]
    case.ready = lambda core, cycle: (core + cycle) % 3 > 0  # type: ignore[method-assign]
    assert case.gates() == case.simpy()


def test_logic_without_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match=r"drs\.latch_cycles is 0; clocked logic takes 1 or more"):
        gates.check_clocked(Registers(latch_cycles=0), "cycles_per_instruction", "latch_cycles")


MUTANTS = {
    "the scan deals to one core too many": (
        "rules",
        "self.core == self._cores - 1, 0",
        "self.core == self._cores, 0",
    ),
    "a packed core never fills up": ("rules", "with m.If(slot == last)", "with m.If(slot == 0)"),
    "the rule goes on where the layer before ended": (
        "scheduler",
        "rule.clear.eq(latch)",
        "rule.clear.eq(0)",
    ),
    "the Index Register keeps bits of the layer before": (
        "scheduler",
        "index.eq(group.bits)",
        "index.eq(index | group.bits)",
    ),
    "decisions are latched a cycle late": (
        "scheduler",
        "wait.eq(latch_cycles - 2)",
        "wait.eq(latch_cycles - 1)",
    ),
    "the scan leaves out the last sequence": (
        "scheduler",
        "m.If(sequence == count - 1)",
        "m.If(sequence + 1 == count - 1)",
    ),
    "Mapping Registers are read where the scan stands": (
        "scheduler",
        "read.addr.eq(checker.sequence)",
        "read.addr.eq(sequence)",
    ),
    "the second group is taken for the first": (
        "scheduler",
        "self.sent.eq(checker.sent + group.base)",
        "self.sent.eq(checker.sent)",
    ),
    "the last group is as large as the others": (
        "scheduler",
        "Mux(left, width, self.batch - base)",
        "Mux(self.batch > width, width, self.batch)",
    ),
    "an instruction is dropped under back-pressure": (
        "checker",
        "with m.If(~stalled):\n            m.d.sync += [self.valid.eq(0)",
        "with m.If(1):\n            m.d.sync += [self.valid.eq(0)",
    ),
    "an instruction is overwritten under back-pressure": (
        "checker",
        "check.eq(running & ~stalled & (wait == 0))",
        "check.eq(running & (wait == 0))",
    ),
    "the memory goes on under back-pressure": (
        "checker",
        "self.fetch.eq(check)",
        "self.fetch.eq(1)",
    ),
    "what replays is sent as well": (
        "checker",
        "self.computes << self.core",
        "1 << self.core",
    ),
    "a check is a cycle short": (
        "checker",
        "self._check_cycles - 1, wait - 1))",
        "max(0, self._check_cycles - 2), wait - 1))",
    ),
    "the dispatch is over before the last instruction is taken": (
        "checker",
        "self.done.eq((ending & ~stalled)",
        "self.done.eq((ending)",
    ),
    "a core that is through stays so in the next layer": (
        "scheduler",
        "through.eq(Mux(self.done, 0, over))",
        "through.eq(over)",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_on_purpose_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, old, new = MUTANTS[name]
    changed = mutant(module, old, new)
    if module != "scheduler":
        monkeypatch.setitem(sys.modules, changed.__name__, changed)
        changed = mutant("scheduler", '"""The Dynamic', '"""The Dynamic')  # imports the mutant
    cases = [Case(seed, kind) for seed in range(12) for kind in (*CENTRAL, *OWN)]
    assert any(caught(case, changed) for case in cases)


def caught(case: Case, module: ModuleType) -> bool:
    try:
        return case.gates(module) != case.simpy()
    except AssertionError:  # no end, another sequence's instruction, or one for two cores
        return True


def test_the_cases_that_catch_bugs_pass_without() -> None:
    for seed in range(12):
        for kind in SCHEDULES:
            case = Case(seed, kind)
            assert case.gates() == case.simpy()
