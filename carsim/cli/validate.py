"""``carsim validate``: predictions against figures that carsim's authors did not make."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from carsim.base.errors import InputError
from carsim.cli.options import DESIGNS, JSON, command_of, overriding
from carsim.validate import PART_NAMES

if TYPE_CHECKING:
    from carsim.base.text import Table
    from carsim.cli.console import Part as Printed
    from carsim.design import Design
    from carsim.metrics import Comparison
    from carsim.validate.part import Errors, Group, Part
    from carsim.validate.published import Prediction

OUT_OF_BOUNDS = 1
"""Exit status of a figure that leaves its stated bound."""

CLAIMS = "claims"

HELP = """Hold predictions against published figures, all of them or those of one PART.

\b
{parts}
claims    what four papers state, and what tests of it found

Exits with status 1 if a figure leaves its stated bound. configs/published/README.md tells how to
describe a further board.
""".format(parts="\n".join(f"{name:10}{what}" for name, what in PART_NAMES.items()))


@click.command(help=HELP)
@click.argument("name", metavar="[PART]", required=False, type=click.Choice([*PART_NAMES, CLAIMS]))
@click.option("--every", is_flag=True, help="Show each row, not only those of short lists.")
@click.option("--short", is_flag=True, help="Compare fidelities on a tenth of the designs.")
@click.option("--per-regime", type=click.IntRange(min=1), help="fidelity: designs of each regime.")
@click.option("--seed", type=click.IntRange(min=0), help="fidelity: seed of all draws.")
@click.option(
    "--design",
    shell_complete=DESIGNS,
    help="boards: predict this design alone; YAML file or shipped name.",
)
@click.option("--context", help="With --design: tokens attended to, N or FIRST:LAST.")
@click.option("--published", type=float, help="With --design: published tokens per second.")
@overriding("With --design: change it, say machine.vector.lanes=8")
@JSON
@click.option("--markdown", is_flag=True, help="claims: print the page docs/claims.md.")
@click.option("--out", metavar="DIR", help="Write a report with plots, Markdown and HTML, there.")
@click.option("--overwrite", is_flag=True, help="Replace the report that --out holds.")
def validate(
    name: str | None,
    every: bool,
    as_json: bool,
    out: str | None,
    overwrite: bool,
    **given: Any,
) -> int | None:
    """Run one part or all, print what was found, and write a report if asked to."""
    drawn = _check(name, out, {**given, "every": every, "as_json": as_json})
    if name == CLAIMS:
        from carsim.cli.claims import show_claims

        show_claims(as_json, given["markdown"])
        return None
    if given["design"] is not None:
        changes = given["overrides"]
        _one_design(given["design"], given["context"], given["published"], changes, as_json)
        return None
    if out is None and overwrite:
        raise InputError("--overwrite", "has nowhere to write", "add --out DIR")
    if out is not None:
        from carsim.report.folder import check_folder
        from carsim.report.validation import VALIDATION_FILES

        check_folder(Path(out), overwrite=overwrite, ours=VALIDATION_FILES)

    from carsim.cli.console import output_console, progress, say, show, show_json
    from carsim.validate.parts import work_out

    written: list[str] = []
    with progress("validating") as tell:
        wanted = [name] if name else list(PART_NAMES)
        parts = work_out(wanted, given["short"], tell, **drawn)
        if out is not None:
            from carsim.report.validation import save_validation

            ctx = click.get_current_context()
            command = command_of(ctx, ctx.params, ("out", "overwrite", "as_json", "every"))
            how: dict[str, Any] = {"overwrite": overwrite, "progress": tell}
            written = save_validation(parts, out, command, **how)
    if as_json:
        show_json(_document(parts))
    else:
        show(output_console(), _output(parts, every, brief=name is None))
        if written:
            say(f"Written to {out}: {', '.join(written)}")
    return None if all(part.ok for part in parts) else OUT_OF_BOUNDS


def _check(name: str | None, out: str | None, given: Mapping[str, Any]) -> dict[str, int]:
    """Refuse options that do not go together; the sizes of a draw of designs."""
    drawn = {each: given[each] for each in ("per_regime", "seed") if given[each] is not None}
    design, short = given["design"], given["short"]
    others = {each: value for each, value in given.items() if each not in ("as_json", "markdown")}
    if name == CLAIMS and (out is not None or any(others.values())):
        raise click.UsageError("claims takes --json or --markdown only")
    if given["markdown"] and (name != CLAIMS or given["as_json"]):
        raise click.UsageError("--markdown goes with claims, and without --json")
    if design is None and any(
        given[each] not in (None, ()) for each in ("context", "published", "overrides")
    ):
        raise click.UsageError("--context, --published and --set go with --design")
    if design is not None and (name != "boards" or out is not None):
        raise click.UsageError("--design goes with boards, and without --out")
    if drawn and name != "fidelity":
        raise click.UsageError("--per-regime and --seed go with fidelity")
    if short and (drawn or name not in (None, "fidelity")):
        raise click.UsageError("--short goes with all parts or fidelity, and without --per-regime")
    return drawn


def _output(parts: "Sequence[Part]", every: bool, brief: bool) -> "Iterator[Printed]":
    """Rows of each part, statistics of all groups, notes, and the verdict.

    Args:
        parts: Results of the parts.
        every: Show all rows.
        brief: Leave rows and notes out, unless ``every`` asks for the rows.
    """
    from rich.text import Text

    from carsim.report.comparisons import comparison_table
    from carsim.report.validation import verdict

    for part in parts:
        for group in part.groups:
            if every or (group.shown and not brief):
                yield Text(f"{part.name}: {group.title}", style="bold")
                yield comparison_table(_noted(group.rows), rival=group.rival, brief=True)
    for part in parts:
        yield Text(part.title, style="bold")
        yield _statistics(part.groups)
        yield from part.notes if not brief else ()
    for part in parts:
        yield from (Text(f"OUTSIDE: {line}", style="red") for line in part.failures)
    ok = all(part.ok for part in parts)
    yield Text(verdict(parts), style="bold" if ok else "bold red")


def _statistics(groups: "Sequence[Group]") -> "Table":
    """Errors in percent: a line per group of carsim's, and below it one of its rival's."""
    from carsim.base.text import Table

    def cells(errors: "Errors") -> tuple[str, ...]:
        sizes = (f"{100 * size:.2f}" for size in (errors.mean, errors.median, errors.worst))
        return (str(errors.count), *sizes, f"{100 * errors.bias:+.2f}")

    lines: list[tuple[str, ...]] = []
    marked: set[int] = set()
    for group in groups:
        if group.failures:
            marked.add(len(lines))
        lines.append((group.title, *cells(group.ours), str(group.wins) if group.theirs else ""))
        if group.theirs:
            lines.append((f"- {group.rival}", *cells(group.theirs), ""))
    headings = ("errors in %", "rows", "mean", "median", "worst", "bias", "nearer")
    return Table(headings, tuple(lines), marked=frozenset(marked))


def _document(parts: "Sequence[Part]") -> dict[str, Any]:
    """All that was found, as plain data."""
    from carsim.report.comparisons import comparison_records

    return {
        "passes": all(part.ok for part in parts),
        "parts": [
            {
                "part": part.name,
                "title": part.title,
                "passes": part.ok,
                "failures": part.failures,
                "groups": [
                    {
                        "title": group.title,
                        "passes": not group.failures,
                        "bounds": dict(group.bounds),
                        "carsim": asdict(group.ours),
                        "rival_name": group.rival,
                        "rival": asdict(group.theirs) if group.theirs else None,
                        "nearer": group.wins,
                        "rows": comparison_records(group.rows),
                    }
                    for group in part.groups
                ],
                "notes": part.notes,
            }
            for part in parts
        ],
    }


def _noted(rows: "Sequence[Comparison]") -> "list[Comparison]":
    """The rows, each named with its note."""
    return [replace(row, what=f"{row.what} ({row.note})") if row.note else row for row in rows]


def _one_design(
    name: str,
    context: str | None,
    published: float | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Predict one design, which need not be in the file of published ones."""
    from carsim.base.text import Table
    from carsim.cli.console import output_console, show, show_json
    from carsim.design import load_design
    from carsim.validate.published import predict

    if context is None:
        raise click.UsageError("--design needs --context, say --context 512 or --context 1:1024")
    design = load_design(name, overrides)
    found = predict(design, *parse_context(context))
    decode = found.decode
    if found.misfits:
        problem = f"{design.name} does not fit {design.board.name}: {'; '.join(found.misfits)}"
        click.echo(f"warning: {problem}; the speed is that of a board on which it would", err=True)
    beyond = design.extrapolation(decode.contexts[0], decode.contexts[-1])
    if beyond:
        click.echo(f"warning: {beyond}", err=True)
    if as_json:
        show_json(_design_document(design, found, published))
        return
    title = f"{design.name} on {design.board.name}, context {context}"
    facts = tuple(_design_facts(design, found, published))
    show(output_console(), [title, Table(("", ""), facts, text_columns=2)])


