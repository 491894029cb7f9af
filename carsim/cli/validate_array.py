"""``carsim validate array``: the compute array against what other simulators count."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

    from carsim.validate.array import ArrayReport, Check

OUT_OF_BOUNDS = 1
"""Exit status of a figure that leaves its stated bound."""


@click.command(short_help="Cycles that other simulators count for matrix products.")
@click.option("--every", is_flag=True, help="Show each of SCALE-Sim's small products.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def array(every: bool, as_json: bool) -> int | None:
    """Hold the compute array against cycles that other simulators count.

    Exits with status 1 if a figure leaves its stated bound.
    """
    from carsim.validate.array import validate_array

    report = validate_array()
    if as_json:
        click.echo(json.dumps(array_document(report), indent=2))
    else:
        from carsim.cli.console import output_console, show

        show(output_console(), array_parts(report, every))
    return None if report.passes else OUT_OF_BOUNDS


def array_document(report: "ArrayReport") -> dict[str, Any]:
    """The report as plain data, units in names."""
    return {
        "passes": report.passes,
        "peers": [_document(check) for check in report.peers],
        "products": [_document(check) for check in report.products],
    }


def _document(check: "Check") -> dict[str, Any]:
    return {
        "peer": check.peer,
        "work": check.work,
        "carsim_cycles": check.carsim_cycles,
        "reference_cycles": check.reference_cycles,
        "error": check.error,
        "bound": check.bound,
        "holds": check.holds,
        "null_cycles": check.null_cycles,
        "null_error": check.null_error,
        "beats_null": check.beats_null,
    }


def array_parts(report: "ArrayReport", every: bool = False) -> Iterator["RenderableType"]:
    """Every peer's row, its rule in words, SCALE-Sim's products, and the verdict."""
    from rich.text import Text

    from carsim.validate.peers import PEERS

    yield Text("Decode matrices of LLaMA-2-7B, int8, on arrays of 32 x 32, in cycles", style="bold")
    yield _table(report.peers)
    for peer in PEERS.values():
        yield f"{peer.title}: {peer.charges}."
    yield "Null: all bytes once, over the bandwidth of the memory."
    not_beaten = [f"{check.peer} {check.work}" for check in report.peers if not check.beats_null]
    if not_beaten:
        yield f"The null model is as near where it is the peer's own rule: {'; '.join(not_beaten)}."
    yield Text("\nSmall products on arrays of 4 x 4 to 32 x 32", style="bold")
    yield _summary(report.products)
    if every:
        yield _table(report.products)
    broken = [check for check in report.checks if not check.holds]
    for check in broken:
        yield f"Out of bounds: {check.peer} {check.work}: {check.error:+.3%}"
    yield Text(
        f"{len(report.checks) - len(broken)} of {len(report.checks)} figures within their bounds",
        style="bold" if report.passes else "bold red",
    )


def _table(checks: Sequence["Check"]) -> "RenderableType":
    from rich import box
    from rich.table import Table

    from carsim.text import number

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("simulator", no_wrap=True)
    table.add_column("work")
    for heading in ("carsim", "counted", "off by", "error", "bound", "null", "its error"):
        table.add_column(heading, justify="right", no_wrap=True)
    for check in checks:
        table.add_row(
            check.peer,
            check.work,
            number(check.carsim_cycles),
            number(check.reference_cycles),
            f"{check.carsim_cycles - check.reference_cycles:+,}",
            f"{100 * check.error:+.2f} %",
            f"{100 * check.bound:g} %" if check.bound else "exact",
            number(check.null_cycles),
            f"{100 * check.null_error:+.2f} %",
        )
    return table


def _summary(products: Sequence["Check"]) -> "RenderableType":
    from rich import box
    from rich.table import Table

    from carsim.text import percent

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("simulator", no_wrap=True)
    for heading in ("products", "equal", "worst error", "null: mean error", "worst"):
        table.add_column(heading, justify="right")
    for peer in dict.fromkeys(check.peer for check in products):
        own = [check for check in products if check.peer == peer]
        null_errors = [abs(check.null_error) for check in own]
        table.add_row(
            peer,
            str(len(own)),
            str(sum(check.error == 0 for check in own)),
            percent(max(abs(check.error) for check in own)),
            percent(sum(null_errors) / len(own)),
            percent(max(null_errors)),
        )
    return table
