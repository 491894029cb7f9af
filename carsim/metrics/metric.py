"""What a metric is, and how a figure is taken from a result and written.

A figure is a number (or a short text) of one row of a comparison: one policy on one design.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol, cast

from carsim.account.row import RowResult
from carsim.base.answers import checked, file_of
from carsim.base.errors import InputError
from carsim.base.text import quantity
from carsim.cost.fit import FitReport
from carsim.design import Design
from carsim.hardware.expected import Expected

OTHER_COLUMNS = ("id", "ordinal", "point", "status", "reason", "seconds", "checksum", "knee")
"""Columns of stores and frames that are no metrics."""

Value = bool | int | float | str | None
"""A figure; None where there is none, such as a ratio whose denominator is zero."""


class Run(Protocol):
    """What some figures need beside their row. A ``Report`` is one; so is a :class:`Setting`."""

    @property
    def design(self) -> Design:
        """The design."""

    @property
    def fit(self) -> FitReport:
        """Resources of the board that the design takes."""

    @property
    def dense_latency_s(self) -> float | None:
        """Latency of dense decoding on the same machine; None if it was not simulated."""

    @property
    def expected(self) -> Expected:
        """Time on a real board over the time that is simulated."""


@dataclass(frozen=True)
class Setting:
    """A :class:`Run` for those who simulate single rows, such as sweeps."""

    design: Design
    fit: FitReport
    dense_latency_s: float | None = None

    @cached_property
    def expected(self) -> Expected:
        """Time on a real board over the time that is simulated; 18 metrics ask for it."""
        return self.design.expected


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure: its definition, and the only place that says what it is.

    Attributes:
        name: Stable name in JSON, frames, CSV files and studies.
        unit: ``s``, ``tokens/s``, ``J``, ``W``, ``GB``, ...; ``share`` for a share of 1, ``x`` for
            a ratio, empty for counts and texts.
        title: Short English name for tables.
        meaning: What it is, one sentence.
        formula: How it follows from other metrics or from the simulation.
        better: Which way is better; None if neither is.
        value: Takes it from a row and its run; call :meth:`of` instead.
        of_design: It follows from the design and its fit alone: only the run is looked at.
        shown: ``headline``: in the table of policies, and in all metrics; ``detail``: in all
            metrics (``run`` in full, page); ``no``: in JSON, frames and CSV files alone.
        headline_of: The kind of work, ``video`` or ``text``, whose headline it is; empty for both.
        short: Heading in the table of policies; :attr:`heading` if empty.
        only_for: The kind of work that alone has a figure: ``video`` or ``text``, or ``decoder``
            or ``network`` for what makes it; empty: all.
    """

    name: str
    unit: str
    title: str
    meaning: str
    formula: str
    better: Literal["higher", "lower"] | None
    value: Callable[[RowResult, Run], Value]
    of_design: bool = False
    shown: Literal["headline", "detail", "no"] = "detail"
    headline_of: Literal["video", "text", ""] = ""
    short: str = ""
    only_for: Literal["video", "text", "decoder", "network", ""] = ""

    def __post_init__(self) -> None:
        is_lower = self.name.isidentifier() and self.name == self.name.lower()
        if not is_lower or self.name in OTHER_COLUMNS:
            cure = f"take letters, digits and _, and none of {', '.join(OTHER_COLUMNS)}"
            raise InputError(f"metric {self.name!r}", "is no name of a metric", cure)

    @property
    def heading(self) -> str:
        """Title with unit, for the head of a column or a line."""
        return self.title if self.unit in ("", "share", "x") else f"{self.title} [{self.unit}]"

    def of(self, row: RowResult | None, run: Run) -> Value:
        """The figure, finite.

        Args:
            row: None for a design that was not simulated: only metrics ``of_design`` have a figure.
            run: Its report.
        """
        if row is None and not self.of_design:
            return None
        return finite(self.value(cast(RowResult, row), run))

    def text(self, value: Value, digits: int = 4) -> str:
        """A value as people read it, without its unit."""
        return quantity(value, self.unit, digits)


def with_checked_value(metric: Metric) -> Metric:
    """A metric from outside whose figures are checked, so that a wrong one is refused by name."""
    if hasattr(metric.value, "is_checked"):
        return metric
    place = f"metric {metric.name!r}{file_of(metric.value)}"
    return replace(metric, value=checked(metric.value, place, _check_figure))


def _check_figure(value: Any, row: RowResult, run: Run) -> str:
    value = value.item() if hasattr(value, "item") else value
    if value is None or isinstance(value, bool | int | float | str):
        return ""
    return f"gives {type(value).__name__}: a number, a truth value, a text or None can be"


def finite(value: Any) -> Any:
    """A plain Python value; None instead of a number that is not finite."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
