"""A comparison of two runs in words and tables, for terminals and notebooks."""

import html
import json
from collections.abc import Iterator
from math import fsum
from typing import Any

from carsim.base.text import (
    Table,
    html_table,
    number,
    quantity,
    shortened,
    signed,
    signed_percent,
    span,
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
    yield "Ratios of the own policies", [ratios_table(comparison), ratios_note(comparison)]
    yield "Figures of the own policies", [own_table(comparison)]
    for name in ("seconds_per_video", "energy_per_video_j"):
        title = comparison.named(METRICS[name].title)
        yield f"{title[0].upper()}{title[1:]}", [policies_table(comparison, name)]
    yield comparison.named("Where the seconds of a video go"), [breakdown_table(comparison)]
    yield "Phases, and what limits them", [phases_table(comparison)]


def answer(comparison: RunComparison) -> Iterator[str]:
    """Effects of the differences, a sentence each."""
    kind = comparison.named("video")
    yield headline(comparison)
    yield from _certainty(comparison)
    moved = {
        each.what: each.difference
        for each in comparison.breakdown
        if each.of == OWN and each.difference
    }
    total = fsum(map(abs, moved.values()))
    named = [what for what in moved if abs(moved[what]) >= LEAST_SHARE * total]
    if named:
        named.sort(key=lambda what: -abs(moved[what]))
        parts = ", ".join(f"{what} {signed(moved[what])} s" for what in named)
        yield f"Where the time of a {kind} went: {parts}."
    yield f"It costs {_instead(comparison.change('energy_per_video_j'))}."
    flipped: dict[tuple[Any, Any], list[str]] = {}
    for phase, _, _, *limits in comparison.phases:
        if None not in limits and limits[0] != limits[1]:
            flipped.setdefault((limits[0], limits[1]), []).append(PHASES.get(phase, phase))
    for (a_limit, b_limit), names in flipped.items():
        yield f"Limited by {b_limit} in B, by {a_limit} in A: {', '.join(names)}."


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
        yield "; ".join(f"{side} is {run.result}" for side, run in runs.items() if run.result) + "."
    ends = []
    for run in runs.values():
        if run.expected is None:
            return
        seconds = run.own.seconds_per_video
        ends.append((run.expected.low * seconds, run.expected.high * seconds))
    (low_a, high_a), (low_b, high_b) = ends
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
        (each.path, shown(each.a), shown(each.b)) for each in (*comparison.spec, *comparison.inputs)
    )
    return Table(("what", "A", "B"), tuple(rows), text_columns=3)


def own_table(comparison: RunComparison) -> Table:
    """Every figure of the designs' own policies."""
    return _changes_table("metric", [each for each in comparison.metrics if each.of == OWN])


def changed_table(comparison: RunComparison) -> Table:
    """Figures of the designs' own policies that differ."""
    own = [each for each in comparison.metrics if each.of == OWN and each.difference]
    moved = [each for each in own if each.relative is None or abs(each.relative) > MOVED]
    return _changes_table("metric", moved)


def ratios_table(comparison: RunComparison) -> Table:
    """B over A with intervals, and how often B is better."""
    return Table(
        ("metric", "B / A", "5 to 95 % of draws", "B beats A in"),
        tuple(
            (
                METRICS[each.metric].title,
                f"{each.value:.3f}",
                span(f"{each.low:.3f}", f"{each.high:.3f}"),
                f"{100 * each.b_wins:.0f} % of draws",
            )
            for each in comparison.ratios
        ),
    )


def ratios_note(comparison: RunComparison) -> str:
    """Uncertainties that the draws cover, and those that they do not."""
    text = (
        "A draw takes every constant of energy and the bandwidth of every memory from its "
        "interval, the same for A and B; ties count half. What carsim itself gets wrong is not "
        "drawn."
    )
    for side, run in (("A", comparison.a), ("B", comparison.b)):
        if run.bandwidth_interval is None:
            text += f" The board of {side} names no interval of its bandwidth."
    return text


def breakdown_table(comparison: RunComparison) -> Table:
    """Seconds of a video by category under the designs' own policies."""
    return _changes_table("category", [each for each in comparison.breakdown if each.of == OWN])


def policies_table(comparison: RunComparison, name: str) -> Table:
    """A metric of every policy that both have."""
    unit = METRICS[name].unit
    return Table(
        ("policy", f"A [{unit}]", f"B [{unit}]", "difference", "change"),
        tuple((of, *_cells(comparison.change(name, of))) for of in comparison.pairs if of != OWN),
    )


def phases_table(comparison: RunComparison) -> Table:
    """Phases of the own policies, and what limits them."""
    return Table(
        ("phase", "A limited by", "B limited by", "A [s]", "B [s]", "difference"),
        tuple(
            (
                PHASES.get(each.phase, each.phase),
                each.a_limit or "-",
                each.b_limit or "-",
                quantity(each.a_s),
                quantity(each.b_s),
                signed((each.b_s or 0.0) - (each.a_s or 0.0)),
            )
            for each in comparison.phases
        ),
        text_columns=3,
    )


def as_notebook(comparison: RunComparison) -> str:
    """All sections as HTML."""

    def shown_part(part: str | Table) -> str:
        if isinstance(part, str):
            return f"<p>{html.escape(part)}</p>"
        return html_table(part)

    return "".join(
        f"<h4>{html.escape(heading)}</h4>" * bool(heading) + "".join(map(shown_part, parts))
        for heading, parts in sections(comparison)
    )


def shown(value: Any) -> str:
    """A value of a field, in the words of the YAML.

    >>> shown("drs"), shown(None), shown([1, 2]), shown(True)
    ('drs', '-', '[1, 2]', 'true')
    """
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value)
    return shortened(text)


def _changes_table(what: str, changes: list[Change]) -> Table:
    """Changes of the numbers that both runs have, those that are zero in both left out."""
    return Table(
        (what, "A", "B", "difference", "change"),
        tuple(
            (METRICS[each.what].heading if each.what in METRICS else each.what, *_cells(each))
            for each in changes
            if each.difference is not None and (each.a or each.b)
        ),
    )


def _cells(change: Change) -> tuple[str, ...]:
    unit = METRICS[change.what].unit if change.what in METRICS else "s"
    difference = change.difference
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
