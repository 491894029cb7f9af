"""Every prediction that is held against figures of others, at once: ``carsim validate``."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from carsim.validate import boards, paper
from carsim.validate.array import ArrayReport, Check, validate_array
from carsim.validate.boards import BoardsReport, validate_boards
from carsim.validate.dram import DramReport, validate_dram
from carsim.validate.fidelity import MEDIAN_BOUND, WORST_BOUND, FidelityReport, compare_fidelities
from carsim.validate.paper import PaperReport, validate_paper

FULL_PER_REGIME, SHORT_PER_REGIME = 50, 5
"""Designs of each regime at both fidelities, in full and in the short form."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure that has to stay within a stated bound.

    Attributes:
        part: Subcommand of ``carsim validate`` that explains it.
        what: What it is.
        value: Relative error of carsim, or a count.
        bound: The most that it may be.
        null: The same figure of the naive rival; None where there is none.
        unit: What ``value``, ``bound`` and ``null`` are.
    """

    part: str
    what: str
    value: float
    bound: float
    null: float | None = None
    unit: Literal["share", "count"] = "share"

    @property
    def holds(self) -> bool:
        """It is within its bound."""
        return self.value <= self.bound

    @property
    def beats_null(self) -> bool | None:
        """It is nearer than the naive rival; None where there is none."""
        return None if self.null is None else self.value < self.null


@dataclass(frozen=True)
class Validation:
    """The reports of all parts."""

    boards: BoardsReport
    array: ArrayReport
    dram: DramReport
    paper: PaperReport
    fidelity: FidelityReport

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        """All figures, in the order of the parts."""
        return (
            *_boards_figures(self.boards),
            *_array_figures(self.array),
            *(
                Figure("dram", f"{kind.name}, worst", kind.worst, kind.bound, kind.null_worst)
                for kind in self.dram.kinds
            ),
            *_paper_figures(self.paper),
            *_fidelity_figures(self.fidelity),
        )

    @property
    def passes(self) -> bool:
        """Every figure is within its bound."""
        return all(figure.holds for figure in self.figures)


def validate_all(
    *, short: bool = False, progress: Callable[[str], None] = lambda _: None
) -> Validation:
    """Run all parts.

    Args:
        short: Compare fidelities on fewer designs.
        progress: Told what is being done.
    """

    def tell(part: str) -> Callable[[str], None]:
        return lambda now: progress(f"{part}: {now}")

    board_report = validate_boards(progress=tell("boards"))
    progress("array: products and layers of other simulators")
    array_report = validate_array()
    progress("dram: rows of two cycle-accurate simulators")
    dram_report = validate_dram()
    return Validation(
        boards=board_report,
        array=array_report,
        dram=dram_report,
        paper=validate_paper(progress=tell("paper")),
        fidelity=compare_fidelities(
            per_regime=SHORT_PER_REGIME if short else FULL_PER_REGIME, tell=tell("fidelity")
        ),
    )


def _boards_figures(report: BoardsReport) -> tuple[Figure, ...]:
    what = f"tokens/s, median of {len(report.in_scope)} systems in scope"
    null = report.null_median_error
    return (Figure("boards", what, report.median_error, boards.MEDIAN_BOUND, null),)


def _array_figures(report: ArrayReport) -> list[Figure]:
    """The worst of each simulator; its rows share a bound."""
    by_peer: dict[str, list[Check]] = {}
    for check in report.checks:
        by_peer.setdefault(check.peer, []).append(check)
    return [
        Figure(
            "array",
            f"cycles, worst of {len(checks)}: {peer}",
            max(abs(check.error) for check in checks),
            min(check.bound for check in checks),
            max(abs(check.null_error) for check in checks),
        )
        for peer, checks in by_peer.items()
    ]


def _paper_figures(report: PaperReport) -> tuple[Figure, ...]:
    rows = len(report.results)
    fitted = sum(bool(result.fitted) for result in report.results)
    null_worst = max(abs(result.null_error) for result in report.results)
    return (
        Figure(
            "paper",
            f"latency, mean of {rows} rows, {fitted} of them fitted to",
            report.mean_error,
            paper.MEAN_BOUND,
            report.null_mean_error,
        ),
        Figure(
            "paper",
            f"latency, worst of {rows} rows",
            abs(report.worst.error),
            paper.WORST_BOUND,
            null_worst,
        ),
        Figure("paper", f"misfits of {paper.DESIGN}", len(report.misfits), 0, unit="count"),
    )


def _fidelity_figures(report: FidelityReport) -> tuple[Figure, ...]:
    median, worst = report.differences()
    of = f"{len(report.points)} designs"
    return (
        Figure("fidelity", f"fluid against tile, median of {of}", median, MEDIAN_BOUND),
        Figure("fidelity", f"fluid against tile, worst of {of}", worst, WORST_BOUND),
    )
