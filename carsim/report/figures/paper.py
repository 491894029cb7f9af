"""FastCar's published latencies: errors of carsim and of the naive rival, row by row."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from carsim.report.figures import style

if TYPE_CHECKING:
    from carsim.validate.paper import PaperReport


@dataclass(frozen=True)
class PaperNumbers:
    """A value per row; errors are relative, positive if too slow.

    Attributes:
        rows: Their names and published latencies.
        errors: Of carsim.
        other_errors: Of carsim with the ratio taken over all steps.
        null_errors: Of the naive rival.
        fitted: Something was fitted to the row.
        bound: Of the worst error.
        misfit: The design does not fit its board.
    """

    rows: tuple[str, ...]
    errors: tuple[float, ...]
    other_errors: tuple[float, ...]
    null_errors: tuple[float, ...]
    fitted: tuple[bool, ...]
    bound: float
    misfit: bool


def paper_numbers(report: "PaperReport") -> PaperNumbers:
    """The numbers of the figure."""
    from carsim.validate.paper import WORST_BOUND

    results = report.results
    return PaperNumbers(
        rows=tuple(f"{each.row.name}, {each.row.latency_s:.1f} s" for each in results),
        errors=tuple(each.error for each in results),
        other_errors=tuple(each.other_error for each in results),
        null_errors=tuple(each.null_error for each in results),
        fitted=tuple(bool(each.fitted) for each in results),
        bound=WORST_BOUND,
        misfit=bool(report.misfits),
    )


def draw_paper(numbers: PaperNumbers) -> Figure:
    """A line per row, errors from left to right."""
    with style.style():
        count = len(numbers.rows)
        figure = style.new_figure(
            10, 1.6 + 0.32 * count, "FastCar's published latencies", misfit=numbers.misfit
        )
        axes = figure.subplots()
        bound = 100 * numbers.bound
        axes.axvspan(-bound, bound, color=style.LIGHT_GREY, alpha=0.5, linewidth=0)
        axes.axvline(0, color=style.GREY, linewidth=0.8)
        for errors, marker, colour, label in (
            (numbers.other_errors, "d", style.ORANGE, "carsim, ratio taken over all steps"),
            (numbers.null_errors, "x", style.GREY, "null model: linear skipping"),
        ):
            axes.plot(
                [100 * error for error in errors], range(count), marker, color=colour, label=label
            )
        for is_fitted, face, label in (
            (False, style.BLUE, "carsim, predicted"),
            (True, "white", "carsim, fitted to this row"),
        ):
            chosen = [line for line in range(count) if numbers.fitted[line] == is_fitted]
            axes.plot(
                [100 * numbers.errors[line] for line in chosen],
                chosen,
                "o",
                color=style.BLUE,
                markerfacecolor=face,
                label=label,
            )
        axes.set_yticks(range(count), numbers.rows)
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"error of the latency [%]; shaded: the bound of {bound:g} %")
        axes.grid(axis="both")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
