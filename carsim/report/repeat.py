"""A stored run and its repetition: are the figures the same, and what has changed since."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from carsim.base.text import Figure, Table, signed_percent
from carsim.metrics import METRICS
from carsim.report.compare import Difference, differences
from carsim.report.compare_words import field_text
from carsim.report.run_words import Section
from carsim.report.stored import StoredRun

SAME = 1e-9
"""Relative change of a figure that does not count: other libraries may round otherwise."""

MOST_ROWS = 20
"""Figures that are printed; JSON has all."""


class Repetition(NamedTuple):
    """The outcome of a repetition.

    Attributes:
        figures: Figures that were compared.
        moved: Those that differ, as ``POLICY: METRIC``.
        changed: Inputs, hashes and versions that differ.
    """

    figures: int
    moved: tuple[Difference, ...]
    changed: tuple[Difference, ...]

    def document(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "same": not self.moved,
            "figures": self.figures,
            "moved": [difference._asdict() for difference in self.moved],
            "changed": [difference._asdict() for difference in self.changed],
        }

    def sections(self) -> Iterator[Section]:
        """Figures that differ and what has changed, in words and tables."""
        if self.moved:
            yield "", [f"{len(self.moved):,} of {self.figures:,} figures differ."]
            yield "Figures", [_figures_table(self.moved[:MOST_ROWS])]
        else:
            yield "", [f"All {self.figures:,} figures are the same."]
        if self.changed:
            yield "What has changed", [_table(self.changed)]
        elif self.moved:
            nothing = "Nothing in design, traces, seed, code, plugins and versions."
            yield "What has changed", [nothing]


def _table(differing: Iterable[Difference]) -> Table:
    """Stored and new values of what differs."""
    rows = [
        (difference.path, field_text(difference.a), field_text(difference.b))
        for difference in differing
    ]
    return Table(("what", "stored", "now"), tuple(rows))


def _figures_table(moved: Iterable[Difference]) -> Table:
    """Stored and new figures, with their relative change."""
    rows = []
    for figure in moved:
        change = _relative_change(figure)
        text = "-" if change is None else signed_percent(change)
        row = (figure.path, field_text(figure.a), field_text(figure.b), Figure(text, change))
        rows.append(row)
    return Table(("what", "stored", "now", "change"), tuple(rows))


def _relative_change(figure: Difference) -> float | None:
    """New over stored figure, less 1; None unless both are numbers and the stored one is not 0."""
    numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool)
        for value in (figure.a, figure.b)
    )
    return figure.b / figure.a - 1 if numbers and figure.a else None


def repetition(before: StoredRun, now: StoredRun) -> Repetition:
    """Compare every figure of every policy, and everything that the run depends on."""
    figures = _figures(before)
    apart = differences(figures, _figures(now))
    moved = [figure for figure in apart if not _is_same(figure.a, figure.b)]
    changed = differences(_depends_on(before), _depends_on(now))
    compared = sum(value is not None for value in figures.values())
    return Repetition(compared, tuple(moved), tuple(changed))


def _figures(run: StoredRun) -> dict[str, Any]:
    """Policy and metric -> its value."""
    figures = {}
    for policy in run.policies:
        for metric in METRICS:
            figures[f"{policy.policy}: {metric}"] = policy.get(metric)
    return figures


def _is_same(a: Any, b: Any) -> bool:
    """Whether two figures are equal, but for rounding."""
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= SAME * abs(a)
    return bool(a == b)


def _depends_on(run: StoredRun) -> dict[str, Any]:
    manifest = run.manifest.model_dump(exclude={"command"})
    traces = {trace.name: trace.sha256 for trace in run.traces}
    return {"traces": traces, "seed": run.resampling_seed} | manifest
