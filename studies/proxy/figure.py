"""Draw how the worth of MLPs and of their replay changes with training.

python -m studies.proxy.figure
"""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from carsim.report.figures import style as plots

HERE = Path(__file__).parent
COLOURS = (plots.BLUE, plots.ORANGE, plots.GREEN, plots.VERMILION, plots.PURPLE, plots.BLACK)
LINES = (("zero", "-", "nothing"), ("half", "--", "half"), ("replay", ":", "held output"))


def draw(left: Axes, right: Axes, table: pd.DataFrame) -> None:
    """Worth, and three ways to replace half of the outputs, over training steps."""
    for colour, (name, part) in zip(COLOURS, table.groupby("recipe", sort=False), strict=False):
        left.plot(part["step"], part["worth"], "o-", color=colour, label=name, markersize=3)
        for column, style, label in LINES:
            named = f"{label} added, {name}"
            right.plot(part["step"], part[f"random_{column}"], style, color=colour, label=named)
    left.axhline(0.5, color=plots.GREY, linewidth=0.8, linestyle=":")
    left.set(title="MLPs of all layers but the first", ylabel="worth, nats a token")
    right.set(title="half of the places, drawn at random", ylabel="loss over dense, nats a token")
    for axes in (left, right):
        axes.axhline(0, color=plots.GREY, linewidth=0.8)
        axes.set(xlabel="training step")
        axes.legend(fontsize=6)


def main() -> None:
    """Draw ``checkpoints.csv``."""
    table = pd.read_csv(HERE / "checkpoints.csv")
    with plots.style():
        figure = plots.new_figure(10, 3.8, "What training does to the worth of MLPs", misfit=False)
        draw(*figure.subplots(1, 2), table)
        figure.savefig(HERE / "premise.png", metadata={"Software": None})


if __name__ == "__main__":
    main()
