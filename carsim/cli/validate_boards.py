"""``carsim validate boards``: decoding speeds of published systems against carsim."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

    from carsim.design import Design
    from carsim.machine.decode import Decode
    from carsim.validate.boards import BoardRow, BoardsReport

OUT_OF_BOUNDS = 1
"""Exit status of a figure that leaves its stated bound."""


@click.command(short_help="Published decoding speeds of FPGA boards.")
@click.option("--design", help="Predict this design alone; YAML file or name of a shipped one.")
@click.option("--context", help="With --design: tokens attended to, N or FIRST:LAST.")
@click.option("--published", type=float, help="With --design: published tokens per second.")
@click.option(
    "--set",
    "overrides",
    metavar="PATH=VALUE",
    multiple=True,
    help="With --design: change it, say machine.vector.lanes=8; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def boards(
    design: str | None,
    context: str | None,
    published: float | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> int | None:
    """Predict decoding speeds of published FPGA systems from their configurations alone.

    Exits with status 1 if the median error over the systems whose bottleneck lies inside the model
    is more than its bound. configs/published/README.md tells how to describe a further system.
    """
    if design is not None:
        from carsim.design import load_design

        _one_design(load_design(design, overrides), context, published, as_json)
        return None
    if context is not None or published is not None or overrides:
        raise click.UsageError("--context, --published and --set go with --design")

    from carsim.cli.console import output_console, progress, show
    from carsim.validate.boards import validate_boards

    with progress("published boards") as tell:
        report = validate_boards(progress=tell)
    if as_json:
        click.echo(json.dumps(boards_document(report), indent=2))
    else:
        show(output_console(), boards_parts(report))
    return None if report.passes else OUT_OF_BOUNDS


def boards_document(report: "BoardsReport") -> dict[str, Any]:
    """The report as plain data, units in names."""
    from carsim.validate.boards import MEDIAN_BOUND

    return {
        "median_error_in_scope": report.median_error,
        "median_bound": MEDIAN_BOUND,
        "null_median_error_in_scope": report.null_median_error,
        "passes": report.passes,
        "rows_in_scope": len(report.in_scope),
        "rows": [_row_document(row) for row in report.rows],
    }


def _row_document(row: "BoardRow") -> dict[str, Any]:
    published = row.published
    return {
        "system": published.system,
        "board": published.board,
        "model": published.model,
        "config": published.config,
        "published_tokens_per_s": published.tokens_per_s,
        **_decode_document(row.decode),
        "error": row.error,
        "null_tokens_per_s": published.null_tokens_per_s,
        "null_error": row.null_error,
        "beats_null": row.beats_null,
        "in_scope": published.in_scope,
        "scope_reason": published.scope_reason,
        "published_power_w": published.power_w,
        "power_w": _interval(row.power_w),
        "power_error": row.power_error,
        "power_inside_interval": row.power_inside,
        "joules_per_token": _interval(row.joules_per_token),
        "misfits": list(row.misfits),
        "status": published.status,
        "source": published.source,
        "note": published.note,
    }


def _decode_document(decode: "Decode") -> dict[str, Any]:
    return {
        "tokens_per_s": decode.tokens_per_s,
        "contexts": [decode.contexts[0], decode.contexts[-1]],
        "limits": decode.limit_shares,
        "gb_per_step": decode.bytes_per_step / 1e9,
        "bandwidth_gbps": decode.bandwidth_gbps,
    }


def _interval(joules: Any) -> dict[str, float]:
    return {"value": joules.value_j, "low": joules.low_j, "high": joules.high_j}


def boards_parts(report: "BoardsReport") -> Iterator["RenderableType"]:
    """Speed, power, what is left out and why, and the verdict."""
    from rich.text import Text

    from carsim.text import percent
    from carsim.validate.boards import MEDIAN_BOUND

    yield Text("Decoding speed of published systems, from their configurations alone", style="bold")
    yield _speed_table(report)
    yield (
        "Null: 0.9 of the peak bandwidth (of the ports in use, where they are few) over the bytes "
        "of a token. Limit: what bounds the phases in which most of the time is spent."
    )
    for row in report.rows:
        if not row.published.in_scope:
            yield f"Out of scope: {_name(row)}: {row.published.scope_reason}."
    yield Text("\nPower of the board while decoding", style="bold")
    yield _power_table(report)
    known = [row.power_inside for row in report.rows if row.power_inside is not None]
    yield f"Published power lies within the interval for {sum(known)} of {len(known)} systems."
    for row in report.rows:
        for misfit in row.misfits:
            yield f"Fit: {_name(row)}: {misfit}"
    ahead = [_name(row) for row in report.in_scope if not row.beats_null]
    if ahead:
        yield f"The null model is nearer in scope for: {', '.join(ahead)}."
    verdict = "within" if report.passes else "ABOVE"
    yield Text(
        f"Median error over {len(report.in_scope)} systems in scope: "
        f"{percent(report.median_error)}, {verdict} the bound of {percent(MEDIAN_BOUND)} "
        f"(null model: {percent(report.null_median_error)})",
        style="bold" if report.passes else "bold red",
    )


def _name(row: "BoardRow") -> str:
    published = row.published
    return f"{published.system} ({published.board}, {published.model})"


def _signed(error: float | None) -> str:
    return "" if error is None else f"{100 * error:+.1f} %"


def _speed_table(report: "BoardsReport") -> "RenderableType":
    from rich import box
    from rich.table import Table

    from carsim.text import number, percent

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("system")
    table.add_column("board")
    for heading in ("tok/s", "published", "error", "null", "its error"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("limit", no_wrap=True)
    table.add_column("scope", no_wrap=True)
    for row in report.rows:
        limit, share = row.limit
        table.add_row(
            f"{row.published.system}: {row.published.model}",
            row.published.board,
            number(row.decode.tokens_per_s),
            number(row.published.tokens_per_s),
            _signed(row.error),
            number(row.published.null_tokens_per_s),
            _signed(row.null_error),
            f"{limit} {percent(share)}",
            "in" if row.published.in_scope else "out",
        )
    return table


def _power_table(report: "BoardsReport") -> "RenderableType":
    from rich import box
    from rich.table import Table

    from carsim.text import number

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("system")
    table.add_column("board")
    for heading in ("W", "from", "to", "published", "error", "J/token", "from", "to"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in report.rows:
        watts, joules = row.power_w, row.joules_per_token
        published = row.published.power_w
        table.add_row(
            f"{row.published.system}: {row.published.model}",
            row.published.board,
            *[f"{value:.1f}" for value in (watts.value_j, watts.low_j, watts.high_j)],
            "" if published is None else f"{published:g}",
            _signed(row.power_error),
            *[number(value, 3) for value in (joules.value_j, joules.low_j, joules.high_j)],
        )
    return table


def _one_design(
    design: "Design", context: str | None, published: float | None, as_json: bool
) -> None:
    """Predict one design, which need not be in the file of published ones."""
    from carsim.machine.decode import decode
    from carsim.technology.resources import resources
    from carsim.text import number, percent

    if context is None:
        raise click.UsageError("--design needs --context, say --context 512 or --context 1:1024")
    first, last = _contexts(context)
    simulated = decode(design, first, last)
    joules = simulated.joules_per_token(resources(design))
    error = None if published is None else simulated.tokens_per_s / published - 1
    if as_json:
        document = _decode_document(simulated) | {"joules_per_token": _interval(joules)}
        document |= {"published_tokens_per_s": published, "error": error}
        click.echo(json.dumps({"design": design.name, **document}, indent=2))
        return
    limits = ", ".join(
        f"{limit} {percent(share)}" for limit, share in simulated.limit_shares.items()
    )
    click.echo(f"{design.name} on {design.board.name}, context {context}")
    click.echo(f"tokens per second   {number(simulated.tokens_per_s)}")
    if error is not None:
        click.echo(f"error               {_signed(error)} of the published {published:g}")
    click.echo(f"limited by          {limits} of the time")
    click.echo(f"bytes per step      {simulated.bytes_per_step / 1e9:.3f} GB")
    click.echo(f"bandwidth           {simulated.bandwidth_gbps:.2f} GB/s")
    click.echo(
        f"joules per token    {number(joules.value_j, 3)} "
        f"({number(joules.low_j, 3)} to {number(joules.high_j, 3)})"
    )


def _contexts(text: str) -> tuple[int, int]:
    """First and last context of ``N`` or ``FIRST:LAST``."""
    from carsim.errors import InputError

    first, _, last = text.partition(":")
    try:
        return int(first), int(last or first)
    except ValueError:
        raise InputError("--context", f"got {text!r}", "give N or FIRST:LAST") from None
