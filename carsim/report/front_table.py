"""The front of a study as a table, for terminals and pages."""

from typing import Any

from carsim.base.text import Figure, Table, quantity
from carsim.metrics import METRICS
from carsim.metrics.metric import finite
from carsim.report.figures.pareto import heading
from carsim.report.stored_study import StoredStudy

MOST_ROWS = 200
"""Rows of a table at most; CSV and JSON have all."""


def front_table(study: StoredStudy) -> Table:
    """Points on the front with axes and objectives; the knee is marked."""
    columns = [*study.axes, *study.objectives]
    rows = study.front.head(MOST_ROWS)
    knees = ["knee" if is_knee else "" for is_knee in rows["knee"]]
    cells = [[_cell(name, finite(value)) for value in rows[name]] for name in columns]
    return Table(
        ("", *map(heading, columns)),
        tuple(zip(knees, *cells, strict=True)),
        strong=frozenset(place for place, knee in enumerate(knees) if knee),
    )


def text_of(name: str, value: Any) -> str:
    """A value of a column as people read it."""
    value = finite(value)
    if name in METRICS:
        return METRICS[name].text(value)
    return f"{value:,.6g}" if isinstance(value, float) else quantity(value)


def _cell(name: str, value: Any) -> str:
    text = text_of(name, value)
    return Figure(text, float(value)) if isinstance(value, int | float) else text
