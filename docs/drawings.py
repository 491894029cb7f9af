"""Draw the figures of docs/reference/machine.md, of the README and of the tutorials.

    python docs/drawings.py                  # all of them
    python docs/drawings.py tutorials        # those of the tutorials, which run for a minute

Times and assignments are those that carsim computes, so that a drawing cannot say anything else.
"""

import contextlib
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from readme import Folder, blocks, execute  # noqa: E402

from carsim import load_design, load_trace, override, run  # noqa: E402
from carsim.hardware.schedule import SCHEDULES, Registers  # noqa: E402
from carsim.report.figures import run_plots  # noqa: E402
from carsim.report.figures.draw import save  # noqa: E402
from carsim.report.plots import write_plot  # noqa: E402
from carsim.report.stored import stored  # noqa: E402

BLUE, SKY, ORANGE, GREEN, RED, GREY = (
    "#0072B2",
    "#56B4E9",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#BBBBBB",
)
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "carsim",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def box(
    axes: Axes, left: float, y: float, width: float, text: str, color: str, size: float = 9
) -> None:
    """A bar with its name in the middle."""
    axes.add_patch(Rectangle((left, y - 0.36), width, 0.72, facecolor=color, edgecolor="white"))
    ink = "k" if color in (SKY, ORANGE, GREY) else "w"
    axes.text(left + width / 2, y, text, ha="center", va="center", color=ink, fontsize=size)


def layer_step() -> Figure:
    """One layer of one token step on zcu102, computed and replayed, in milliseconds."""
    design = load_design("zcu102")
    replayed = run(override(design, {}), workload="video:8,replay=1.0")
    dense, fast = replayed.baseline, replayed.chosen
    video = dense.simulation.plan.video
    layers = design.model.body.n_layers
    parts = {"qkv": "QKV\nprojection", "attention": "attention", "output": "output\nprojection"}
    per_step = 1000 / (video.n_steps * layers)
    ms = {name: dense.seconds_by_phase[name] * per_step for name in (*parts, "mlp")}
    eligible = 1 - 1 / video.n_frames  # the first frame computes in both
    replay = (fast.seconds_by_phase["mlp"] * per_step - ms["mlp"] / video.n_frames) / eligible

    figure = Figure(figsize=(7.4, 2.5), layout="constrained")
    axes = figure.subplots()
    for y, mlp in ((1, ms["mlp"]), (0, replay)):
        left = 0.0
        for (name, text), color in zip(parts.items(), (BLUE, GREEN, SKY), strict=True):
            box(axes, left, y, ms[name], text, color, 7)
            left += ms[name]
        if mlp > 0.5:
            box(axes, left, y, mlp, "MLP: gate, up, down", ORANGE)
        else:
            box(axes, left, y, mlp, "", ORANGE)
            text = f"replay: two cached outputs are read, {1000 * mlp:.0f} us"
            axes.text(left + mlp + 0.1, y, text, va="center")
    decided = ms["qkv"] + ms["attention"]
    axes.annotate(
        "decision at attention",
        (decided, 0.5),
        (decided + 0.9, 0.5),
        va="center",
        arrowprops={"arrowstyle": "->"},
    )
    axes.set(yticks=(1, 0), ylim=(-0.6, 1.6), xlim=(0, sum(ms.values()) * 1.01))
    axes.set_yticklabels(("both rows\ncompute", "both rows\nreplay"))
    axes.set_xlabel("ms, one layer of one token step on zcu102, mean context")
    return figure


def tiles(fetch: int, compute: int, slots: int = 4, n: int = 8, latency: int = 3) -> np.ndarray:
    """(first request, arrived, begun, done) of each tile: a DMA that waits for slots, an array."""
    times = np.zeros((n, 4), int)
    for i in range(n):
        free = times[i - slots, 3] if i >= slots else 0
        begin = max(free, times[i - 1, 1] if i else latency)
        arrived = begin + fetch
        begun = max(arrived, times[i - 1, 3] if i else 0)
        times[i] = begin, arrived, begun, begun + compute
    return times


def double_buffer() -> Figure:
    """Two ends of a buffer of four tiles: memory is slower, the array is slower."""
    figure = Figure(figsize=(7.4, 3.4), layout="constrained")
    cases = (
        ("memory is slower: the array waits for tiles", 3, 2),
        ("the array is slower: the DMA waits for slots", 2, 4),
    )
    for axes, (title, fetch, compute) in zip(figure.subplots(2, sharex=True), cases, strict=True):
        box(axes, 0, 1, 3, "latency", GREY, 8)
        for i, (begin, arrived, begun, done) in enumerate(tiles(fetch, compute)):
            box(axes, begin, 1, arrived - begin, f"{i + 1}", BLUE)
            box(axes, begun, 0, done - begun, f"{i + 1}", ORANGE)
        axes.set_title(title, loc="left", fontsize=9, fontweight="bold")
        axes.set(yticks=(1, 0), ylim=(-0.5, 1.5), xticks=())
        axes.set_yticklabels(("DMA: tile", "array: tile"))
    axes.set(xlim=(0, 38), xlabel="time; a buffer of four tiles")
    return figure


