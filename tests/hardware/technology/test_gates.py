"""Resources of dispatchers from the table of syntheses."""

import pytest
from tiny import resources

from carsim.design import load_design, override
from carsim.hardware.schedule import DEFAULT, SCHEDULES
from carsim.hardware.schedule.base import Schedule
from carsim.hardware.technology.constant import rows_of
from carsim.hardware.technology.gates import HELD_OUT_ERROR, dispatcher

ROWS = [row for row in rows_of("gates") if int(row["cores"]) and row["gate_equivalents"]]


def found(row: dict[str, str]) -> tuple[float, float]:
    return dispatcher(row["unit"], int(row["sequences"]), int(row["cores"]))


def test_rows_of_the_grid_come_back_as_they_were_synthesised() -> None:
    for row in ROWS:
        if row["used_for"] == "grid":
            assert found(row) == (int(row["lut"]), int(row["gate_equivalents"])), row


def test_rows_that_are_held_out_differ_by_no_more_than_is_said() -> None:
    held_out = [row for row in ROWS if row["used_for"] == "held out"]
    assert len(held_out) == 12
    for which, field in enumerate(HELD_OUT_ERROR._fields):
        worst = max(abs(found(row)[which] / int(row[field]) - 1) for row in held_out)
        assert worst == pytest.approx(HELD_OUT_ERROR[which], abs=0.005)


def test_between_rows_it_is_linear_and_goes_on_beyond_them() -> None:
    at = {n: dispatcher("drs", n, 4).lut for n in (32, 48, 64, 80)}
    assert at[48] == pytest.approx((at[32] + at[64]) / 2)
    assert at[80] - at[64] == pytest.approx(at[64] - at[48])


def test_a_schedule_from_outside_is_taken_for_one_of_its_sort(monkeypatch: pytest.MonkeyPatch):
    class Central(type(DEFAULT)):  # type: ignore[misc]
        kind = "central"

    class Own(Central):
        kind = "own"
        central = False

    outside: dict[str, Schedule] = {"central": Central(), "own": Own()}
    for kind, alike in (("central", DEFAULT.kind), ("own", "static")):
        monkeypatch.setitem(SCHEDULES, kind, outside[kind])
        assert dispatcher(kind, 32, 4) == dispatcher(alike, 32, 4)


def test_a_design_takes_the_logic_of_its_own_schedule() -> None:
    design = load_design("u280_compute_bound")
    assert design.machine.cores == 4
    for kind in ("drs", "static"):
        used = resources(override(design, {"policy.schedule": kind})).by_component
        assert used["dispatch"]["lut"] == dispatcher(kind, 32, 4).lut


def test_on_a_chip_a_register_is_four_gates() -> None:
    # Aladdin's register, 5.98 um2 at 40 nm, is 2.93 um2 at 28 nm and 4 gates; 70 % of the floor.
    design = load_design("asic_28nm")
    gates = dispatcher(design.policy.schedule, 32, design.machine.cores)
    um2 = gates.gate_equivalents * 5.98 * 0.7**2 / 4 / 0.7
    assert resources(design).by_component["dispatch"]["area_mm2"] == pytest.approx(um2 * 1e-6)
    queued = dispatcher(design.policy.schedule, 32, 2, 10).gate_equivalents  # and so is a latch
    assert queued - gates.gate_equivalents == pytest.approx(2 * 10 * 128 * 4)
