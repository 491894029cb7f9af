"""A comparison of two runs in words and tables."""

import json
from collections.abc import Iterator
from math import fsum
from typing import Any

from carsim.base.text import (
    Table,
    number,
    quantity,
    shortened,
    signed,
    signed_percent,
    span,
    with_ends,
)
from carsim.metrics import METRICS, PHASES
from carsim.report.compare import OWN, Change, RunComparison
from carsim.report.run_words import Section

LEAST_SHARE = 0.05
"""Categories that make up less of the whole change are left out of the answer."""

MOVED = 0.0005
"""Relative change of a figure below which it counts as unchanged."""


def sections(comparison: RunComparison) -> Iterator[Section]:
    """All that there is to say of a comparison, most important first."""
    heads = [
        f"{side}  {run.design} on {run.spec().board.name}, {run.own.policy} "
        f"(sha256 {run.design_sha256[:12]})"
        for side, run in (("A", comparison.a), ("B", comparison.b))
    ]
    yield "", heads
    same = "Nothing differs in design, traces or options."
    table = spec_table(comparison)
    yield "What differs", [table if table.rows else same]
    texts = [f"- {text}" for text in (*answer(comparison), *comparison.notes)]
    yield "What that did", texts
    heading = "B over A, each constant of energy and each bandwidth drawn alike for both"
    yield heading, list(ratios_lines(comparison))
    yield "Figures of the own policies that differ", [changed_table(comparison)]
    yield comparison.named("Every policy, per video"), [policies_table(comparison)]


def answer(comparison: RunComparison) -> Iterator[str]:
    """Effects of the differences, a sentence each."""
    kind = comparison.named("video")
    yield headline(comparison)
    yield from _certainty(comparison)
    moved = {each.what: each.difference for each in comparison.breakdown if each.difference}
    total = fsum(map(abs, moved.values()))
    named = [what for what in moved if abs(moved[what]) >= LEAST_SHARE * total]
    if named:
        named.sort(key=lambda what: -abs(moved[what]))
        parts = ", ".join(f"{what} {signed(moved[what])} s" for what in named)
        yield f"Where the time of a {kind} went: {parts}."
    yield f"It costs {_instead(comparison.change('energy_per_video_j'))}."
    of_a = {each.phase: each.limited_by for each in comparison.a.limits}
    flipped: dict[tuple[str, str], list[str]] = {}
    for each in comparison.b.limits:
        if (before := of_a.get(each.phase, each.limited_by)) != each.limited_by:
            name = PHASES.get(each.phase, each.phase)
            flipped.setdefault((before, each.limited_by), []).append(name)
    for (before, after), names in flipped.items():
        yield f"Limited by {after} in B, by {before} in A: {', '.join(names)}."


def headline(comparison: RunComparison) -> str:
    """Time of B against that of A, in a sentence."""
    kind = comparison.named("video")
    seconds = _instead(comparison.change("seconds_per_video"))
    together = max(comparison.a.videos_per_batch, comparison.b.videos_per_batch) > 1
    is_shared = kind == "text" and together  # none of them is finished so soon
    verb, end = ("takes", " per text of a batch") if is_shared else (f"finishes a {kind} in", "")
    return f"B {verb} {seconds}{end}."


def _certainty(comparison: RunComparison) -> Iterator[str]:
    """Kinds of both results, and overlap of their intervals on boards."""
    runs = {"A": comparison.a, "B": comparison.b}
    if comparison.a.result != comparison.b.result:
        yield "; ".join(f"{side} is {run.result}" for side, run in runs.items()) + "."
    (low_a, high_a), (low_b, high_b) = (
        (known.low * run.own.seconds_per_video, known.high * run.own.seconds_per_video)
        for run in runs.values()
        for known in [run.expected]
    )
    spans = f"{span(number(low_a), number(high_a), ' to ')} s for A and "
    spans += f"{span(number(low_b), number(high_b), ' to ')} s for B"
    if low_a > high_b or low_b > high_a:
        yield f"On boards, the 90 % intervals do not overlap: {spans}."
    elif comparison.a.own.seconds_per_video != comparison.b.own.seconds_per_video:
        yield (
            "The order on boards is certain only if both depart from carsim by about the same "
            f"factor, as the 90 % intervals overlap: {spans}."
        )


def spec_table(comparison: RunComparison) -> Table:
    """Fields that differ, a line each."""
    rows = (
        (each.path, field_text(each.a), field_text(each.b))
        for each in (*comparison.spec, *comparison.inputs)
    )
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


def policies_table(comparison: RunComparison) -> Table:
    """Seconds and joules of every policy that both have."""
    of_each = {
        of: [comparison.change(name, of) for name in ("seconds_per_video", "energy_per_video_j")]
        for of in comparison.pairs
        if of != OWN
    }
    rows = (
        (of, *(cell for each in changes for cell in (*_cells(each)[:2], _cells(each)[3])))
        for of, changes in of_each.items()
    )
    return Table(("policy", "A [s]", "B [s]", "change", "A [J]", "B [J]", "change"), tuple(rows))


def field_text(value: Any) -> str:
    """A value of a field, in the words of the YAML.

    >>> field_text("drs"), field_text(None), field_text([1, 2]), field_text(True)
    ('drs', '-', '[1, 2]', 'true')
    """
    if value is None:
        return "-"
    return shortened(value if isinstance(value, str) else json.dumps(value))


def _cells(change: Change) -> tuple[str, ...]:
    unit, difference = METRICS[change.what].unit, change.difference
    if difference is None:
        text = "-"
    elif unit == "share":
        text = f"{round(100 * difference, 1) + 0.0:+.1f} points"
    else:
        text = signed(difference)
    return quantity(change.a, unit), quantity(change.b, unit), text, _relative(change)


def _relative(change: Change) -> str:
    return "-" if change.relative is None else signed_percent(change.relative)


def _instead(change: Change) -> str:
    unit, a, b = METRICS[change.what].unit, number(change.a or 0.0), number(change.b or 0.0)
    if a == b:
        return f"{b} {unit}, like A"
    return f"{b} {unit} instead of {a} {unit} ({_relative(change)})"
