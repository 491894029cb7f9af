"""The loss curve, and what was learned against the rivals.

python -m studies.proxy.learned studies/proxy/learned.png
"""

import argparse
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from carsim.base.statistics import bootstrap_mean
from carsim.report.figures import style as plots
from studies.content import pace_of
from studies.proxy.training import LOG_COLUMNS

HERE = Path(__file__).parent
_SMOOTH_ROWS = 5
RIVALS = {"twin": plots.BLUE, "counted": plots.VERMILION, "copy": plots.GREY}


def draw_training(axes: Axes, log: pd.DataFrame) -> None:
    """Training loss by step."""
    for column, label in (
        ("loss", "frames that have a predecessor"),
        ("loss_first_frame", "first"),
    ):
        smooth = log[column].rolling(_SMOOTH_ROWS, min_periods=1).mean()
        axes.plot(log["step"], smooth, label=f"training loss, {label}")
    axes.set(xlabel="step", ylabel="nats per token")
    axes.legend()


def draw_held_out(axes: Axes, scores: pd.DataFrame) -> None:
    """Held-out loss by pace, with intervals over scenes."""
    by_clip = scores.groupby("clip", sort=False).mean(numeric_only=True)
    paces = by_clip.groupby(by_clip.index.map(pace_of), sort=False)
    for shift, (name, colour) in enumerate(RIVALS.items()):
        found = [bootstrap_mean(part[name].to_numpy()) for _, part in paces]
        means = [each.mean for each in found]
        spread = [
            [each.mean - each.low for each in found],
            [each.high - each.mean for each in found],
        ]
        places = [number + 0.2 * (shift - 1) for number in range(len(found))]
        axes.errorbar(places, means, spread, fmt="o", color=colour, label=name, capsize=2)
    axes.set_xticks(range(len(paces)), [str(pace) for pace, _ in paces])
    axes.set(ylabel="held-out loss, nats per token", ylim=(0, None))
    axes.legend()


def main() -> None:
    """Draw both side by side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    with plots.style():
        figure = plots.new_figure(10, 3.6, "What the proxy model has learned", misfit=False)
        left, right = figure.subplots(1, 2)
        draw_training(left, pd.read_csv(HERE / "log.csv", names=LOG_COLUMNS))
        draw_held_out(right, pd.read_csv(HERE / "heldout.csv"))
        figure.savefig(options.picture, metadata={"Software": None})


if __name__ == "__main__":
    main()
