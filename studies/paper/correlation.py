"""Gain of replay and of DRS over the correlation of decisions, and what the paper's rows imply.

    python -m studies.paper.correlation

Writes ``correlation.csv`` and ``correlation.png``. On the fitted machine (four sequences, three
cores) decisions are drawn at 20, 50 and 80 % of the eligible steps. *Pairs*: the two rows of a
guidance pair correlate, those of different clips do not. *Pairs and clips*: all rows correlate
alike. A correlation is that of normals that are drawn; a decision replays above a threshold.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from carsim import Workload, load_design, override, run
from carsim.decisions.trace.drawn import Assumptions
from carsim.decisions.trace.stated import stated_trace
from carsim.report.figures import style as plots
from carsim.validate.paper import DESIGN, paper_rows
from studies.drawing import drawing

KEPT = Path(__file__).with_suffix(".csv")
RATIOS = {"replay20": 0.2, "replay50": 0.5, "replay80": 0.8}
CORRELATIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 0.99)
KINDS = ("pairs", "pairs and clips")
FIGURES = {"speed_up": "speed-up of replay with DRS", "drs_gain": "gain of DRS over static [%]"}


def measured(ratio: float, correlation: float, kind: str) -> dict[str, float]:
    """Speed-up over dense, and gain of dynamic over static scheduling."""
    across = correlation if kind == KINDS[1] else 0.0
    assumed = Assumptions(within_pair=correlation, across_clips=across)
    base = override(load_design(DESIGN), {"policy.compare": ()})
    work = Workload("video", replay=ratio)
    trace = stated_trace(work, base.model, base.policy.batch, assumed)
    drs, static = (
        run(override(base, {"policy.schedule": schedule}), [trace], what_if=False)
        for schedule in ("drs", "static")
    )
    return {
        "speed_up": drs.baseline.latency_s / drs.chosen.latency_s,
        "drs_gain": 100 * (static.chosen.latency_s / drs.chosen.latency_s - 1),
    }


def table() -> pd.DataFrame:
    """A row for each kind, ratio and correlation."""
    return pd.DataFrame(
        {"kind": kind, "row": row, "correlation": rho} | measured(ratio, rho, kind)
        for kind in KINDS
        for row, ratio in RATIOS.items()
        for rho in CORRELATIONS
    )


def published() -> dict[str, float]:
    """Published speed-up of each row."""
    latencies = {row.name: row.latency_s for row in paper_rows()}
    return {row: latencies["dense"] / latencies[row] for row in RATIOS}


def implied(points: pd.DataFrame, kind: str, row: str) -> float | None:
    """Correlation at which the machine has the published speed-up; None where it never has."""
    part = points[(points.kind == kind) & (points.row == row)]
    beyond = (part.speed_up - published()[row]).to_numpy()
    crossings = np.flatnonzero(np.diff(np.sign(beyond)))
    if not crossings.size:
        return None
    first = crossings[0]
    share = beyond[first] / (beyond[first] - beyond[first + 1])
    rho = part.correlation.to_numpy()
    return float(rho[first] + share * (rho[first + 1] - rho[first]))


def main() -> None:
    """Simulate, write, draw."""
    points = table()
    points.to_csv(KEPT, index=False, float_format="%.5f")
    with drawing(KEPT.with_suffix(".png"), 9.0, 4.0, "") as figure:
        for axes, (name, title) in zip(figure.subplots(1, 2), FIGURES.items(), strict=True):
            colours = zip(RATIOS, (plots.BLUE, plots.ORANGE, plots.GREEN), strict=True)
            for row, colour in colours:
                for kind, dash in zip(KINDS, ("-", "--"), strict=True):
                    part = points[(points.kind == kind) & (points.row == row)]
                    label = f"{RATIOS[row]:.0%}, {kind}"
                    axes.plot(part.correlation, part[name], dash, color=colour, label=label)
                if name == "speed_up":
                    axes.axhline(published()[row], color=colour, linestyle=":", linewidth=1)
            axes.set(xlabel="correlation of decisions", title=title)
            axes.grid(True)
        figure.axes[0].legend(loc="center right", fontsize=7, bbox_to_anchor=(1.0, 0.52))
    for kind in KINDS:
        print(kind, {row: implied(points, kind, row) for row in RATIOS})


if __name__ == "__main__":
    main()
