"""Many cases of a block that rows skip: equal work is built once, and designs take turns.

Neither changes a figure: both are compared with all cases on all designs at once.
"""

from dataclasses import fields

import numpy as np
import pytest

from carsim.decisions.replay import FASTCAR
from carsim.design import load_design
from carsim.hardware.schedule import SCHEDULES
from carsim.machine.arrays import MachineArrays
from carsim.machine.cases import Cases, RowCases
from carsim.machine.hardware import Hardware
from carsim.machine.phase import Outcome
from carsim.machine.phases import Phases
from carsim.program.reads import Reads

N_CASES = 300


def phases_on(mapping: str, weight_sharing: str, *clocks_mhz: float) -> Phases:
    """Phases of designs that skip attention, too, and differ in their clock."""
    hardwares = [
        Hardware(
            load_design(
                "configs/zcu102_16gb.yaml",
                [
                    "policy.skip.kind=attention_too",
                    "machine.decision_at=q",
                    f"machine.mapping={mapping}",
                    f"machine.weight_sharing={weight_sharing}",
                    f"board.fabric_clock_mhz={clock_mhz}",
                ],
            )
        )
        for clock_mhz in clocks_mhz
    ]
    return Phases(MachineArrays.of(hardwares))


def attend(phases: Phases, schedule: str) -> Outcome:
    """Attention in random cases; each design knows the decisions for times of its own."""
    random = np.random.default_rng(0)
    machine = phases.machine
    known_cycles = random.integers(0, 500, (machine.n_designs, N_CASES))
    cases = Cases(
        reads=Reads.of_tokens(random.integers(1, 40, N_CASES)),
        rows=RowCases(random.random((N_CASES, machine.rows)) < 0.5, known_cycles),
    )
    layer = phases.program(FASTCAR, decided=True).layers[0]
    (block,) = (block for block in layer if block.name == "attention")
    return phases.of(block, cases, SCHEDULES[schedule])


def assert_equal(outcome: Outcome, expected: Outcome) -> None:
    """Outcomes are equal in every figure."""
    for field in fields(Outcome):
        figure = getattr(outcome, field.name)
        np.testing.assert_array_equal(figure, getattr(expected, field.name), field.name)


@pytest.mark.parametrize("schedule", ["static", "drs"])
@pytest.mark.parametrize(
    ("mapping", "weight_sharing"),
    [("batch", "broadcast"), ("batch", "private"), ("tensor", "broadcast")],
)
def test_equal_work_is_built_once(
    mapping: str, weight_sharing: str, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carsim.machine.build.FEW_CASES", N_CASES)
    one_by_one = attend(phases_on(mapping, weight_sharing, 250.0), schedule)
    monkeypatch.setattr("carsim.machine.build.FEW_CASES", 0)
    assert_equal(attend(phases_on(mapping, weight_sharing, 250.0), schedule), one_by_one)


@pytest.mark.parametrize("weight_sharing", ["broadcast", "private"])
def test_many_cases_are_simulated_on_one_design_after_the_other(
    weight_sharing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks_mhz = (250.0, 100.0, 300.0)
    together = attend(phases_on("batch", weight_sharing, *clocks_mhz), "drs")
    monkeypatch.setattr("carsim.machine.phases.MOST_TOGETHER", N_CASES - 1)
    one_by_one = phases_on("batch", weight_sharing, *clocks_mhz)
    assert_equal(attend(one_by_one, "drs"), together)
    assert one_by_one.simulated == len(clocks_mhz) * N_CASES
