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

CLAIMS = "claims"
REPLAY = "replay"
"""Parts that differ from the others: claims have no bounds, replay takes a folder."""

HELP = """Hold predictions against published figures, all of them or those of one PART.

\b
{parts}
claims    what ten papers state, and what tests of it found

FOLDER is one that carsim measure wrote, or a folder of several; it takes the place of the rows that
replay ships with.

Exits with status 1 if a figure leaves its stated bound. configs/published/README.md tells how to
describe a further board.
""".format(parts="\n".join(f"{name:10}{meaning}" for name, meaning in PART_NAMES.items()))


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
        if not brief:
            yield from part.notes
    for part in parts:
        for failure in part.failures:
            yield Text(f"OUTSIDE: {failure}", style="red")
    is_right = all(part.ok for part in parts)
    yield Text(_verdict(parts), style="bold" if is_right else "bold red")


def _rows(group: "Group") -> "Table":
    """A line per comparison, those out of their bound marked; columns that are empty left out."""
    columns = {
        "what": [f"{row.what} ({row.note})" if row.note else row.what for row in group.rows],
        "reference": [f"{number(row.reference)} {row.unit}".strip() for row in group.rows],
        "carsim": [number(row.ours) for row in group.rows],
        "error": [_error_text(row.error) for row in group.rows],
        "bound": ["" if row.bound is None else f"{100 * row.bound:g} %" for row in group.rows],
        f"error of {group.rival}": [_error_text(row.rival_error) for row in group.rows],
    }
    filled = {heading: cells for heading, cells in columns.items() if any(cells)}
    rows = tuple(zip(*filled.values(), strict=True))
    outside = [index for index, row in enumerate(group.rows) if not row.ok]
    return Table(tuple(filled), rows, marked=frozenset(outside))


def _error_text(error: float | None) -> str:
    """A relative error in percent, with more digits if it is tiny; empty where there is none."""
    if error is None:
        return ""
    is_tiny = 0 < abs(error) < 0.001
    return f"{100 * error:+.3f} %" if is_tiny else f"{100 * error:+.1f} %"


def _statistics(groups: "Sequence[Group]") -> "Table":
    """Errors in percent: a line per group of carsim's, and below it one of its rival's."""
    lines: list[tuple[str, ...]] = []
    outside: set[int] = set()
    for group in groups:
        if group.failures:
            outside.add(len(lines))
        nearer = str(group.wins) if group.theirs else ""
        lines.append((group.title, *_error_cells(group.ours), nearer))
        if group.theirs:
            lines.append((f"- {group.rival}", *_error_cells(group.theirs), ""))
    headings = ("errors in %", "rows", "mean", "median", "worst", "bias", "nearer")
    return Table(headings, tuple(lines), marked=frozenset(outside))


def _error_cells(errors: "Errors") -> tuple[str, ...]:
    """Number of rows, and mean, median, worst error and bias in percent."""
    return (
        str(errors.count),
        _percent(errors.mean),
        _percent(errors.median),
        _percent(errors.worst),
        f"{100 * errors.bias:+.2f}",
    )


def _percent(size: float) -> str:
    """The size of a relative error in percent.

    Six characters hold errors of 1,000 % and more, too: a wider column would wrap titles.
    """
    return f"{100 * size:.2f}" if size < 10 else f"{100 * size:.1f}"


def _verdict(parts: "Sequence[Part]") -> str:
    """Number of groups within their bounds, and groups in which the rival is as near."""
    groups = [group for part in parts for group in part.groups]
    within = sum(not group.failures for group in groups)
    text = f"{within} of {len(groups)} groups of comparisons are within their bounds."
    rivalled = [group.title for group in groups if _is_rival_as_near(group)]
    if rivalled:
        text += f" A rival is as near for: {'; '.join(rivalled)}."
    return text


def _is_rival_as_near(group: "Group") -> bool:
    """Whether the mean error of a group's rival is at most that of carsim."""
    return group.theirs is not None and group.theirs.mean <= group.ours.mean


def _document(parts: "Sequence[Part]") -> dict[str, Any]:
    """All that was found, as plain data."""
    records = []
    for part in parts:
        record = {
            "part": part.name,
            "title": part.title,
            "passes": part.ok,
            "failures": part.failures,
            "groups": [_record(group) for group in part.groups],
            "notes": part.notes,
        }
        records.append(record)
    return {"passes": all(part.ok for part in parts), "parts": records}


def _record(group: "Group") -> dict[str, Any]:
    """A group of comparisons, as plain data."""
    rows = []
    for row in group.rows:
        fields = asdict(row)
        fields["error"] = row.error
        fields["rival_error"] = row.rival_error
        fields["ok"] = row.ok
        rows.append(fields)
    return {
        "title": group.title,
        "passes": not group.failures,
        "bounds": dict(group.bounds),
        "carsim": asdict(group.ours),
        "rival_name": group.rival,
        "rival": asdict(group.theirs) if group.theirs else None,
        "nearer": group.wins,
        "rows": rows,
    }
