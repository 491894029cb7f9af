"""Draw what the shipped model has learned, and how the worth of MLPs changes with training.

python -m studies.proxy.figure
"""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from carsim.report.figures import style as plots
from studies.content import pace_of
from studies.drawing import drawing, with_intervals
from studies.table import columns

HERE = Path(__file__).parent
COLOURS = (plots.BLUE, plots.ORANGE, plots.GREEN)
LINES = (("zero", "-", "nothing"), ("half", "--", "half"), ("replay", ":", "cached output"))
RIVALS = {"twin": plots.BLUE, "counted": plots.VERMILION, "copy": plots.GREY}


def draw_training(axes: Axes, log: pd.DataFrame) -> None:
    """Training loss by step, in the columns 0, 2 and 3 of a log."""
    for column, label in ((3, "frames that have a predecessor"), (2, "first")):
        smooth = log[column].rolling(5, min_periods=1).mean()
        axes.plot(log[0], smooth, label=f"training loss, {label}")
    axes.set(xlabel="step", ylabel="nats per token")
    axes.legend()


def draw_held_out(axes: Axes, scores: pd.DataFrame) -> None:
    """Held-out loss by pace, with intervals over scenes."""
    by_clip = scores.groupby("clip", sort=False).mean(numeric_only=True)
    paces = by_clip.groupby(by_clip.index.map(pace_of), sort=False)
    for shift, (name, colour) in enumerate(RIVALS.items()):
        found = pd.DataFrame(columns(name, part[name]) for _, part in paces)
        places = [number + 0.2 * (shift - 1) for number in range(len(found))]
        with_intervals(axes, places, found, name, fmt="o", color=colour, label=name)
    axes.set_xticks(range(len(paces)), [str(pace) for pace, _ in paces])
    axes.set(ylabel="held-out loss, nats per token", ylim=(0, None))
    axes.legend()


def draw_premise(left: Axes, right: Axes, table: pd.DataFrame) -> None:
    """Worth, and three ways to replace half of the outputs, over training steps."""
    for colour, (name, part) in zip(COLOURS, table.groupby("recipe", sort=False), strict=True):
        left.plot(part["step"], part["worth"], "o-", color=colour, label=name, markersize=3)
        for column, style, label in LINES:
            right.plot(part["step"], part[f"random_{column}"], style, color=colour, label=label)
    left.axhline(0.5, color=plots.GREY, linewidth=0.8, linestyle=":")
    left.set(title="MLPs of all layers but the first", ylabel="worth, nats per token")
    right.set(title="half of the places, drawn at random", ylabel="loss over dense, nats per token")
    for axes in (left, right):
        axes.axhline(0, color=plots.GREY, linewidth=0.8)
        axes.set(xlabel="training step")
    left.legend(loc="lower right")
    handles, labels = right.get_legend_handles_labels()
    right.legend(handles[: len(LINES)], [f"{each} added" for each in labels[: len(LINES)]])


def main() -> None:
    """Draw ``log.csv`` and ``heldout.csv``, and ``checkpoints.csv``."""
    with drawing(HERE / "learned.png", 10, 3.6, "What the proxy model has learned") as figure:
        left, right = figure.subplots(1, 2)
        draw_training(left, pd.read_csv(HERE / "log.csv", header=None))
        draw_held_out(right, pd.read_csv(HERE / "heldout.csv"))
    title = "What training does to the worth of MLPs"
    with drawing(HERE / "premise.png", 10, 3.8, title) as figure:
        draw_premise(*figure.subplots(1, 2), pd.read_csv(HERE / "checkpoints.csv"))


if __name__ == "__main__":
    main()
