"""``carsim validate dram``: the DRAM model against two cycle-accurate simulators."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from carsim.validate.dram import DramCheck, DramKind, DramReport

OUT_OF_BOUNDS = 1
"""Exit status of a figure that leaves its stated bound."""


@click.command(short_help="Two cycle-accurate simulators of DRAM.")
@click.option("--every", is_flag=True, help="Show each row.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def dram(every: bool, as_json: bool) -> int | None:
    """Hold the DRAM model against two cycle-accurate simulators.

    Exits with status 1 if a figure leaves its stated bound.
    """
    from carsim.validate.dram import validate_dram

    report = validate_dram()
    if as_json:
        click.echo(json.dumps(dram_document(report), indent=2))
    else:
        from carsim.cli.console import output_console, show

        show(output_console(), dram_parts(report, every))
    return None if report.passes else OUT_OF_BOUNDS


def dram_document(report: "DramReport") -> dict[str, Any]:
    """The report as plain data; efficiencies are shares of the peak, latencies ns."""
    from carsim.validate.dram import STANDARD

    return {
        "standard": STANDARD,
        "passes": report.passes,
        "kinds": [
            {
                "kind": kind.name,
                "bound": kind.bound,
                "mean_error": kind.mean,
                "worst_error": kind.worst,
                "null_mean_error": kind.null_mean,
                "null_worst_error": kind.null_worst,
                "passes": kind.passes,
                "rows": [_document(check) for check in kind.checks],
            }
            for kind in report.kinds
        ],
    }


def _document(check: "DramCheck") -> dict[str, Any]:
    asked = check.situation
    return {
        "pattern": asked.name,
        "streams": asked.streams,
        "chunk_bytes": asked.chunk_bytes,
        "read_fraction": asked.read_fraction,
        "window": asked.window,
        "carsim": check.value,
        "references": dict(check.references),
        "error": check.error,
        "null": check.null,
        "null_error": check.null_error,
    }


def dram_parts(report: "DramReport", every: bool = False) -> Iterator["RenderableType"]:
    """A line per kind, on request one per row, and the verdict."""
    from rich.text import Text

    from carsim.validate.dram import STANDARD

    yield Text(
        f"One channel of {STANDARD} against DRAMsim3 and Ramulator 2.1: distance to the nearer",
        style="bold",
    )
    yield _summary(report.kinds)
    yield (
        "Between the two the distance is 0. Null: 0.9 of the peak bandwidth, whatever is asked; "
        "it says nothing of an idle memory or of a given load."
    )
    if every:
        for kind in report.kinds:
            yield Text(f"\n{kind.name}", style="bold")
            yield _table(kind.checks)
    for kind in report.kinds:
        for check in kind.checks:
            if abs(check.error) > kind.bound:
                yield f"Out of bounds: {kind.name}: {check.situation}: {check.error:+.2%}"
    within = sum(kind.passes for kind in report.kinds)
    yield Text(
        f"{within} of {len(report.kinds)} kinds within their bounds",
        style="bold" if report.passes else "bold red",
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.2%}"


def _summary(kinds: Sequence["DramKind"]) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table("kind", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for heading in ("rows", "mean", "worst", "bound", "null: mean", "worst"):
        table.add_column(heading, justify="right", no_wrap=True)
    for kind in kinds:
        table.add_row(
            kind.name,
            str(len(kind.checks)),
            _percent(kind.mean),
            _percent(kind.worst),
            f"{kind.bound:.0%}",
            _percent(kind.null_mean),
            _percent(kind.null_worst),
        )
    return table


def _table(checks: Sequence["DramCheck"]) -> "Table":
    from rich import box
    from rich.table import Table

    from carsim.text import number

    table = Table("asked", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for heading in ("carsim", "error", "simulators", "null", "its error"):
        table.add_column(heading, justify="right", no_wrap=True)
    for check in checks:
        table.add_row(
            str(check.situation),
            number(check.value),
            _percent(check.error),
            ", ".join(number(value) for value in check.references.values()),
            "" if check.null is None else number(check.null),
            _percent(check.null_error),
        )
    return table