def scheduler() -> Figure:
    """Registers of DRS, and where three of eight sequences are computed."""
    computing = np.array([1, 0, 0, 0, 1, 0, 0, 1], bool)
    cores = 4
    assigned = {
        name: SCHEDULES[name].assign(computing[None], cores)[0] for name in ("static", "drs")
    }
    registers = Registers()
    figure = Figure(figsize=(7.4, 4.0), layout="constrained")
    top, *below = figure.subplot_mosaic("AA;BC", height_ratios=(1.1, 1)).values()
    rows = (
        ("sequence", [str(b) for b in range(len(computing))]),
        ("Index Register\n1 computes, 0 replays", [str(int(c)) for c in computing]),
        ("Mapping Registers\ncore of each", [str(a) if a >= 0 else "-" for a in assigned["drs"]]),
    )
    for y, (name, cells) in zip((2, 1, 0), rows, strict=True):
        top.text(-0.2, y, name, ha="right", va="center")
        for x, cell in enumerate(cells):
            color = "white" if y == 2 else SKY if computing[x] else "#EEEEEE"
            edge = "white" if y == 2 else "k"
            top.add_patch(
                Rectangle((x, y - 0.38), 0.9, 0.76, facecolor=color, edgecolor=edge, lw=0.6)
            )
            top.text(x + 0.45, y, cell, ha="center", va="center")
    told = (
        f"latch: {registers.latch_cycles} cycles\n"
        f"scan: {registers.scan_cycles_per_sequence} a sequence\n"
        f"check: {registers.cycles_per_instruction} an instruction,\n"
        f"{registers.instructions_per_sequence} a sequence"
    )
    top.text(8.3, 1, told, va="center")
    top.set(xlim=(-2.6, 11.2), ylim=(-0.6, 2.6))
    top.axis("off")
    titles = {
        "static": "static: sequence b on core b mod 4",
        "drs": "drs: round robin over the cores",
    }
    for axes, (name, homes) in zip(below, assigned.items(), strict=True):
        depth = dict.fromkeys(range(cores), 0)
        for sequence, core in enumerate(homes):
            if core >= 0:
                box(axes, depth[core], cores - 1 - core, 1, f"MLP of {sequence}", ORANGE)
                depth[core] += 1
        axes.set_title(titles[name], loc="left", fontsize=9, fontweight="bold")
        axes.set(xlim=(0, 2.2), ylim=(-0.6, 3.6), xticks=(), yticks=range(cores), xlabel="time")
        axes.set_yticklabels([f"core {core}" for core in reversed(range(cores))])
    return figure


def from_video_to_phases() -> Figure:
    """A video, its steps, the layers of one, the phases of one."""
    figure = Figure(figsize=(7.4, 2.7), layout="constrained")
    axes = figure.subplots()
    rows = (
        (
            3,
            "video",
            [
                ("prompt", 1.4, GREY),
                *((f"step {i}", 1.0, SKY) for i in range(3)),
                ("...", 1.6, "w"),
                ("step T·N-1", 1.4, SKY),
            ],
        ),
        (
            2,
            "step",
            [
                ("layer 0", 1.3, BLUE),
                ("layer 1", 1.3, BLUE),
                ("...", 1.0, "w"),
                ("layer L-1", 1.3, BLUE),
                ("head", 1.5, GREEN),
                ("host", 0.9, GREY),
            ],
        ),
        (
            1,
            "layer-step",
            [
                ("QKV projection", 2.0, ORANGE),
                ("attention", 1.4, ORANGE),
                ("output projection", 2.0, ORANGE),
                ("MLP or replay", 1.9, ORANGE),
            ],
        ),
    )
    for y, name, cells in rows:
        left = 0.0
        for text, width, color in cells:
            if color == "w":
                axes.text(left + width / 2, y, text, ha="center", va="center")
            else:
                box(axes, left, y, width, text, color)
            left += width
        axes.text(-0.15, y, name, ha="right", va="center", fontweight="bold")
    for (x0, x1), y in (((1.4, 2.4), 3), ((0.0, 1.3), 2)):
        for x, to in ((x0, 0.0), (x1, 7.3)):
            line = FancyArrowPatch(
                (x, y - 0.36), (to, y - 0.64), arrowstyle="-", color="#888888", lw=0.7
            )
            axes.add_patch(line)
    axes.set(xlim=(-1.4, 7.5), ylim=(0.5, 3.5))
    axes.axis("off")
    return figure


TUTORIALS = ROOT / "docs" / "tutorials"
RULES_OF_MACHINES = (
    *(f"tas_{board}=TAS" for board in ("zcu102", "vck190", "u280")),
    *(f"pairs_{board}=pairs" for board in ("zcu102", "vck190", "u280")),
)
PICTURES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "tutorial-roofline": ("simulate-your-board", ("text",), "roofline"),
    "tutorial-rules": (
        "test-your-skipping-rule",
        RULES_OF_MACHINES,
        "speedup:board.name:label",
    ),
    "tutorial-front": ("find-the-best-machine", ("grid",), "front"),
}
"""Name of a picture -> the tutorial, the folders of results that it makes, and what is drawn."""


def tutorial_picture(name: str) -> None:
    """Run the blocks of a tutorial, and draw the results that they leave."""
    tutorial, sources, what = PICTURES[name]
    text = (TUTORIALS / f"{tutorial}.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Folder(Path(temporary))
        for block in blocks(text):
            execute(block, folder)
        with contextlib.chdir(folder.path):
            picture, _ = write_plot(sources, what, f"{name}.png")
            (IMAGES / picture.name).write_bytes(picture.read_bytes())


DRAWINGS = {
    "phases": from_video_to_phases,
    "layer_step": layer_step,
    "double_buffer": double_buffer,
    "drs": scheduler,
}

if __name__ == "__main__":
    for picture_name in PICTURES:
        tutorial_picture(picture_name)
    if sys.argv[1:] == ["tutorials"]:
        sys.exit()
    with mpl.rc_context(STYLE):
        for name, draw in DRAWINGS.items():
            draw().savefig(IMAGES / f"{name}.svg", metadata={"Date": None})
    report = run(load_design("zcu102"), [load_trace("vilau_8f")])
    save(run_plots(stored(report), None)["comparison"], IMAGES / "zcu102.png")
