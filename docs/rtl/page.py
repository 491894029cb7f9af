"""Write what is computed in docs/rtl/README.md, and its timing diagram.

    python docs/rtl/page.py

The register map is that of the hardware, resources are those of the table of gates, and the diagram
shows what Amaranth's simulator says. Needs the extra rtl.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from amaranth.sim import Simulator
from matplotlib.figure import Figure

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1]))

from carsim.hardware.rtl.block import SCHEDULES, BlockSize, SchedulerCore  # noqa: E402
from carsim.hardware.rtl.registers import REGISTERS, TABLE, markdown  # noqa: E402
from carsim.hardware.rtl.synthesise import ultrascale_mhz  # noqa: E402
from carsim.hardware.technology.constant import rows_of  # noqa: E402

SIGNALS = {
    "s_axis_score_tvalid": "",
    "s_axis_score_tready": "",
    "s_axis_score_tlast": "",
    "s_axis_instr_tvalid": "",
    "s_axis_instr_tready": "",
    "s_axis_instr_tid": "s_axis_instr_tvalid",
    "s_axis_instr_tlast": "",
    "m00_axis_tvalid": "",
    "m00_axis_tready": "",
    "m00_axis_tuser": "m00_axis_tvalid",
    "m01_axis_tvalid": "",
    "m01_axis_tready": "",
    "m01_axis_tuser": "m01_axis_tvalid",
    "done": "",
}
"""What is drawn; of a number, the signal that says when it counts."""

REPLAYS, COMPUTES, TAU = 0x3F800000, 0x00000000, 0x3F000000  # 1.0, 0.0, 0.5
SCORES = (COMPUTES, REPLAYS, COMPUTES)
SLOW = range(8, 12)
"""Cycles in which core 1 is not ready."""


def simulate() -> dict[str, list[int]]:
    """A layer of three sequences of two instructions, interleaved; the second sequence replays."""
    dut = SchedulerCore(BlockSize(cores=2, sequences=4, queue=2, data_bits=8))
    beats = [(sequence, last) for last in (0, 1) for sequence in range(len(SCORES))]
    seen: dict[str, list[int]] = {name: [] for name in SIGNALS}

    async def bench(ctx: Any) -> None:
        score = beat = 0
        for name, value in {"batch": 3, "cores": 2, "threshold": TAU, "timeout": 99}.items():
            ctx.set(getattr(dut, name), value)
        ctx.set(dut.enable, 1)
        await ctx.tick()
        while not any(seen["done"]):
            ctx.set(dut.s_axis_score_tvalid, score < len(SCORES))
            ctx.set(dut.s_axis_score_tdata, SCORES[min(score, 2)])
            ctx.set(dut.s_axis_score_tlast, score == 2)
            sequence, last = beats[min(beat, len(beats) - 1)]
            ctx.set(dut.s_axis_instr_tvalid, beat < len(beats))
            ctx.set(dut.s_axis_instr_tid, sequence)
            ctx.set(dut.s_axis_instr_tlast, last if beat < len(beats) else 0)
            ctx.set(dut.m00_axis_tready, 1)
            ctx.set(dut.m01_axis_tready, len(seen["done"]) not in SLOW)
            for name, values in seen.items():
                values.append(int(ctx.get(getattr(dut, name))))
            score += ctx.get(dut.s_axis_score_tready) and score < len(SCORES)
            beat += ctx.get(dut.s_axis_instr_tready) and beat < len(beats)
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return seen


def diagram(seen: dict[str, list[int]]) -> Figure:
    """Signals below each other, a cycle between two lines."""
    cycles = len(seen["done"])
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    axes = figure.subplots()
    for row, (name, counts) in enumerate(SIGNALS.items()):
        base = -row
        values = seen[name]
        if counts:
            for cycle, value in enumerate(values):
                if seen[counts][cycle]:
                    axes.plot(
                        [cycle, cycle + 1, cycle + 1, cycle, cycle],
                        [base, base, base + 0.6, base + 0.6, base],
                        color="#0072B2", linewidth=1,
                    )  # fmt: skip
                    axes.text(cycle + 0.5, base + 0.3, value, ha="center", va="center", fontsize=8)
        else:
            axes.step(
                range(cycles + 1), [base + 0.6 * value for value in (*values, values[-1])],
                where="post", color="k", linewidth=1.2,
            )  # fmt: skip
    axes.set_yticks([0.3 - row for row in range(len(SIGNALS))], SIGNALS, family="monospace")
    axes.set_xticks(range(cycles + 1))
    axes.grid(axis="x", linewidth=0.3)
    axes.set_xlabel("cycle of aclk")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


FIGURES = ("lut", "ff", "bram36", "dsp", "logic_levels", "fmax_mhz")


def resources(units: Sequence[str], sizes: Mapping[str, str], **only: str) -> str:
    """Rows of the table of gates, in Markdown.

    Args:
        units: Units that are shown.
        sizes: Their sizes in the table, and as the page calls them.
        only: What the rows must have.
    """
    heads = (
        *sizes.values(),
        "LUT",
        "FF",
        "BRAM36",
        "DSP",
        "logic levels",
        "ECP5 MHz",
        "UltraScale+ MHz",
    )
    lines = ["| unit | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for row in rows_of("gates"):
        if row["unit"] in units and only.items() <= row.items():
            values = [f"{float(row[name]):,g}" for name in (*sizes, *FIGURES) if row[name]]
            estimate = f"{ultrascale_mhz(int(row['logic_levels'])):.0f}"
            lines.append(f"| {row['unit']} | " + " | ".join([*values, estimate]) + " |")
    return "\n".join([*lines, ""])


def parts() -> dict[str, str]:
    """What is computed of the page, by its marks."""
    return {
        "registers": markdown((*REGISTERS, TABLE)),
        "blocks": resources(
            ("block", "tuned block"),
            {"cores": "cores", "sequences": "sequences", "entries": "entries a queue"},
        ),
        "dispatchers": resources(
            SCHEDULES, {"sequences": "sequences", "cores": "cores"}, used_for="grid", cores="4"
        ),
        "periodic": resources(("periodic",), {}),
        "scores": resources(("score",), {"heads": "heads", "lanes": "products a cycle"}),
        "sorters": resources(("sorter",), {"entries": "scores of a row"}),
    }  # fmt: skip


def generated(text: str) -> str:
    """The page with its computed parts remade."""
    for name, part in parts().items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        text, found = re.subn(pattern, lambda m, part=part: m[1] + part + m[2], text, flags=re.S)
        assert found == 1, name
    return text


if __name__ == "__main__":
    page = FOLDER / "README.md"
    page.write_text(generated(page.read_text(encoding="utf-8")), encoding="utf-8")
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "carsim", "font.size": 9}):
        diagram(simulate()).savefig(FOLDER / "timing.svg", metadata={"Date": None})
