"""Phases in which no core ever waits, for bounds."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from carsim.machine.builders import BUILDERS
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import Ints, Step
from carsim.machine.phase import Outcome, Phase, Timing, outcome
from carsim.machine.phases import Phases


class Unhindered(Phases):
    """Phases in which no core ever waits for a memory, a dispatcher or another core."""

    def _take(self, kind: str, *given: Any) -> Outcome:
        phase = BUILDERS[kind](self.hw, *given)
        found = unhindered(replace(phase, dispatch=None))
        return replace(found, booked=buffer_traffic(self.hw, phase.steps, phase.n))


def buffer_traffic(hw: Hardware, steps: Iterable[Step], n: int) -> Ints:
    """The first lane's traffic through weight buffers and KV buffers, int64[n, 2 x 2 x (1 + M)].

    Of each: compute cycles and bytes by memory; 0 and bytes of one core by memory.
    """
    found = np.zeros((n, 2, 2, 1 + len(hw.paths)), np.int64)
    for step in steps:
        if step.path >= 0:
            cores = np.maximum(1, step.tile_bytes[:, 0] // hw.design.machine.tile_bytes)
            mine = found[:, int(step.is_kv)]
            mine[:, 0, 0] += step.cycles[:, 0]
            mine[:, 0, 1 + step.path] += step.stream_bytes[:, 0]
            mine[:, 1, 1 + step.path] += step.stream_bytes[:, 0] // cores
    return found.reshape(n, -1)


def unhindered(phase: Phase, exchanges: bool = True) -> Outcome:
    """The outcome of n phases in which nobody waits."""
    ended = np.zeros((phase.n, phase.lanes), np.int64)
    times = np.zeros((5, len(phase.steps), *ended.shape), np.int64)
    for step, own in zip(phase.steps, times.swapaxes(0, 1), strict=True):
        own[:4] = ended
        ended = ended + step.pre_cycles + step.cycles - (0 if exchanges else step.exchange_cycles)
        own[4] = ended
    none = np.zeros(phase.n, np.int64)
    return outcome(phase, Timing.of(times, none, none))
