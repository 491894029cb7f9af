"""Rows of comparisons with others' work, as a table and as records."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from carsim.metrics import Comparison
from carsim.text import Figure, Table, number, signed_percent


def comparison_table(rows: Sequence[Comparison], title: str = "") -> Table:
    """A line per comparison; those beyond their bound are marked.

    Columns that are empty in every row are left out.
    """
    columns = {
        "what": [row.what for row in rows],
        "source": [row.source for row in rows],
        "note": [row.note for row in rows],
        "reference": [_number(row.reference, row.unit) for row in rows],
        "carsim": [_number(row.ours, row.unit) for row in rows],
        "error": [_error(row.error) for row in rows],
        "bound": ["" if row.bound is None else f"{100 * row.bound:g} %" for row in rows],
        "rival": [_number(row.rival, row.unit) for row in rows],
        "rival error": [_error(row.rival_error) for row in rows],
    }
    kept = {heading: cells for heading, cells in columns.items() if any(cells)}
    return Table(
        tuple(kept),
        tuple(zip(*kept.values(), strict=True)),
        text_columns=sum(heading in ("what", "source", "note") for heading in kept),
        marked=frozenset(i for i, row in enumerate(rows) if not row.ok),
        title=title,
    )


def comparison_records(rows: Sequence[Comparison]) -> list[dict[str, Any]]:
    """The rows as plain data, for JSON."""
    return [
        asdict(row) | {"error": row.error, "rival_error": row.rival_error, "ok": row.ok}
        for row in rows
    ]


def _number(value: float | None, unit: str) -> Figure:
    text = "" if value is None else f"{number(value)} {unit}".rstrip()
    return Figure(text, value)


def _error(error: float | None) -> Figure:
    return Figure("" if error is None else signed_percent(error, 1), error)