def _design_document(
    design: "Design", found: "Prediction", published: float | None
) -> dict[str, Any]:
    joules, decode, expected = found.joules_per_token, found.decode, found.expected_speed
    return {
        "design": design.name,
        "result": design.machine.overheads.label,
        "expected_tokens_per_s": asdict(expected),
        "tokens_per_s": decode.tokens_per_s,
        "stream_tokens_per_s": decode.stream_tokens_per_s,
        "batch": design.policy.batch,
        "misfits": list(found.misfits),
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
        "error": None if published is None else decode.tokens_per_s / published - 1,
    }


def _design_facts(
    design: "Design", found: "Prediction", published: float | None
) -> "Iterator[tuple[str, str]]":
    from carsim.base.text import number, percent, with_ends

    joules, decode, expected = found.joules_per_token, found.decode, found.expected
    batch, each = design.policy.batch, number(decode.stream_tokens_per_s)
    in_all = "" if batch == 1 else f" in all, {each} for each of {batch} streams"
    yield "result", design.machine.overheads.label
    yield "tokens per second", f"{number(decode.tokens_per_s)}{in_all}"
    yield (
        "expected on a board",
        f"{found.expected_speed.text}, 90 % interval of {expected.systems} published systems "
        f"({expected.title})",
    )
    if published is not None:
        error = 100 * (decode.tokens_per_s / published - 1)
        yield "error", f"{error:+.1f} % of the published {published:g}"
    limits = ", ".join(f"{limit} {percent(share)}" for limit, share in decode.limit_shares.items())
    yield "limited by", f"{limits} of the time"
    yield "bytes per step", f"{decode.bytes_per_step / 1e9:.3f} GB"
    yield "bandwidth", f"{decode.bandwidth_gbps:.2f} GB/s"
    low, high = number(joules.low_j, 3), number(joules.high_j, 3)
    yield "joules per token", with_ends(number(joules.value_j, 3), low, high, " to ")


def parse_context(text: str) -> tuple[int, int]:
    """First and last context of ``N`` or ``FIRST:LAST``.

    Raises:
        InputError: Neither.

    >>> parse_context("512"), parse_context("1:1024")
    ((512, 512), (1, 1024))
    """
    first, _, last = text.partition(":")
    try:
        return int(first), int(last or first)
    except ValueError:
        raise InputError("--context", f"got {text!r}", "give N or FIRST:LAST") from None
