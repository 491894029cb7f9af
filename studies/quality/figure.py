"""Draw quality over the replay ratio, and its drift from frame to frame.

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


def draw_over_ratio(axes: Axes, table: pd.DataFrame, measure: str, sampling: str) -> None:
    """One line for each decision scope and attention; what is identical has no finite PSNR."""
    for (scope, window), (colour, marker, label) in STYLES.items():
        cells = table[
            (table["scope"] == scope)
            & (table["window"] == window)
            & (table["sampling"] == sampling)
        ].sort_values("replay_eligible")
        axes.plot(
            cells["replay_eligible"], cells[measure], marker=marker, color=colour, label=label
        )
    axes.set(xlabel="replay ratio of eligible steps", xlim=(-0.02, 1.0))
    axes.grid(True)


def draw_drift(axes: Axes, table: pd.DataFrame, sampling: str) -> None:
    """Agreement of tokens by frame, under scope row and dense attention."""
    cells = table[
        (table["scope"] == "row")
        & (table["window"] == 0)
        & (table["sampling"] == sampling)
        & (table["replay_eligible"] > 0)
    ].sort_values("replay_eligible")
    columns = [name for name in table.columns if name.startswith("token_agreement_f")]
    frames = [int(name.removeprefix("token_agreement_f")) for name in columns]
    for at, (_, cell) in enumerate(cells.iterrows()):
        shade = 0.85 - 0.85 * at / max(1, len(cells) - 1)
        axes.plot(
            frames,
            cell[columns].astype(float),
            color=str(shade),
            label=f"{cell['replay_eligible']:.0%} replayed",
        )
    axes.set(xlabel="frame", ylabel="tokens as in dense decoding", ylim=(0, 1))
    axes.grid(True)
    axes.legend()


def draw(table: pd.DataFrame) -> Figure:
    """PSNR of both samplings and teacher-forced loss over the ratio, and drift."""
    figure = Figure(figsize=(9, 7), layout="constrained")
    FigureCanvasAgg(figure)
    (greedy, drawn), (loss, drift) = figure.subplots(2, 2)
    draw_over_ratio(greedy, table, "psnr_db", "greedy")
    draw_over_ratio(drawn, table, "psnr_db", "top_k")
    for axes, title in ((greedy, "Greedy clips, six frames"), (drawn, "Drawn clips")):
        axes.set(ylabel="PSNR to dense decoding (dB)", title=title, ylim=(10, 30))
    draw_over_ratio(loss, table, "teacher_forced_nats", "top_k")
    loss.set(ylabel="nats per token, true tokens fed", title="Loss without drift")
    loss.legend()
    draw_drift(drift, table, "greedy")
    drift.set_title("Drift of greedy clips under scope row")
    return figure


def main() -> None:
    """Draw and write."""
    with plots.style():
        figure = draw(pd.read_csv(FOLDER / "quality.csv"))
        figure.savefig(FOLDER / "quality.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
