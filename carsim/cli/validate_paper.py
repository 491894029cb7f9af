"""``carsim validate paper``: FastCar's published latencies against carsim."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from carsim.validate.paper import PaperReport, PaperResult
    from carsim.validate.paper_set import Explanation

OUT_OF_BOUNDS = 1
"""Exit status of a figure that leaves its stated bound."""


@click.command(short_help="FastCar's published latencies.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def paper(as_json: bool) -> int | None:
    """Simulate the latencies that FastCar publishes, and every machine that explains them as well.

    Three numbers are fitted, each to the row that names it; all other rows are predictions. Exits
    with status 1 if the mean or the worst error leaves its bound.
    """
    from carsim.cli.console import output_console, progress, show
    from carsim.validate.paper import validate_paper

    with progress("FastCar's rows") as tell:
        report = validate_paper(progress=tell)
    if as_json:
        click.echo(json.dumps(paper_document(report), indent=2))
    else:
        show(output_console(), paper_parts(report))
    return None if report.passes else OUT_OF_BOUNDS


def paper_document(report: "PaperReport") -> dict[str, Any]:
    """The report as plain data, units in names."""
    from dataclasses import asdict

    from carsim.validate.paper import DESIGN, MEAN_BOUND, WORST_BOUND

    return {
        "design": DESIGN,
        "candidate": asdict(report.candidate),
        "clock_mhz": report.clock_mhz,
        "mean_error": report.mean_error,
        "mean_bound": MEAN_BOUND,
        "worst_error": abs(report.worst.error),
        "worst_bound": WORST_BOUND,
        "predicted_mean_error": report.predicted_mean_error,
        "other_ratio_mean_error": report.other_mean_error,
        "null_mean_error": report.null_mean_error,
        "null_other_ratio_mean_error": report.null_other_mean_error,
        "null_is_nearer": list(report.null_is_nearer),
        "passes": report.passes,
        "misfits": list(report.misfits),
        "rows": [_row_document(result) for result in report.results],
        "set": [_member_document(member) for member in report.members],
        "rivals": [{"kind": kind, **_member_document(member)} for kind, member in report.rivals],
    }


def _row_document(result: "PaperResult") -> dict[str, Any]:
    row = result.row
    return {
        "row": row.name,
        "replay_ratio": row.replay_ratio,
        "published_s": row.latency_s,
        "simulated_s": result.simulated_s,
        "error": result.error,
        "status": "fitted" if result.fitted else "predicted",
        "fitted": result.fitted,
        "other_ratio_s": result.other_s,
        "other_ratio_error": result.other_error,
        "null_s": result.null_s,
        "null_error": result.null_error,
        "null_other_ratio_s": result.null_other_s,
        "source": row.source,
    }


def _member_document(member: "Explanation") -> dict[str, Any]:
    from dataclasses import asdict

    return {
        **asdict(member.candidate),
        "clock_mhz": member.clock_mhz,
        "mean_error": member.mean_error,
        "worst_error": member.worst_error,
        "errors": list(member.errors),
        "left_out_errors": list(member.left_out_errors),
    }


def paper_parts(report: "PaperReport") -> Iterator["RenderableType"]:
    """Rows, the set, its rivals, and the verdict."""
    from rich.text import Text

    from carsim.text import percent
    from carsim.validate.paper import MEAN_BOUND, WORST_BOUND

    candidate = report.candidate
    yield Text(
        f"FastCar on a U280: {candidate.batch} sequences on {candidate.cores} cores at "
        f"{report.clock_mhz:g} MHz, prompt included, head left out",
        style="bold",
    )
    yield _rows_table(report)
    yield (
        "Decisions are drawn at the published ratio of eligible steps (the first frame left out), "
        "independently. 'of all': the same machine with the ratio taken over all steps. Null: "
        "linear skipping, the dense latency less the replayed share of the MLP's work."
    )
    if report.null_is_nearer:
        yield f"The null model is nearer for: {', '.join(report.null_is_nearer)}."
    yield Text("\nMachines that explain the rows about equally, clock fitted", style="bold")
    yield _set_table(report)
    yield (
        "Left out: mean error of each row in turn when it has no say in the clock. Attention by "
        "heads: split over all cores; by sequences: each on one core. That split was chosen with "
        "all rows in view."
    )
    for misfit in report.misfits:
        yield Text(f"Fit: {misfit}", style="bold red")
    verdict = "within the bounds" if report.passes else "OUTSIDE OF the bounds"
    yield Text(
        f"Mean error {percent(report.mean_error)}, worst {percent(abs(report.worst.error))} "
        f"({report.worst.row.name}): {verdict} of {percent(MEAN_BOUND)} and "
        f"{percent(WORST_BOUND)}. Predicted rows alone: {percent(report.predicted_mean_error)}. "
        f"Ratio of all steps: {percent(report.other_mean_error)}. "
        f"Null model: {percent(report.null_mean_error)} (ratio of all steps: "
        f"{percent(report.null_other_mean_error)}).",
        style="bold" if report.passes else "bold red",
    )


def _signed(error: float) -> str:
    return f"{100 * error:+.1f} %"


def _rows_table(report: "PaperReport") -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("row", no_wrap=True)
    for heading in ("published s", "simulated s", "error"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for heading in ("of all", "null s", "its error"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in report.results:
        table.add_row(
            result.row.name,
            f"{result.row.latency_s:.1f}",
            f"{result.simulated_s:.1f}",
            _signed(result.error),
            f"fitted: {result.fitted}" if result.fitted else "predicted",
            _signed(result.other_error),
            f"{result.null_s:.1f}",
            _signed(result.null_error),
        )
    return table


def _set_table(report: "PaperReport") -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for heading in ("cores", "batch"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("attention by", "correlation", "ratio of", "weights"):
        table.add_column(heading, no_wrap=True)
    for heading in ("MHz", "mean", "worst", "left out"):
        table.add_column(heading, justify="right", no_wrap=True)
    for members in _alike(report.members):
        table.add_row(*_cells(members))
    table.add_section()
    for _, member in report.rivals:
        table.add_row(*_cells([member]))
    return table


def _alike(members: "Sequence[Explanation]") -> list[list["Explanation"]]:
    """Members that differ in correlation and weights only, side by side."""
    groups: dict[tuple[object, ...], list[Explanation]] = {}
    for member in members:
        c = member.candidate
        key = (c.cores, c.batch, c.attention_by, c.ratio_of)
        groups.setdefault(key, []).append(member)
    return list(groups.values())


def _cells(members: list["Explanation"]) -> list[str]:
    """One line for members that are alike, with the figures of the best."""
    best = members[0]
    candidate = best.candidate
    correlations = sorted({member.candidate.correlation for member in members})
    left_out = best.left_out_errors
    return [
        str(candidate.cores),
        str(candidate.batch),
        candidate.attention_by,
        f"{correlations[0]:g}" + (f" to {correlations[-1]:g}" if len(correlations) > 1 else ""),
        candidate.ratio_of,
        ", ".join(dict.fromkeys(member.candidate.weights for member in members)),
        f"{best.clock_mhz:.0f}",
        f"{100 * best.mean_error:.2f} %",
        f"{100 * best.worst_error:.1f} %",
        f"{100 * sum(map(abs, left_out)) / len(left_out):.2f} %",
    ]
