"""A published paper's table and figure, with carsim's figures and a simple rival's beside each row.

The machine of FastCar's rows is the design of :mod:`.paper`: chosen with all rows in view, so that
it shows consistency and predicts none of them. The rivals know no machine: *linear skipping*
subtracts the skipped share of the work from the dense latency, the *line* has three fitted numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import fsum

from carsim.account.row import RowResult
from carsim.design import Design, load_design
from carsim.validate.paper import (
    AT_RATIO,
    DESIGN,
    LINE,
    OPERATIONS_SAVED,
    SKIPPING,
    PaperRow,
    line_s,
    paper_rows,
    replayed_share,
    simulate_row,
    skipping_s,
)
from carsim.validate.part import Errors, errors_of

TITLE = "FastCar (arXiv 2505.14709), tables 1 and 2: VILA-U-7B-256 on an Alveo U280"

RATIOS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.87, 0.95)
"""Replay ratios at which the figure's curves are calculated."""

MLP_OVER_ATTENTION = 5.0
"""FastCar figure 1: the MLP takes about five times as long as attention, at 2k to 8k tokens."""

UNSAID = (
    "batch, cores, multipliers, clock and precision of the accelerator",
    "how cores share weights, and whether attention is split over the cores",
    "how often sequences of a batch replay together",
    "whether a replay ratio counts all steps, or the steps after the first frame",
    "whether the latencies include the prompt and the head",
    "resources and power; the efficiency of each row is a constant over its latency",
    "what is timed as attention in figure 1, and on which machine",
)
"""Facts that the machine of the rows needs, and the paper does not say."""

ABSENT = (
    "quality (PSNR, SSIM, LPIPS, VBench): decisions do not tell what a viewer sees",
    "figures 2, 4 and 5: their numbers are not published, and need the model's own scores",
)
"""Published results that are not reproduced, with the reason."""

CONSISTENCY = (
    "This shows consistency and predicts no row: the machine was chosen among 70,560 by its error "
    "over these rows. Other machines explain them about as well (studies/paper)."
)
FITTED = (
    "Cores, batch, attention split by heads, and the ratio counted over eligible steps follow from "
    "that choice; the clock is fitted to the dense row. The line has three numbers, fitted to all "
    "rows; linear skipping has one, the dense latency."
)


@dataclass(frozen=True)
class ReproducedRow:
    """A published row with what carsim and its rivals say of it.

    Attributes:
        row: The published row.
        label: Its name in tables and figures.
        latency_s: Simulated latency of a video.
        joules: Simulated energy of a video.
        skipping_s: Latency by linear skipping.
        line_s: Latency by the fitted line.
    """

    row: PaperRow
    label: str
    latency_s: float
    joules: float
    skipping_s: float
    line_s: float

    @property
    def error(self) -> float:
        """Relative error of the simulated latency."""
        return self.latency_s / self.row.latency_s - 1

    @property
    def skipping_error(self) -> float:
        """Relative error of linear skipping."""
        return self.skipping_s / self.row.latency_s - 1

    @property
    def line_error(self) -> float:
        """Relative error of the fitted line."""
        return self.line_s / self.row.latency_s - 1


@dataclass(frozen=True)
class Curve:
    """Latency over the replay ratio, with dense attention.

    Attributes:
        name: Who says so.
        ratios: Replay ratios of eligible steps.
        latencies_s: Latency of a video at each.
    """

    name: str
    ratios: tuple[float, ...]
    latencies_s: tuple[float, ...]


@dataclass(frozen=True)
class Reproduction:
    """The reproduction of a paper.

    Attributes:
        title: The paper, and which of its tables.
        design: The machine of the rows.
        rows: The rows, dense decoding first.
        curves: Curves of the figure, carsim's first.
        operations_saved: Share of all operations that 80 % replay saves.
        mlp_over_attention: Time of the MLP over that of attention, dense.
        mlp_over_layers: Time of the MLP over that of attention with its projections.
    """

    title: str
    design: Design
    rows: tuple[ReproducedRow, ...]
    curves: tuple[Curve, ...]
    operations_saved: float
    mlp_over_attention: float
    mlp_over_layers: float

    @property
    def errors(self) -> dict[str, Errors]:
        """Statistics of the errors of latency, by who predicts it."""
        return {
            "carsim": errors_of([row.error for row in self.rows]),
            SKIPPING: errors_of([row.skipping_error for row in self.rows]),
            LINE: errors_of([row.line_error for row in self.rows]),
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a reader, a paragraph each."""
        eligible = f"{100 * self.operations_saved:.1f} % if the ratio counts eligible steps"
        body = self.design.model.body
        of_all = 100 * replayed_share(AT_RATIO, body, "all")
        return (
            CONSISTENCY,
            FITTED,
            f"Operations saved at {AT_RATIO:.0%} replay: published {OPERATIONS_SAVED:.0%}; here "
            f"{eligible}, {of_all:.1f} % if it counts all steps.",
            f"Time of the MLP over that of attention: published about {MLP_OVER_ATTENTION:g} "
            f"(figure 1); here {self.mlp_over_attention:.1f}, or {self.mlp_over_layers:.1f} with "
            "the projections of attention, mean over a dense video.",
        )


def label_of(row: PaperRow) -> str:
    """Name of a row: its replay ratio and its window.

    >>> [label_of(row) for row in paper_rows()[:4]]
    ['dense', 'window 256', 'window 16', '20 % replay']
    """
    window = getattr(row.attention, "window", None)
    words: list[str] = []
    if row.replay_ratio:
        replay = "" if window else " replay"
        words.append(f"{100 * row.replay_ratio:.0f} %{replay}")
    if window is not None:
        words.append(f"window {window}")
    return ", ".join(words) or "dense"


def reproduce_fastcar(progress: Callable[[str], None] = lambda _: None) -> Reproduction:
    """Simulate each row of FastCar's tables 1 and 2, and the curve through them.

    Args:
        progress: Told what is being done.
    """
    base = load_design(DESIGN)
    body = base.model.body
    progress("rows at their ratios")
    simulated = [simulate_row(base, row) for row in paper_rows()]
    rows = tuple(
        ReproducedRow(
            row=row,
            label=label_of(row),
            latency_s=result.latency_s,
            joules=result.energy_per_video.value_j,
            skipping_s=skipping_s(row, body),
            line_s=line,
        )
        for row, result, line in zip(paper_rows(), simulated, line_s(body), strict=True)
    )
    progress("curves of the figure")
    dense = paper_rows()[0]
    at_ratios = [replace(dense, replay_ratio=ratio) for ratio in RATIOS]
    curves = (
        Curve("carsim", RATIOS, tuple(simulate_row(base, row).latency_s for row in at_ratios)),
        Curve(SKIPPING, RATIOS, tuple(skipping_s(row, body) for row in at_ratios)),
    )
    return Reproduction(
        title=TITLE,
        design=base,
        rows=rows,
        curves=curves,
        operations_saved=replayed_share(AT_RATIO, body),
        mlp_over_attention=_mlp_over(simulated[0], "attention"),
        mlp_over_layers=_mlp_over(simulated[0], "qkv", "attention", "output"),
    )


PAPERS: dict[str, Callable[[Callable[[str], None]], Reproduction]] = {"fastcar": reproduce_fastcar}
"""Name, as ``carsim reproduce`` takes it -> what reproduces it."""


def _mlp_over(result: RowResult, *blocks: str) -> float:
    """Time of the MLP over that of other blocks."""
    seconds = result.seconds_by_phase
    return seconds["mlp"] / fsum(seconds[block] for block in blocks)
