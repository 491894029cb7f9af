"""The columns of a result, and the better direction of a metric."""

from typing import Literal

from carsim.errors import InputError
from carsim.metrics import METRICS
from carsim.text import choose
from carsim.yaml_file import shown

RESULT_COLUMNS = ("status", "reason", "seconds", *METRICS)
"""Columns of a frame of results beside ``point`` and the axes. Of ``status``, only ``ok`` is an
answer: ``misfit`` does not fit its board, ``invalid`` is refused, and ``failed`` could not be
evaluated, since processes died of it."""

FLAGS = ("fits",)
"""Those that are true or false."""


def check_metric(name: str, place: str) -> None:
    """Refuse a name that is no metric.

    Raises:
        InputError: Unknown.
    """
    if name not in METRICS:
        cure = choose(name, METRICS, "known are")
        raise InputError(place, f"no metric {shown(name)}", cure)


def direction_of(name: str) -> Literal["min", "max"]:
    """``min`` if a smaller value of a metric is better, else ``max``.

    Raises:
        InputError: Neither is, or it is unknown.
    """
    check_metric(name, "objective")
    better = METRICS[name].better
    if better is None:
        problem = "is neither better large nor small"
        raise InputError(f"objective {name}", problem, "say which: NAME: min or max")
    return "min" if better == "lower" else "max"
