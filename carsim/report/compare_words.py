"""A comparison in words and tables, for terminals and notebooks."""

import html
from collections.abc import Iterator

from carsim.report.compare import OWN, Change, Comparison, shown, shown_number
from carsim.report.document import Table
from carsim.report.metrics import BY_KEY, METRICS
from carsim.report.words import PHASE_LABELS, signed_percent
from carsim.text import html_table, number, percent

LEAST_SHARE = 0.05
"""Of the whole change: what is less goes unmentioned in the answer."""


def answer(comparison: Comparison) -> Iterator[str]:
    """What the differences did, a sentence each."""
    time, energy = (comparison.change(key) for key in ("s_per_video", "energy_per_video_j"))
    yield f"B finishes a video in {_instead(time, 's')}."
    moved = sorted(
        (each for each in comparison.breakdown if each.of == OWN and each.difference),
        key=lambda each: -abs(each.difference or 0.0),
    )
    total = sum(abs(each.difference or 0.0) for each in moved)
    named = [each for each in moved if abs(each.difference or 0.0) >= LEAST_SHARE * total]
    if named:
        parts = ", ".join(f"{each.what} {_signed(each.difference)} s" for each in named)
        yield f"Where the time of a video went: {parts}."
    yield f"It costs {_instead(energy, 'J')}."
    flipped: dict[tuple[str, str], list[str]] = {}
    for phase in comparison.phases:
        limits = phase.a_limit, phase.b_limit
        if all(limits) and limits[0] != limits[1]:
            flipped.setdefault(limits, []).append(PHASE_LABELS.get(phase.phase, phase.phase))
    for (a_limit, b_limit), labels in flipped.items():
        yield f"Limited by {b_limit} in B, by {a_limit} in A: {', '.join(labels)}."


def spec_table(comparison: Comparison) -> Table:
    """What differs: a line per field."""
    return Table(
        ("what", "A", "B"),
        tuple(
            (each.path, shown(each.a), shown(each.b))
            for each in (*comparison.spec, *comparison.inputs)
        ),
        text_columns=3,
    )


def own_table(comparison: Comparison) -> Table:
    """Every figure of the designs' own policies."""
    return Table(
        ("own policies", "A", "B", "difference", "relative"),
        tuple(
            (metric.label, *_cells(comparison.change(metric.key)))
            for metric in METRICS
            if comparison.change(metric.key).a or comparison.change(metric.key).b
        ),
    )


def policies_table(comparison: Comparison) -> Table:
    """Time and energy of every policy that both have."""
    keys = ("s_per_video", "energy_per_video_j")
    return Table(
        (
            "policy",
            *(
                f"{side} {unit}"
                for unit in ("[s]", "[J]")
                for side in ("A", "B", "B - A", "change")
            ),
        ),
        tuple(
            (name, *(cell for key in keys for cell in _cells(comparison.change(key, name))))
            for name in comparison.pairs
            if name != OWN
        ),
    )


def breakdown_table(comparison: Comparison) -> Table:
    """Where the seconds of a video go under the designs' own policies."""
    rows = [each for each in comparison.breakdown if each.of == OWN and (each.a or each.b)]
    return Table(
        ("seconds of a video", "A", "B", "difference", "relative"),
        tuple((each.what, *_plain_cells(each)) for each in rows),
    )


def phases_table(comparison: Comparison) -> Table:
    """Phases of the own policies, and what limits them."""
    return Table(
        ("phase", "A [s]", "B [s]", "difference", "A limited by", "B limited by"),
        tuple(
            (
                PHASE_LABELS.get(each.phase, each.phase),
                "-" if each.a_s is None else number(each.a_s),
                "-" if each.b_s is None else number(each.b_s),
                _signed((each.b_s or 0.0) - (each.a_s or 0.0)),
                each.a_limit or "-",
                each.b_limit or "-",
            )
            for each in comparison.phases
        ),
    )


def as_notebook(comparison: Comparison) -> str:
    """What differs, the answer, and the figures of the own policies, as HTML."""
    texts = [
        f"A: {comparison.a.design}, B: {comparison.b.design}.",
        *answer(comparison),
        *comparison.notes,
    ]
    tables = [
        html_table(table.headings, table.rows, text_columns=table.text_columns)
        for table in (spec_table(comparison), own_table(comparison), breakdown_table(comparison))
        if table.rows
    ]
    return f"<p>{html.escape(' '.join(texts))}</p>" + "".join(tables)


def _cells(change: Change) -> tuple[str, str, str, str]:
    metric = BY_KEY[change.what]
    difference = change.difference
    text = "-" if difference is None else _signed(difference)
    if difference is not None and metric.show is percent:
        text = f"{round(100 * difference, 1) + 0.0:+.1f} points"
    return (
        shown_number(metric, change.a),
        shown_number(metric, change.b),
        text,
        _relative(change),
    )


def _plain_cells(change: Change) -> tuple[str, str, str, str]:
    return (
        number(change.a or 0.0),
        number(change.b or 0.0),
        _signed(change.difference),
        _relative(change),
    )


def _relative(change: Change) -> str:
    return "-" if change.relative is None else signed_percent(change.relative)


def _instead(change: Change, unit: str) -> str:
    a, b = change.a or 0.0, change.b or 0.0
    if number(a) == number(b):
        return f"{number(b)} {unit}, like A"
    relative = f" ({_relative(change)})" if change.relative is not None else ""
    return f"{number(b)} {unit} instead of {number(a)} {unit}{relative}"


def _signed(value: float | None) -> str:
    if value is None:
        return "-"
    return ("+" if value > 0 else "") + number(value)
