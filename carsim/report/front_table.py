"""The front of a study as a table, for terminals and pages."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from carsim.base.text import Figure, Table, count, quantity
from carsim.metrics import METRICS
from carsim.metrics.metric import finite
from carsim.report.figures.pareto import heading
from carsim.report.stored_study import StoredStudy

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 200
"""Rows of a table at most; CSV and JSON have all."""


def front_table(study: StoredStudy) -> Table:
    """Points on the front with axes and objectives; the knee is marked."""
    columns = [*study.axes, *study.objectives]
    rows = _different(study).head(MOST_ROWS)
    knees = ["knee" if is_knee else "" for is_knee in rows["knee"]]
    cells = [[_cell(name, finite(value)) for value in rows[name]] for name in columns]
    return Table(
        ("", *map(heading, columns)),
        tuple(zip(knees, *cells, strict=True)),
        strong=frozenset(place for place, knee in enumerate(knees) if knee),
    )


def front_notes(study: StoredStudy) -> Iterator[str]:
    """Notes on the points in the table, a sentence or two each."""
    front, different = study.front, len(_different(study))
    if different < len(front):
        yield f"Of {len(front):,} points, those equal in all objectives are shown once."
    if different > MOST_ROWS:
        yield f"{MOST_ROWS} of {different:,} different points are shown."
    fast = int((front["clock_ratio"] > 1).sum())
    if fast:
        verb = "has a clock" if fast == 1 else "have clocks"
        yield (
            f"{count(fast, 'point')} {verb} beyond published designs (clock_ratio above 1). "
            "The constraint 'clock_ratio <= 1' leaves such points out."
        )


def _different(study: StoredStudy) -> "pd.DataFrame":
    """One point of those that are equal in all objectives, the knee if it is among them."""
    first = study.front.sort_values("knee", ascending=False, kind="stable")
    kept = first.drop_duplicates([*study.objectives]).index
    return study.front.loc[sorted(kept)]


def text_of(name: str, value: Any) -> str:
    """A value of a column as people read it."""
    value = finite(value)
    if name in METRICS:
        return METRICS[name].text(value)
    return f"{value:,.6g}" if isinstance(value, float) else quantity(value)


def _cell(name: str, value: Any) -> str:
    text = text_of(name, value)
    return Figure(text, float(value)) if isinstance(value, int | float) else text
