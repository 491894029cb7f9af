"""The loss curve, and what was learned against the trivial predictors.

python -m studies.twin.figure studies/twin/heldout.csv learned.png studies/twin/log_?.csv
"""

import argparse
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from studies.twin.train import LOG_COLUMNS

_SMOOTH_ROWS = 8


def draw_training(axes: Axes, logs: list[pd.DataFrame]) -> None:
    """Training loss by step, one run after the other."""
    before, runs = 0, []
    for log in logs:
        runs.append(log.assign(step=log["step"] + before))
        before = runs[-1]["step"].iloc[-1]
        axes.axvline(before, color="grey", linewidth=0.8, linestyle=":")
    steps = pd.concat(runs)
    for column, label in (
        ("loss", "frames that have a predecessor"),
        ("loss_first_frame", "first"),
    ):
        smooth = steps[column].rolling(_SMOOTH_ROWS, min_periods=1).mean()
        axes.plot(steps["step"], smooth, label=f"training loss, {label}")
    axes.set(xlabel="step (dotted: end of each run)", ylabel="nats per token")
    axes.legend(frameon=False)


def draw_held_out(axes: Axes, scores: pd.DataFrame) -> None:
    """Held-out loss by speed."""
    means = scores.groupby("speed")[["loss", "loss_copy", "loss_unigram"]].mean()
    labels = {"loss": "twin", "loss_copy": "copy, speed known", "loss_unigram": "unigram"}
    for column, label in labels.items():
        axes.plot(range(len(means)), means[column], marker="o", label=label)
    axes.set_xticks(range(len(means)), [f"{speed:g}" for speed in means.index])
    axes.set(xlabel="pixels per frame", ylabel="held-out loss, nats per token", ylim=(0, None))
    axes.legend(frameon=False)


def main() -> None:
    """Draw both side by side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("held_out", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("logs", type=Path, nargs="+", help="of all runs, in their order")
    options = parser.parse_args()
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    draw_training(left, [pd.read_csv(log, names=LOG_COLUMNS) for log in options.logs])
    draw_held_out(right, pd.read_csv(options.held_out))
    figure.savefig(options.picture, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
