"""All kinds of figures on one sheet, to be looked at.

python tests/contact_sheet.py sheet.png             # each in print, and at its own width
python tests/contact_sheet.py sheet.png --print     # as in docs/images/figures.png
"""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.image
from matplotlib.figure import Figure

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from explore_study import make_study  # noqa: E402
from tiny import tiny_report  # noqa: E402

from carsim.cli.reproduce import reproduction_plot  # noqa: E402
from carsim.explore.sweep import sweep  # noqa: E402
from carsim.report import save_report  # noqa: E402
from carsim.report.figures.draw import image, on_paper  # noqa: E402
from carsim.report.figures.plot import Plot  # noqa: E402
from carsim.report.plots import plot_of  # noqa: E402
from carsim.validate.reproduce import reproduce_fastcar  # noqa: E402

KINDS = {
    "breakdown": ["one"],
    "breakdown ": ["one=batch 4", "pair=batch 2", "cores=five cores"],
    "energy": ["one"],
    "energy ": ["one", "cores"],
    "timeline": ["cores"],
    "utilisation": ["one"],
    "roofline": ["one"],
    "roofline ": ["one", "cores"],
    "seconds_per_video,energy_per_video_j": ["one"],
    "cost_usd": ["one"],
    "speedup": ["one", "cores"],
    "seconds_per_video": ["two"],
    "seconds_per_video:machine.array.cols": ["swept"],
    "seconds_per_video:machine.array.cols:machine.cores": ["swept"],
    "front": ["swept"],
    "front ": ["swept", "three"],
    "front  ": ["three"],
    "front   ": ["policies"],
    "tau": ["policies"],
}
"""Figure -> folders of results; a blank at the end tells two figures of a kind apart."""

OBJECTIVES = ["seconds_per_video", "energy_per_video_j"]


def make_folders(folder: Path) -> None:
    """Runs and sweeps of the toy."""
    runs = {"one": (), "pair": ("policy.batch=2",), "cores": ("machine.cores=5",)}
    for name, overrides in runs.items():
        save_report(tiny_report(*overrides), folder / name, timeline=(17, 19))
    axes = {"machine.array.cols": [8, 16, 32], "machine.cores": [1, 2, 8]}
    axes["board.fabric_clock_mhz"] = [100, 200]
    sweep(make_study(folder, axes=axes, objectives=OBJECTIVES), folder / "swept", workers=0)
    two = {"machine.cores": [1, 2]}
    sweep(make_study(folder, axes=two, objectives=OBJECTIVES), folder / "two", workers=0)
    policies = {"policy.tau": [-0.5, 0, 0.5, 1], "policy.schedule": ["static", "drs"]}
    policies["machine.cores"] = [2, 5]
    of_policies = make_study(folder, axes=policies, objectives=OBJECTIVES)
    sweep(of_policies, folder / "policies", workers=0)
    three = [*OBJECTIVES, "dsp"]
    sweep(make_study(folder, axes=axes, objectives=three), folder / "three", workers=0)


def plots(folder: Path) -> Iterator[tuple[str, Plot]]:
    """Every figure with its title."""
    for kind, names in KINDS.items():
        yield (
            f"{kind}: {', '.join(names)}",
            plot_of([f"{folder / name}" for name in names], kind.strip()),
        )
    yield "carsim reproduce fastcar", reproduction_plot(reproduce_fastcar())


def draw_sheet(folder: Path, out: Path, columns: int = 3, *, only_print: bool = False) -> list[str]:
    """Draw every figure as a paper prints it, one column wide, and at its own width.

    Args:
        folder: Where :func:`make_folders` has put results.
        out: The picture.
        columns: Figures beside each other.
        only_print: Leave out figures at their own width.

    Returns:
        What was drawn.
    """
    drawn = []
    for title, plot in plots(folder):
        drawn.append((f"{title} (paper, 3.5 in)", image(on_paper(plot, 3.5, "paper"))))
        if not only_print:
            drawn.append((f"{title} (its own)", image(plot)))
    rows = -(-len(drawn) // columns)
    dpi = 55 if only_print else 70
    sheet = Figure(figsize=(7 * columns, 4.6 * rows), dpi=dpi, layout="constrained")
    grid = sheet.subplots(rows, columns).flat
    for axes in grid:
        axes.axis("off")
    for axes, (title, data) in zip(sheet.axes, drawn, strict=False):
        axes.imshow(matplotlib.image.imread(io.BytesIO(data)))
        axes.set_title(title, fontsize=13 if only_print else 9)
    sheet.savefig(out)
    return [title for title, _ in drawn]


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        make_folders(Path(temporary))
        draw_sheet(Path(temporary), Path(sys.argv[1]), only_print="--print" in sys.argv)
