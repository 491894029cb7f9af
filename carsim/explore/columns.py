"""The columns of a result, and the better direction of a metric."""

from typing import Literal

from carsim.base.errors import InputError
from carsim.metrics import METRICS

OUTCOME = ("status", "reason", "seconds")
"""Columns of a result before its metrics. Of ``status``, only ``ok`` is an answer: ``misfit`` does
not fit its board, ``invalid`` is refused, and ``failed`` could not be evaluated, since processes
died of it."""


def result_columns() -> tuple[str, ...]:
    """Columns of a frame of results beside ``point`` and the axes, with all metrics of today."""
    return (*OUTCOME, *METRICS)


def direction_of(name: str) -> Literal["min", "max"]:
    """``min`` if a smaller value of a metric is better, else ``max``.

    Raises:
        InputError: Neither is, or it is unknown.
    """
    better = METRICS.find(name, f"objective {name}").better
    if better is None:
        problem = "is neither better large nor small"
        raise InputError(f"objective {name}", problem, "say which: NAME: min or max")
    return "min" if better == "lower" else "max"
