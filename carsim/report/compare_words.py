"""A comparison of two runs in words and tables."""

import json
import textwrap
from collections.abc import Iterator
from math import fsum
from typing import Any

from carsim.base.text import (
    SCREEN_WIDTH,
    Table,
    number,
    quantity,
    shortened,
    signed,
    signed_percent,
    with_ends,
)
from carsim.metrics import INTERVALS, METRICS, PHASES, interval_text
from carsim.report.compare import OWN, Change, RunComparison
from carsim.report.run_words import Section
from carsim.report.stored import StoredRun

LEAST_SHARE = 0.05
"""Categories that make up less of the whole change are left out of the answer."""

MOVED = 0.0005
"""Relative change of a figure below which it counts as unchanged."""


def sections(comparison: RunComparison) -> Iterator[Section]:
    """All that there is to say of a comparison, most important first."""
    heads = [
        f"{side}  {run.design} on {run.spec().board.name}, {run.own.policy}, "
        f"decisions {run.own.decisions} (sha256 {run.design_sha256[:12]})"
        for side, run in (("A", comparison.a), ("B", comparison.b))
    ]
    # Assumptions that both share are said once.
    sides = {"A": comparison.a.assumed, "B": comparison.b.assumed}
    if comparison.a.assumed == comparison.b.assumed:
        sides = {"A and B": comparison.a.assumed}
    lines = [f"{side}  {text}" for side, text in sides.items() if text]
    yield "", [*heads, *lines]
    table = spec_table(comparison)
    yield "What differs", [table if table.rows else "Nothing differs in design, traces or options."]
    yield "What that did", [f"- {text}" for text in (*answer(comparison), *comparison.notes)]
    heading = "B over A, each constant of energy and each bandwidth drawn alike for both"
    yield heading, list(ratios_lines(comparison))
    yield "Figures of the own policies that differ", [changed_table(comparison)]


def plain_text(comparison: RunComparison) -> str:
    """The sections of a comparison as plain text of 80 columns."""
    lines: list[str] = []
    for heading, parts in sections(comparison):
        if lines:
            lines.append("")
        if heading:
            lines.append(heading)
        for part in parts:
            if isinstance(part, Table):
                lines += part.lines(SCREEN_WIDTH)
                continue
            indent = " " * (len(part) - len(part.lstrip(" -")))
            lines += textwrap.wrap(part, SCREEN_WIDTH, subsequent_indent=indent)
    return "\n".join(lines)


def answer(comparison: RunComparison) -> Iterator[str]:
    """Effects of the differences, a sentence each."""
    a, b = comparison.a, comparison.b
    yield headline(comparison)
    if a.result != b.result:
        yield f"A has the {a.result}; B has the {b.result}."
    yield from _certainty(comparison)
    moved = {each.what: each.difference for each in comparison.breakdown if each.difference}
    least = LEAST_SHARE * fsum(map(abs, moved.values()))
    named = sorted(moved.items(), key=lambda part: -abs(part[1]))
    parts = [f"{what} {signed(change)} s" for what, change in named if abs(change) >= least]
    if parts:
        yield comparison.named(f"Where the time of a video went: {', '.join(parts)}.")
    yield f"It costs {_instead(comparison.change('energy_per_video_j'))}."
    of_a = {each.phase: each.limited_by for each in a.limits}
    moved_limits = [
        f"{PHASES.get(each.phase, each.phase)} by {each.limited_by} (A: {of_a[each.phase]})"
        for each in b.limits
        if of_a.get(each.phase, each.limited_by) != each.limited_by
    ]
    if moved_limits:
        yield f"Limited otherwise in B: {', '.join(moved_limits)}."


def headline(comparison: RunComparison) -> str:
    """Time of B against that of A, in a sentence."""
    seconds = _instead(comparison.change("seconds_per_video"))
    return comparison.named(f"In B, a video takes {seconds}.")


def _certainty(comparison: RunComparison) -> Iterator[str]:
    """Overlap of the intervals of both times on boards."""
    a, b = map(_expected_ends, comparison.both)
    if a == b:
        return
    spans = " and ".join(map(_expected_text, comparison.both))
    if a[0] > b[1] or b[0] > a[1]:
        yield f"On boards, the 90 % intervals of A and B do not overlap: expect {spans}."
    else:
        yield (
            f"On boards, the 90 % intervals of A and B overlap: expect {spans}. The order is "
            "certain only if both depart from carsim by about the same factor."
        )


def _expected_ends(run: StoredRun) -> tuple[float, float]:
    low, high = INTERVALS["expected_seconds_per_video"]
    return run.own[low], run.own[high]


def _expected_text(run: StoredRun) -> str:
    return f"{interval_text('expected_seconds_per_video', run.own.get)} s"


def spec_table(comparison: RunComparison) -> Table:
    """Fields that differ, a line each."""
    differing = (*comparison.spec, *comparison.inputs)
    rows = ((path, field_text(a), field_text(b)) for path, a, b in differing)
    return Table(("what", "A", "B"), tuple(rows), text_columns=3)


def changed_table(comparison: RunComparison) -> Table:
    """Figures of the designs' own policies that differ."""
    own = [each for each in comparison.metrics if each.of == OWN and each.difference]
    moved = [each for each in own if each.relative is None or abs(each.relative) > MOVED]
    rows = ((METRICS[each.what].heading, *_cells(each)) for each in moved)
    return Table(("metric", "A", "B", "difference", "change"), tuple(rows))


def ratios_lines(comparison: RunComparison) -> Iterator[str]:
    """B over A with 90 % of the draws, and the share of draws in which B is better."""
    for metric, value, low, high, b_wins in comparison.ratios:
        ratio = with_ends(f"{value:.3f}", f"{low:.3f}", f"{high:.3f}", " to ")
        yield f"- {METRICS[metric].title}: {ratio}; B is better in {100 * b_wins:.0f} % of draws"


def field_text(value: Any) -> str:
    """A value of a field, in the words of the YAML.

    >>> field_text("drs"), field_text(None), field_text([1, 2]), field_text(True)
    ('drs', '-', '[1, 2]', 'true')
    """
    if value is None:
        return "-"
    return shortened(value if isinstance(value, str) else json.dumps(value))


def _cells(change: Change) -> tuple[str, ...]:
    unit, difference = METRICS[change.what].unit, change.difference or 0.0
    text = f"{100 * difference:+.1f} points" if unit == "share" else signed(difference)
    return quantity(change.a, unit), quantity(change.b, unit), text, _relative(change)


def _relative(change: Change) -> str:
    return "-" if change.relative is None else signed_percent(change.relative)


def _instead(change: Change) -> str:
    unit, a, b = METRICS[change.what].unit, number(change.a or 0.0), number(change.b or 0.0)
    if a == b:
        return f"{b} {unit}, as in A"
    return f"{b} {unit} instead of {a} {unit} ({_relative(change)})"
