"""``carsim validate``: predictions against figures that carsim's authors did not make."""

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from carsim.errors import InputError
from carsim.validate import PART_NAMES

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from carsim.validate.part import Errors, Group, Part

OUT_OF_BOUNDS = 1
"""Exit status of a figure that leaves its stated bound."""

WIDTH = 80
"""Columns that tables and notes need at most."""

WHAT_WIDTH = 34
"""Longest line of a row's name; longer names are wrapped."""

LEGEND = (
    "Each group: errors of carsim, and below them those of its rival. Bias is the mean error with "
    "its sign; 'nearer' counts the rows in which carsim is nearer than the rival. "
    "carsim validate PART shows rows, sources of error and what the rivals are."
)

HELP = """Hold predictions against published figures, all of them or those of one PART.

\b
{parts}

Exits with status 1 if a figure leaves its stated bound. configs/published/README.md tells how to
describe a further board.
""".format(parts="\n".join(f"{name:10}{what}" for name, what in PART_NAMES.items()))


@click.command(help=HELP)
@click.argument("name", metavar="[PART]", required=False, type=click.Choice(list(PART_NAMES)))
@click.option("--every", is_flag=True, help="Show each row, not only those of short lists.")
@click.option("--short", is_flag=True, help="Compare fidelities on a tenth of the designs.")
@click.option("--per-regime", type=click.IntRange(min=1), help="fidelity: designs of each regime.")
@click.option("--seed", type=click.IntRange(min=0), help="fidelity: seed of all draws.")
@click.option("--design", help="boards: predict this design alone; YAML file or shipped name.")
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
@click.option("--out", metavar="DIR", help="Write a report with plots, Markdown and HTML, there.")
@click.option("--overwrite", is_flag=True, help="Replace the report that --out holds.")
def validate(
    name: str | None,
    every: bool,
    short: bool,
    per_regime: int | None,
    seed: int | None,
    design: str | None,
    context: str | None,
    published: float | None,
    overrides: tuple[str, ...],
    as_json: bool,
    out: str | None,
    overwrite: bool,
) -> int | None:
    """Run one part or all, print what was found, and write a report if asked to."""
    if design is None and (context is not None or published is not None or overrides):
        raise click.UsageError("--context, --published and --set go with --design")
    if design is not None:
        if name != "boards" or out is not None:
            raise click.UsageError("--design goes with boards, and without --out")
        _one_design(design, context, published, overrides, as_json)
        return None
    given = {"per_regime": per_regime, "seed": seed}
    drawn = {option: value for option, value in given.items() if value is not None}
    if drawn and name != "fidelity":
        raise click.UsageError("--per-regime and --seed go with fidelity")
    if short and (drawn or name not in (None, "fidelity")):
        raise click.UsageError("--short goes with all parts or fidelity, and without --per-regime")
    if out is None and overwrite:
        raise InputError("--overwrite", "has nowhere to write", "add --out DIR")
    if out is not None:
        from carsim.report.folder import check_folder
        from carsim.report.validation import VALIDATION_FILES

        check_folder(Path(out), overwrite=overwrite, ours=VALIDATION_FILES)

    from carsim.cli.console import output_console, progress, show
    from carsim.validate.parts import work_out

    files: list[str] = []
    with progress("validating") as tell:
        parts = work_out([name] if name else list(PART_NAMES), short, tell, **drawn)
        if out is not None:
            from carsim.report.validation import save_validation

            files = save_validation(
                parts, out, overwrite=overwrite, progress=lambda now: tell(f"writing {now}")
            )
    if as_json:
        click.echo(json.dumps(_document(parts), indent=2))
    else:
        show(output_console(), _output(parts, every, brief=name is None))
        if files:
            click.echo(f"Written to {out}: {', '.join(files)}")
    return None if all(part.ok for part in parts) else OUT_OF_BOUNDS


def _document(parts: "Sequence[Part]") -> dict[str, Any]:
    """All comparisons as plain data."""
    return {
        "passes": all(part.ok for part in parts),
        "parts": [part.document() for part in parts],
    }


def _output(parts: "Sequence[Part]", every: bool, brief: bool) -> "Iterator[RenderableType]":
    """Rows and notes of each part, the statistics of all groups, and the verdict.

    Args:
        parts: What was found.
        every: Show all rows.
        brief: Leave rows and notes out, unless ``every`` asks for them.
    """
    from rich.text import Text

    for part in parts:
        yield Text(textwrap.fill(part.title, WIDTH), style="bold")
        for group in part.groups:
            if every or (group.shown and not brief):
                yield _rows(group)
        yield _statistics(part.groups)
        if not brief:
            yield from (textwrap.fill(note, WIDTH) + "\n" for note in part.notes)
    if brief:
        yield textwrap.fill(LEGEND, WIDTH)
    failures = [line for part in parts for line in part.failures]
    for line in failures:
        yield Text(textwrap.fill(f"OUTSIDE: {line}", WIDTH), style="red")
    groups = [group for part in parts for group in part.groups]
    within = sum(not group.failures for group in groups)
    yield Text(
        f"{within} of {len(groups)} groups of figures within their bounds.",
        style="bold red" if failures else "bold",
    )


