"""Draw published and simulated latencies over the replay ratio.

    python -m studies.paper.figure

Writes ``latency.png``. Lines are expectations of the fitted machine with full and sparse attention,
of linear skipping, and of the best machine whose attention is by sequences, with full attention;
points are published.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from carsim.design import load_design
from carsim.report.figures import style as plots
from carsim.validate.paper import DESIGN, paper_rows, skipping_s
from studies.drawing import drawing
from studies.paper.candidates import Candidate, own_candidate, searched
from studies.paper.expected import PhaseCycles, explain

BASE, ROWS = load_design(DESIGN), paper_rows()
RATIOS = np.linspace(0.0, 1.0, 101)


def expected(candidate: Candidate, like: int) -> list[float]:
    """Latency over the ratio with the attention of a published row."""
    clock_mhz = explain(BASE, [candidate], ROWS)[0].clock_mhz
    phases = PhaseCycles(BASE, candidate, clock_mhz)
    rows = [replace(ROWS[like], replay_ratio=float(ratio)) for ratio in RATIOS]
    return [phases.seconds(row, candidate) for row in rows]


def draw(axes: Axes) -> None:
    """Lines and points."""
    own = own_candidate(BASE)
    rival = next(candidate for group, candidate in searched() if group == "best of sequences")
    machine = f"{own.batch} sequences on {own.cores} cores"
    axes.plot(RATIOS, expected(own, 0), color=plots.BLUE, label=machine)
    narrow = {"linestyle": ":", "label": f"{machine}, window 16"}
    axes.plot(RATIOS, expected(own, 2), color=plots.BLUE, **narrow)
    label = f"attention by sequences ({rival.batch} on {rival.cores})"
    axes.plot(RATIOS, expected(rival, 0), color=plots.ORANGE, label=label)
    rows = [replace(ROWS[0], replay_ratio=float(ratio)) for ratio in RATIOS]
    null = [skipping_s(row, BASE.model.body) for row in rows]
    axes.plot(RATIOS, null, color=plots.GREY, linestyle="--", label="linear skipping")
    for window, marker, label in (
        (None, "o", "published, full attention"),
        (256, "s", "published, window 256"),
        (16, "^", "published, window 16"),
    ):
        rows = [row for row in ROWS if getattr(row.attention, "window", None) == window]
        ratios, seconds = [row.replay_ratio for row in rows], [row.latency_s for row in rows]
        axes.plot(ratios, seconds, marker, color=plots.VERMILION, label=label)
    axes.set(
        xlabel="replay ratio of eligible steps",
        ylabel="latency of a video (s)",
        xlim=(-0.02, 1.0),
        ylim=(200, 720),
        title="The first replays save most: they spare the second round over the cores",
    )
    axes.grid(True)
    axes.legend()


def main() -> None:
    """Draw and write."""
    with drawing(Path(__file__).with_name("latency.png"), 7.5, 4.5, "") as figure:
        draw(figure.subplots())


if __name__ == "__main__":
    main()
