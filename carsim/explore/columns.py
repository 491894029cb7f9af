"""The columns of a result."""

from carsim.metrics import METRICS

OUTCOME = ("status", "reason", "seconds")
"""Columns of a result before its metrics. Of ``status``, only ``ok`` is an answer: ``misfit`` does
not fit its board, ``invalid`` is refused, and ``failed`` could not be evaluated, since processes
died of it."""


def result_columns() -> tuple[str, ...]:
    """Columns of a frame of results beside ``point`` and the axes, with all metrics of today."""
    return (*OUTCOME, *METRICS)
