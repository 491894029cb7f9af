"""``carsim validate``: predictions against figures that carsim's authors did not make."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from carsim.base.text import Table, number
from carsim.cli.console import Part as Printed
from carsim.cli.console import print_results, progress, show_json
from carsim.cli.options import JSON
from carsim.validate import PART_NAMES

if TYPE_CHECKING:
    from carsim.validate.part import Errors, Group, Part

OUT_OF_BOUNDS = 1
"""Exit status of a figure that leaves its stated bound."""

CLAIMS, REPLAY = "claims", "replay"

HELP = """Hold predictions against published figures, all of them or those of one PART.

\b
{parts}
claims    what ten papers state, and what tests of it found

FOLDER is one that carsim measure wrote, or a folder of several; it takes the place of the rows that
replay ships with.

Exits with status 1 if a figure leaves its stated bound. configs/published/README.md tells how to
describe a further board.
""".format(parts="\n".join(f"{name:10}{what}" for name, what in PART_NAMES.items()))


@click.command(help=HELP)
@click.argument("name", metavar="[PART]", required=False, type=click.Choice([*PART_NAMES, CLAIMS]))
@click.argument("folder", metavar="[FOLDER]", required=False, type=click.Path(path_type=Path))
@click.option("--every", is_flag=True, help="Show each row, not only those of short lists.")
@click.option("--short", is_flag=True, help="Compare fidelities on a tenth of the designs.")
@JSON
def validate(
    name: str | None, folder: Path | None, every: bool, short: bool, as_json: bool
) -> int | None:
    """Run one part or all, and print what was found."""
    if name == CLAIMS and every:
        raise click.UsageError("claims takes --json only")
    if short and name not in (None, "fidelity"):
        raise click.UsageError("--short goes with all parts or fidelity")
    if folder is not None and name != REPLAY:
        raise click.UsageError("FOLDER goes with replay")
    if name == CLAIMS:
        from carsim.validate.claims import claims, claims_page

        if as_json:
            show_json({"claims": claims()})
        else:
            click.echo(claims_page(), nl=False)
        return None
    from carsim.validate.parts import work_out

    with progress("validating") as tell:
        parts = work_out([name] if name else list(PART_NAMES), short, tell, folder)
    print_results(as_json, _document(parts), _output(parts, every, brief=name is None))
    return None if all(part.ok for part in parts) else OUT_OF_BOUNDS


def _output(parts: "Sequence[Part]", every: bool, brief: bool) -> "Iterator[Printed]":
    """Rows of each part, statistics of all groups, notes, and the verdict.

    Args:
        parts: Results of the parts.
        every: Show all rows.
        brief: Leave rows and notes out, unless ``every`` asks for the rows.
    """
    for part in parts:
        for group in part.groups:
            if every or (group.shown and not brief):
                yield Text(f"{part.name}: {group.title}", style="bold")
                yield _rows(group)
    for part in parts:
        yield Text(part.title, style="bold")
        yield _statistics(part.groups)
        yield from part.notes if not brief else ()
    for part in parts:
        yield from (Text(f"OUTSIDE: {line}", style="red") for line in part.failures)
    yield Text(_verdict(parts), style="bold" if all(part.ok for part in parts) else "bold red")


def _rows(group: "Group") -> "Table":
    """A line per comparison, those out of their bound marked; columns that are empty left out."""

    def share(error: float | None) -> str:
        if error is None:
            return ""
        return f"{100 * error:+.{1 if abs(error) >= 0.001 or error == 0 else 3}f} %"

    columns = {
        "what": [f"{row.what} ({row.note})" if row.note else row.what for row in group.rows],
        "reference": [f"{number(row.reference)} {row.unit}".strip() for row in group.rows],
        "carsim": [number(row.ours) for row in group.rows],
        "error": [share(row.error) for row in group.rows],
        "bound": ["" if row.bound is None else f"{100 * row.bound:g} %" for row in group.rows],
        f"error of {group.rival}": [share(row.rival_error) for row in group.rows],
    }
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    marked = frozenset(place for place, row in enumerate(group.rows) if not row.ok)
    return Table(tuple(kept), tuple(zip(*kept.values(), strict=True)), marked=marked)


def _statistics(groups: "Sequence[Group]") -> "Table":
    """Errors in percent: a line per group of carsim's, and below it one of its rival's."""

    def cells(errors: "Errors") -> tuple[str, ...]:
        sizes = (percent(size) for size in (errors.mean, errors.median, errors.worst))
        return (str(errors.count), *sizes, f"{100 * errors.bias:+.2f}")

    def percent(size: float) -> str:
        # Six characters hold errors of 1,000 % and more, too: a wider column would wrap titles.
        return f"{100 * size:.{2 if size < 10 else 1}f}"

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


def _verdict(parts: "Sequence[Part]") -> str:
    """Number of groups within their bounds, and groups in which the rival is as near."""
    groups = [group for part in parts for group in part.groups]
    rivalled = [
        group.title for group in groups if group.theirs and group.theirs.mean <= group.ours.mean
    ]
    text = f"{sum(not group.failures for group in groups)} of {len(groups)} groups of comparisons "
    text += "are within their bounds."
    return text + (f" A rival is as near for: {'; '.join(rivalled)}." if rivalled else "")


def _document(parts: "Sequence[Part]") -> dict[str, Any]:
    """All that was found, as plain data."""
    found = []
    for part in parts:
        result = {"part": part.name, "title": part.title, "passes": part.ok}
        groups = {"failures": part.failures, "groups": list(map(_record, part.groups))}
        found.append(result | groups | {"notes": part.notes})
    return {"passes": all(part.ok for part in parts), "parts": found}


def _record(group: "Group") -> dict[str, Any]:
    theirs = asdict(group.theirs) if group.theirs else None
    rows = [
        asdict(row) | {"error": row.error, "rival_error": row.rival_error, "ok": row.ok}
        for row in group.rows
    ]
    found = {"title": group.title, "passes": not group.failures, "bounds": dict(group.bounds)}
    found |= {"carsim": asdict(group.ours), "rival_name": group.rival, "rival": theirs}
    return found | {"nearer": group.wins, "rows": rows}
