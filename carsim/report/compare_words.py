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
    a = comparison.a
    b = comparison.b
    lines = [_side("A", a), _side("B", b)]
    if a.assumed == b.assumed:
        assumed_of = {"A and B": a.assumed}
    else:
        assumed_of = {"A": a.assumed, "B": b.assumed}
    lines += [f"{side}  {assumed}" for side, assumed in assumed_of.items() if assumed]
    yield "", lines
    table = spec_table(comparison)
    yield "What differs", [table if table.rows else "Nothing differs in design, traces or options."]
    sentences = [*answer(comparison), *comparison.notes]
    yield "What that did", [f"- {sentence}" for sentence in sentences]
    heading = "B over A, each constant of energy and each bandwidth drawn alike for both"
    yield heading, list(ratios_lines(comparison))
    yield "Figures of the own policies that differ", [changed_table(comparison)]


def _side(letter: str, run: StoredRun) -> str:
    """A run of a comparison, in a line."""
    policy = f"{run.own.policy}, decisions {run.own.decisions}"
    name = f"{run.design} on {run.spec().board.name}"
    return f"{letter}  {name}, {policy} (sha256 {run.design_sha256[:12]})"


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
    a = comparison.a
    b = comparison.b
    yield headline(comparison)
    if a.result != b.result:
        yield f"A has the {a.result}; B has the {b.result}."
    yield from _certainty(comparison)
    categories = _moved_categories(comparison)
    if categories:
        yield comparison.named(f"Where the time of a video went: {', '.join(categories)}.")
    yield f"It costs {_instead(comparison.change('energy_per_video_j'))}."
    moved_limits = _moved_limits(a, b)
    if moved_limits:
        yield f"Limited otherwise in B: {', '.join(moved_limits)}."


def _moved_categories(comparison: RunComparison) -> list[str]:
    """Categories of time with their changes, the largest first; small changes are left out."""
    change_s = {}
    for change in comparison.breakdown:
        if change.difference:
            change_s[change.what] = change.difference
    least_s = LEAST_SHARE * fsum(map(abs, change_s.values()))
    largest_first = sorted(change_s.items(), key=lambda item: -abs(item[1]))
    texts = []
    for category, seconds in largest_first:
        if abs(seconds) >= least_s:
            texts.append(f"{category} {signed(seconds)} s")
    return texts


def _moved_limits(a: StoredRun, b: StoredRun) -> list[str]:
    """Phases of both runs that another resource limits in B, with both limits."""
    limit_in_a = {limit.phase: limit.limited_by for limit in a.limits}
    texts = []
    for limit in b.limits:
        before = limit_in_a.get(limit.phase, limit.limited_by)
        if before != limit.limited_by:
            phase = PHASES.get(limit.phase, limit.phase)
            texts.append(f"{phase} by {limit.limited_by} (A: {before})")
    return texts


def headline(comparison: RunComparison) -> str:
    """Time of B against that of A, in a sentence."""
    seconds = _instead(comparison.change("seconds_per_video"))
    return comparison.named(f"In B, a video takes {seconds}.")


def _certainty(comparison: RunComparison) -> Iterator[str]:
    """Overlap of the intervals of both times on boards."""
    low_a, high_a = _expected_ends(comparison.a)
    low_b, high_b = _expected_ends(comparison.b)
    if low_a == low_b and high_a == high_b:
        return
    spans = f"{_expected_text(comparison.a)} and {_expected_text(comparison.b)}"
    if low_a > high_b or low_b > high_a:
        yield f"On boards, the 90 % intervals of A and B do not overlap: expect {spans}."
    else:
        yield (
            f"On boards, the 90 % intervals of A and B overlap: expect {spans}. The order is "
            "certain only if both depart from carsim by about the same factor."
        )


def _expected_ends(run: StoredRun) -> tuple[float, float]:
    """Ends of the interval of the expected seconds per video."""
    low, high = INTERVALS["expected_seconds_per_video"]
    return run.own[low], run.own[high]


def _expected_text(run: StoredRun) -> str:
    """Expected seconds per video with their interval."""
    return f"{interval_text('expected_seconds_per_video', run.own.get)} s"


def spec_table(comparison: RunComparison) -> Table:
    """Fields that differ, a line each."""
    differing = (*comparison.spec, *comparison.inputs)
    rows = ((path, field_text(a), field_text(b)) for path, a, b in differing)
    return Table(("what", "A", "B"), tuple(rows), text_columns=3)


def changed_table(comparison: RunComparison) -> Table:
    """Figures of the designs' own policies that differ."""
    rows = []
    for change in comparison.metrics:
        if change.of != OWN or not change.difference:
            continue
        if change.relative is None or abs(change.relative) > MOVED:
            rows.append(_changed_row(change))
    return Table(("metric", "A", "B", "difference", "change"), tuple(rows))


def ratios_lines(comparison: RunComparison) -> Iterator[str]:
    """B over A with 90 % of the draws, and the share of draws in which B is better."""
    for ratio in comparison.ratios:
        low = f"{ratio.low:.3f}"
        high = f"{ratio.high:.3f}"
        text = with_ends(f"{ratio.value:.3f}", low, high, " to ")
        wins = f"B is better in {100 * ratio.b_wins:.0f} % of draws"
        yield f"- {METRICS[ratio.metric].title}: {text}; {wins}"


def field_text(value: Any) -> str:
    """A value of a field, in the words of the YAML.

    >>> field_text("drs"), field_text(None), field_text([1, 2]), field_text(True)
    ('drs', '-', '[1, 2]', 'true')
    """
    if value is None:
        return "-"
    return shortened(value if isinstance(value, str) else json.dumps(value))


def _changed_row(change: Change) -> tuple[str, ...]:
    """The row of a changed figure: metric, both values, difference, relative change."""
    metric = METRICS[change.what]
    difference = change.difference or 0.0
    if metric.unit == "share":
        difference_text = f"{100 * difference:+.1f} points"
    else:
        difference_text = signed(difference)
    value_a = quantity(change.a, metric.unit)
    value_b = quantity(change.b, metric.unit)
    return metric.heading, value_a, value_b, difference_text, _relative(change)


def _relative(change: Change) -> str:
    """The relative change, in percent."""
    return "-" if change.relative is None else signed_percent(change.relative)


def _instead(change: Change) -> str:
    """The value of B, and instead of what."""
    unit = METRICS[change.what].unit
    a = number(change.a or 0.0)
    b = number(change.b or 0.0)
    if a == b:
        return f"{b} {unit}, as in A"
    return f"{b} {unit} instead of {a} {unit} ({_relative(change)})"
