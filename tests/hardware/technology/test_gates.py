"""Resources of schedulers from the table of syntheses."""

import pytest

from carsim.cost.resources import resources
from carsim.design import load_design, override
from carsim.hardware.schedule import DEFAULT, SCHEDULES, Registers
from carsim.hardware.schedule.base import Schedule
from carsim.hardware.technology.gates import HELD_OUT_ERROR, comparator, dispatcher, rows

SCHEDULER_ROWS = [row for row in rows() if row["unit"] in SCHEDULES]


def registers(row: dict[str, str]) -> Registers:
    return Registers(
        index_register_bits=int(row["sequences"]), scan_cycles_per_sequence=int(row["scan_cycles"])
    )


def test_rows_of_the_grid_come_back_as_they_were_synthesised() -> None:
    for row in SCHEDULER_ROWS:
        if row["used_for"] == "grid":
            found = dispatcher(row["unit"], registers(row), int(row["cores"]))
            assert found.lut == int(row["lut"]), row
            assert found.gate_equivalents == int(row["gate_equivalents"]), row


def test_rows_that_are_held_out_differ_by_no_more_than_is_said() -> None:
    errors = [
        dispatcher(row["unit"], registers(row), int(row["cores"])).lut / int(row["lut"]) - 1
        for row in SCHEDULER_ROWS
        if row["used_for"] == "held out"
    ]
    assert len(errors) == 9
    assert max(map(abs, errors)) <= HELD_OUT_ERROR
    assert max(map(abs, errors)) > HELD_OUT_ERROR - 0.05, "the stated error is too large"


@pytest.mark.parametrize("cores", [1, 3, 16, 20])
def test_more_sequences_never_take_less(cores: int) -> None:
    for kind in SCHEDULES:
        found = [
            dispatcher(kind, Registers(index_register_bits=n), cores)
            for n in (1, 2, 20, 32, 64, 80)
        ]
        assert found == sorted(found)
        assert all(0 <= each.lut < 2000 for each in found)


def test_a_schedule_from_outside_is_taken_for_one_of_its_sort(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Central(type(DEFAULT)):  # type: ignore[misc]
        kind = "central"

    class Own(Central):
        kind = "own"
        central = False

    outside: dict[str, Schedule] = {"central": Central(), "own": Own()}
    for kind, alike in (("central", DEFAULT.kind), ("own", "static")):
        monkeypatch.setitem(SCHEDULES, kind, outside[kind])
        assert dispatcher(kind, Registers(), 4) == dispatcher(alike, Registers(), 4)


def test_a_design_takes_the_logic_of_its_own_schedule() -> None:
    design = load_design("u280_compute_bound")
    assert design.machine.cores == 4
    used = resources(design).by_component
    scheduler = dispatcher("drs", Registers(), 4).lut
    assert used["dispatch"]["lut"] == scheduler
    assert used["decisions"]["lut"] == 4 * comparator().lut
    static = resources(override(design, {"policy.schedule": "static"})).by_component
    assert static["dispatch"]["lut"] == dispatcher("static", Registers(), 4).lut != scheduler


def test_on_a_chip_a_register_is_four_gates() -> None:
    # Aladdin's register, 5.98 um2 at 40 nm, is 2.93 um2 at 28 nm and 4 gates; 70 % of the floor.
    design = load_design("asic_28nm")
    gates = dispatcher(design.policy.schedule, design.machine.drs, design.machine.cores)
    um2 = gates.gate_equivalents * 5.98 * 0.7**2 / 4 / 0.7
    used = resources(design).by_component["dispatch"]["area_mm2"]
    assert used == pytest.approx(um2 * 1e-6)
