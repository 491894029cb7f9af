"""Checks of what a schedule from outside answers; see :mod:`carsim.base.answers`."""

from collections.abc import Mapping

import numpy as np

from carsim.base.answers import Check
from carsim.hardware.schedule.base import (
    REPLAYS,
    Bools,
    Cores,
    CyclesOf,
    Registers,
    Schedule,
    slots_per_core,
)


def _assign(answer: Cores, schedule: Schedule, computing: Bools, cores: int) -> str:
    """Problem of an assignment: it leaves out who computes, or overfills a core; or none."""
    assigned = np.asarray(answer)
    if assigned.shape != computing.shape:
        return f"gives cores of shape {assigned.shape} for sequences of shape {computing.shape}"
    if assigned.dtype.kind not in "iu":
        return f"gives cores that are no whole numbers ({assigned.dtype})"
    if ((assigned == REPLAYS) == computing).any():
        return "leaves out a sequence that computes, or gives a core to one that replays"
    if (assigned < REPLAYS).any() or (assigned >= cores).any():
        return f"gives core {assigned.max()} of {cores}, which are counted from 0"
    most = slots_per_core(computing.shape[-1], cores)
    for core in range(cores):
        if ((assigned == core).sum(axis=-1) > most).any():
            return f"gives core {core} more sequences than its {most} slots"
    return ""


def _dispatch_cycles(
    answer: int, schedule: Schedule, registers: Registers, batch: int, cores: int
) -> str:
    """Problem of a dispatcher's cycles: no whole number of at least 0; or none."""
    if not isinstance(answer, int | np.integer) or answer < 0:
        return f"gives {answer!r}: a whole number of cycles, 0 or more, can be"
    return ""


def _fitted(
    answer: Schedule, schedule: Schedule, cycles_of: CyclesOf, batch: int, cores: int
) -> str:
    return "" if isinstance(answer, Schedule) else f"gives {type(answer).__name__}, no schedule"


CHECKS: Mapping[str, Check] = {
    "assign": _assign,
    "dispatch_cycles": _dispatch_cycles,
    "fitted": _fitted,
}
"""Method of a schedule -> check of its answers."""
