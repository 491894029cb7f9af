"""Sparse attention, replay, and both: does replay ease what a window breaks?

    python -m studies.fastcar_sparse.windows

Forty held-out scenes of 8 frames with their true codes, under full attention and under StreamingLLM
with four sinks and windows of 256 and 16 tokens, each without replay and with FastCar's rule at two
thresholds (found under full attention, on other scenes). Writes ``windows_cells.csv`` (a row for
each scene and setting), ``windows.csv`` (means with intervals) and ``windows.png``.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from carsim.decisions.attention import Streaming
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.report.figures import style as plots
from studies.content import CLIPS, rows_of
from studies.drawing import drawing, with_intervals
from studies.fastcar_sparse.figure import COLOURS, LINES, MARKERS
from studies.record import Archive, Ask
from studies.rules import TasScore
from studies.table import columns
from studies.thresholds import one_tau

HERE = Path(__file__).parent
WINDOWS = (0, 256, 16)
"""Tokens; 0 is full attention."""
SHARES = (0.0, 0.5, 0.8)


def cells(archive: Archive, clips: tuple[str, ...]) -> pd.DataFrame:
    """A row for each scene, window, replay ratio and frame: loss, nats per token."""
    rows = rows_of(clips, n_frames=archive.config.n_frames)
    rules = {share: one_tau(archive, TasScore(), share) if share else None for share in SHARES}
    tables = []
    for window in WINDOWS:
        attention = Streaming(window=window) if window else None
        for share, rule in rules.items():
            asked = [Ask(rule, row, attention) for row in rows]
            for row, kept in zip(rows, archive.decode(asked), strict=True):
                nats = kept.nats.reshape(-1, TOKENS_PER_FRAME).mean(axis=1)[1:]
                tables.append(
                    pd.DataFrame(
                        {
                            "clip": row.clip,
                            "window": window,
                            "share": share,
                            "ratio": kept.ratio,
                            "frame": np.arange(1, len(nats) + 1),
                            "nats": nats,
                        }
                    )
                )
    return pd.concat(tables, ignore_index=True)


def compared(table: pd.DataFrame) -> pd.DataFrame:
    """Loss over dense decoding, and over the same window without replay, with 95 % intervals."""
    by_clip = table.groupby(["window", "share", "clip"])[["nats", "ratio"]].mean()
    dense = by_clip["nats"].loc[0, 0.0]
    rows = []
    for (window, share), part in by_clip.groupby(level=[0, 1], sort=False):
        nats = part["nats"].droplevel([0, 1])
        row = {"window": window, "share": share, "ratio": part["ratio"].mean()}
        row |= columns("over_dense", nats - dense)
        rows.append(row | columns("over_window", nats - by_clip["nats"].loc[window, 0.0]))
    return pd.DataFrame(rows)


def draw(axes: Axes, table: pd.DataFrame) -> None:
    """What replay adds to each window."""
    for window, part in table.groupby("window", sort=False):
        label = f"window {window}" if window else "full attention"
        attention = f"window {window}" if window else "dense"
        with_intervals(
            axes,
            part["ratio"],
            part,
            "over_window",
            marker=MARKERS[attention],
            linestyle=LINES[attention],
            color=COLOURS[attention],
            label=label,
        )
    axes.axhline(0, color=plots.GREY, linewidth=0.8)
    axes.set(
        xlabel="replay ratio of eligible steps",
        ylabel="nats per token over the\nsame attention without replay",
    )
    axes.legend()


def main() -> None:
    """Measure, write, draw and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=len(CLIPS))
    options = parser.parse_args()
    table = cells(Archive(), CLIPS[:: len(CLIPS) // options.clips])
    table.round(5).to_csv(HERE / "windows_cells.csv", index=False)
    found = compared(table)
    found.round(4).to_csv(HERE / "windows.csv", index=False)
    print(found.round(3).to_string(index=False))
    by_frame = table.pivot_table(index="frame", columns=["window", "share"], values="nats")
    print(by_frame.round(3).to_string())
    with drawing(HERE / "windows.png", 6, 4.0, "Replay under a window") as figure:
        draw(figure.subplots(), found)


if __name__ == "__main__":
    main()
