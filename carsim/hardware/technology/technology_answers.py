"""Checks of what a technology from outside answers; see :mod:`carsim.base.answers`."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from carsim.base.answers import Check
from carsim.hardware.technology.base import (
    AnyBoard,
    AnyDesign,
    IdlePower,
    Resources,
    Technology,
)


def _amount(what: str, amount: Any) -> str:
    """Check an amount: a finite number of at least 0."""
    if not isinstance(amount, int | float) or not isfinite(amount) or amount < 0:
        return f"gives {what} of {amount!r}: a finite number of at least 0 can be"
    return ""


def _available(answer: Mapping[str, float], technology: Technology, board: AnyBoard) -> str:
    """Problem of a board's amounts: one is missing, or no amount; or none."""
    for name in technology.resource_kinds:
        if name not in answer:
            return f"gives no amount of {name}"
        if problem := _amount(name, answer[name]):
            return problem
    return ""


def _resources(answer: Resources, technology: Technology, design: AnyDesign) -> str:
    """Problem of a design's resources: another name, or no amount; or none."""
    for component, amounts in answer.by_component.items():
        for name, amount in amounts.items():
            if name not in technology.resource_kinds:
                return f"gives {name!r} of {component}, which is none of its resources"
            if problem := _amount(f"{name} of {component}", amount):
                return problem
    return ""


def _idle_power(
    answer: Iterable[IdlePower], technology: Technology, design: AnyDesign, used: Resources
) -> str:
    """Problem of idle powers: one is no amount; or none."""
    problems = (_amount(f"an amount for {power.component}", power.amount) for power in answer)
    return next(filter(None, problems), "")


def _published_clock_mhz(
    answer: float | None, technology: Technology, design: AnyDesign, used: Resources
) -> str:
    return "" if answer is None else _amount("a clock in MHz", answer)


def _warnings(
    answer: Iterable[str], technology: Technology, design: AnyDesign, used: Resources
) -> str:
    """Problem of warnings: one is no text; or none."""
    is_text = all(isinstance(line, str) for line in answer)
    return "" if is_text else "gives a warning that is no text"


CHECKS: Mapping[str, Check] = {
    "available": _available,
    "resources": _resources,
    "idle_power": _idle_power,
    "published_clock_mhz": _published_clock_mhz,
    "warnings": _warnings,
}
"""Method of a technology -> check of its answers."""
