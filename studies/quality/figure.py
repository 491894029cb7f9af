"""Draw quality over the replay ratio, beside dense decoding's own.

    python -m studies.quality.figure

Reads ``quality.csv`` and writes ``quality.png``.
"""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from carsim.report.figures import style as plots

FOLDER = Path(__file__).parent
STYLES = {
    ("row", 0): (plots.BLUE, "o", "row"),
    ("pair", 0): (plots.ORANGE, "s", "pair"),
    ("batch", 0): (plots.GREEN, "^", "batch of eight rows"),
    ("row", 256): (plots.PURPLE, "D", "row, window of 256"),
    ("row", 16): (plots.VERMILION, "v", "row, window of 16"),
}


def draw_over_ratio(axes: Axes, cells: pd.DataFrame, measure: str) -> None:
    """One line for each decision scope and attention; dashed, dense decoding's own figure."""
    for (scope, window), (colour, marker, label) in STYLES.items():
        own = cells[(cells["scope"] == scope) & (cells["window"] == window)]
        axes.plot(own["replay_eligible"], own[measure], marker=marker, color=colour, label=label)
    axes.axhline(cells[f"dense_{measure}"].iloc[0], color="0.4", ls="--", label="dense")


def draw_loss(axes: Axes, cells: pd.DataFrame) -> None:
    """Loss over dense decoding with its interval over clips."""
    mean = cells["teacher_forced_nats"] - cells["teacher_forced_dense_nats"]
    ends = mean - cells["loss_low"], cells["loss_high"] - mean
    for (scope, window), (colour, marker, label) in STYLES.items():
        at = (cells["scope"] == scope) & (cells["window"] == window)
        ratio, below_above = cells["replay_eligible"][at], [end[at].clip(lower=0) for end in ends]
        axes.errorbar(ratio, mean[at], below_above, marker=marker, color=colour, label=label)


def draw(table: pd.DataFrame) -> Figure:
    """Teacher-forced loss over the ratio, and three figures of the clips that were drawn."""
    figure = Figure(figsize=(9, 7), layout="constrained")
    FigureCanvasAgg(figure)
    (loss, likely), (psnr, ssim) = figure.subplots(2, 2)
    drawn = table[table["sampling"] == "top_k"].sort_values("replay_eligible")
    draw_loss(loss, drawn)
    loss.set(ylabel="nats per token over dense", title="True tokens fed, 95 % over clips")
    for axes, measure, label in (
        (likely, "clip_nats", "dense model's loss on it (nats)"),
        (psnr, "true_psnr_db", "PSNR to the true clip (dB)"),
        (ssim, "true_ssim", "SSIM to the true clip"),
    ):
        draw_over_ratio(axes, drawn, measure)
        axes.set(ylabel=label, title="Drawn clips, mean")
    for axes in (loss, likely, psnr, ssim):
        axes.set(xlabel="replay ratio of eligible steps", xlim=(-0.02, 1.0))
        axes.grid(True)
    likely.legend()
    return figure


def main() -> None:
    """Draw and write."""
    with plots.style():
        figure = draw(pd.read_csv(FOLDER / "quality.csv"))
        figure.savefig(FOLDER / "quality.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