def _rows(group: "Group") -> "Table":
    """A line per comparison."""
    from carsim.text import number

    headings = ["published", "carsim", "error"]
    if group.rival:
        headings.append("rival")
    lines = []
    for row in group.rows:
        cells = [number(row.reference), number(row.ours), f"{100 * row.error:+.2f} %"]
        if row.rival_error is not None:
            cells.append(f"{100 * row.rival_error:+.2f} %")
        name = _wrapped(row.what) + (f"\n{_wrapped(row.note, '  ')}" if row.note else "")
        lines.append((not row.ok, [name, *cells]))
    return _table(f"{_wrapped(group.title)}\n({group.rows[0].unit})", headings, lines)


def _statistics(groups: "Iterable[Group]") -> "Table":
    """Errors in percent: a line per group of carsim, and one of its rival."""

    def cells(errors: "Errors") -> list[str]:
        shares = [f"{100 * value:.2f}" for value in (errors.mean, errors.median, errors.worst)]
        return [str(errors.count), *shares, f"{100 * errors.bias:+.2f}"]

    lines = []
    for group in groups:
        theirs = group.theirs
        nearer = str(group.wins) if theirs else ""
        lines.append((bool(group.failures), [_wrapped(group.title), *cells(group.ours), nearer]))
        if theirs:
            lines.append((False, [_wrapped(group.rival, "  "), *cells(theirs), ""]))
    return _table("errors in %", ["rows", "mean", "median", "worst", "bias", "nearer"], lines)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, WHAT_WIDTH, initial_indent=indent, subsequent_indent=indent or "    "
    )


def _table(what: str, headings: Sequence[str], lines: list[tuple[bool, list[str]]]) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    table.add_column(what, no_wrap=True)
    for heading in headings:
        table.add_column(f" {heading}", justify="right", no_wrap=True)
    for is_marked, cells in lines:
        table.add_row(*cells, style="red" if is_marked else None)
    return table


def _one_design(
    name: str,
    context: str | None,
    published: float | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Predict one design, which need not be in the file of published ones."""
    from carsim.design import load_design
    from carsim.text import number, percent
    from carsim.validate.boards import predict

    if context is None:
        raise click.UsageError("--design needs --context, say --context 512 or --context 1:1024")
    design = load_design(name, overrides)
    found = predict(design, *_contexts(context))
    joules, decode = found.joules_per_token, found.decode
    error = None if published is None else decode.tokens_per_s / published - 1
    if as_json:
        document = {
            "design": design.name,
            "tokens_per_s": decode.tokens_per_s,
            "contexts": [decode.contexts[0], decode.contexts[-1]],
            "limits": decode.limit_shares,
            "gb_per_step": decode.bytes_per_step / 1e9,
            "bandwidth_gbps": decode.bandwidth_gbps,
            "joules_per_token": {
                "value": joules.value_j,
                "low": joules.low_j,
                "high": joules.high_j,
            },
            "published_tokens_per_s": published,
            "error": error,
        }
        click.echo(json.dumps(document, indent=2))
        return
    limits = ", ".join(f"{limit} {percent(share)}" for limit, share in decode.limit_shares.items())
    low, high = number(joules.low_j, 3), number(joules.high_j, 3)
    click.echo(f"{design.name} on {design.board.name}, context {context}")
    click.echo(f"tokens per second   {number(decode.tokens_per_s)}")
    if error is not None:
        click.echo(f"error               {100 * error:+.1f} % of the published {published:g}")
    click.echo(f"limited by          {limits} of the time")
    click.echo(f"bytes per step      {decode.bytes_per_step / 1e9:.3f} GB")
    click.echo(f"bandwidth           {decode.bandwidth_gbps:.2f} GB/s")
    click.echo(f"joules per token    {number(joules.value_j, 3)} ({low} to {high})")


def _contexts(text: str) -> tuple[int, int]:
    """First and last context of ``N`` or ``FIRST:LAST``."""
    first, _, last = text.partition(":")
    try:
        return int(first), int(last or first)
    except ValueError:
        raise InputError("--context", f"got {text!r}", "give N or FIRST:LAST") from None
