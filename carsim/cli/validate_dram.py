"""``carsim validate dram``: the DRAM model against two cycle-accurate simulators."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from carsim.validate.dram import DramKind, DramReport

OUT_OF_BOUNDS = 1
"""Exit status of a figure that leaves its stated bound."""

SIMULATORS = {"DRAMsim3": "DRAMsim3", "Ramulator2.1-FRFCFS": "Ramulator"}
"""Name in the file -> heading."""


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
    from dataclasses import asdict

    from carsim.validate.dram import STANDARDS

    return {
        "standards": STANDARDS,
        "passes": report.passes,
        "kinds": [
            {
                "kind": kind.name,
                "bound": kind.bound,
                "reason": kind.reason,
                "mean_error": kind.mean,
                "worst_error": kind.worst,
                "mean_signed_error": kind.bias,
                "null_mean_error": kind.null_mean,
                "null_worst_error": kind.null_worst,
                "passes": kind.passes,
                "rows": [
                    {
                        **asdict(check.situation),
                        "carsim": check.value,
                        "references": dict(check.references),
                        "errors": check.errors,
                        "error": check.error,
                        "null": check.null,
                        "null_error": check.null_error,
                    }
                    for check in kind.checks
                ],
            }
            for kind in report.kinds
        ],
    }


def dram_parts(report: "DramReport", every: bool = False) -> Iterator["RenderableType"]:
    """A line per kind, on request one per row, and the verdict."""
    from rich.text import Text

    yield Text("One channel against DRAMsim3 and Ramulator 2.1", style="bold")
    yield _summary(report.kinds)
    yield (
        "Mean and worst: distance to the nearer simulator. Then the mean signed error against "
        "each. Null: 0.9 of the peak bandwidth, whatever is asked; it says nothing of an idle "
        "memory or of a given load."
    )
    for kind in report.kinds:
        if kind.reason:
            yield f"Bound of {kind.bound:.0%}, {kind.name}: {kind.reason}."
    if every:
        for kind in report.kinds:
            yield Text(f"\n{kind.name}", style="bold")
            yield _rows(kind)
    for kind in report.kinds:
        for check in kind.checks:
            if abs(check.error) > kind.bound:
                yield f"Out of bounds: {kind.name}: {check.situation}: {check.error:+.2%}"
    within = sum(kind.passes for kind in report.kinds)
    yield Text(
        f"{within} of {len(report.kinds)} kinds within their bounds",
        style="bold" if report.passes else "bold red",
    )


def _percent(share: float | None, sign: str = "") -> str:
    return "" if share is None else f"{share:{sign}.1%}"


def _table(first: str, *headings: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(first, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _summary(kinds: Sequence["DramKind"]) -> "Table":
    table = _table("kind", "rows", "mean", "worst", "bound", *SIMULATORS.values(), "null", "worst")
    for kind in kinds:
        table.add_row(
            kind.name,
            str(len(kind.checks)),
            _percent(kind.mean),
            _percent(kind.worst),
            f"{kind.bound:.0%}",
            *(_percent(kind.bias.get(name), "+") for name in SIMULATORS),
            _percent(kind.null_mean),
            _percent(kind.null_worst),
        )
    return table


def _rows(kind: "DramKind") -> "Table":
    from carsim.text import number

    headings = [text for name in SIMULATORS.values() for text in (name, "error")]
    table = _table("asked", "carsim", *headings, "null error")
    for check in kind.checks:
        cells = []
        for name in SIMULATORS:
            counted = check.references.get(name)
            cells += ["" if counted is None else number(counted)]
            cells += [_percent(check.errors.get(name), "+")]
        asked = str(check.situation).removeprefix(f"{check.situation.standard} ")
        table.add_row(asked, number(check.value), *cells, _percent(check.null_error, "+"))
    return table
