"""The lanes of many phases on their way through the steps, solved without events.

Shapes are [n, K] for n phases of K lanes, in cycles of the phase unless said otherwise.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from carsim.machine.hardware import Rate
from carsim.machine.lanes import LaneOp
from carsim.machine.solve.axes import LaneInts, LaneMask, TileInts
from carsim.machine.solve.operand import MOST_ROWS, Operand
from carsim.machine.solve.tile_flow import BEFORE_ALL, TileFlow


class StepTimes(NamedTuple):
    """Times of one step, [n, K] each, with the fields of :class:`~carsim.machine.phase.Timing`."""

    step_start: LaneInts
    fetch_start: LaneInts
    array_start: LaneInts
    fetch_end: LaneInts
    step_end: LaneInts


class _MemoryFree(NamedTuple):
    """Time at which a memory has served all requests so far.

    Attributes:
        rate: Its rate for the last of them.
        units: The time, in units of 1 / rate.numerator cycles, [n, K].
    """

    rate: Rate
    units: LaneInts


class LaneStepper:
    """The K lanes of n phases, which execute one step after the other.

    Args:
        latencies: Cycles from request to first byte, by memory: one number, or [n, 1].
        start: Cycle from which lanes may compute, [n, K].
        fetch_start: Cycle from which they may fetch, [n, K].
    """

    def __init__(
        self, latencies: Sequence[LaneInts | int], start: LaneInts, fetch_start: LaneInts
    ) -> None:
        self._latencies = latencies
        self._now = start
        self._last_request = fetch_start
        self._memory_free: dict[int, _MemoryFree] = {}
        # By memory: the lanes that have fetched from it.
        self._has_fetched: dict[int, LaneMask] = {}
        # By buffer (weights or KV): when its slots are free, in their turn.
        self._slots_free: dict[bool, TileInts] = {}

    def occupy(self, path: int, rate: Rate, free_units: LaneInts) -> None:
        """Occupy a memory until a time.

        Args:
            path: Index of the memory.
            rate: Its rate until then.
            free_units: The time, in units of 1 / rate.numerator cycles, [n, K].
        """
        self._memory_free[path] = _MemoryFree(rate, free_units)

    def execute(self, step: LaneOp, times: StepTimes) -> None:
        """Execute a step, and write its times.

        Args:
            step: The step.
            times: Arrays to write to.
        """
        array_start = self._now + step.pre_cycles
        # Lanes without an operand fetch nothing, at the beginning of the step.
        times.step_start[:] = self._now
        times.fetch_start[:] = self._now
        times.array_start[:] = array_start
        times.fetch_end[:] = self._now
        times.step_end[:] = array_start + step.cycles
        if step.path >= 0 and step.stream_bytes.any():
            operand = Operand(step, self._latencies[step.path])
            self._stream(step, operand, array_start=array_start, times=times)
        self._now = times.step_end

    def _stream(
        self, step: LaneOp, operand: Operand, *, array_start: LaneInts, times: StepTimes
    ) -> None:
        """Fetch and compute an operand, and write the times of the lanes that have one.

        Args:
            step: The step that reads it.
            operand: The operand.
            array_start: Cycle from which the array may begin.
            times: Arrays to write to.
        """
        has_operand = operand.count > 0
        last_request = self._last_request
        if step.held_back:
            last_request = np.maximum(last_request, array_start)
        memory_free = self._free_units(step)
        slots_free = self._slots_free.get(step.is_kv)
        if slots_free is None:
            rows = min(operand.slots, MOST_ROWS)
            slots_free = np.full((rows, *array_start.shape), BEFORE_ALL)
        flow = TileFlow(
            operand,
            last_request=last_request,
            service_start=self._service_start(step.path, operand, last_request, memory_free),
            compute_start=array_start,
            slots_free=slots_free,
        )
        first_tile = flow.pass_all()

        count = operand.count
        arrived = flow.service_start + operand.service(np.maximum(count - 1, 0), count)
        fetch_end = -(-arrived // operand.numerator)
        step_end = flow.compute_start + operand.cycles
        np.copyto(times.fetch_start, first_tile.requested, where=has_operand)
        np.copyto(times.array_start, first_tile.computing, where=has_operand)
        np.copyto(times.fetch_end, fetch_end, where=has_operand)
        np.copyto(times.step_end, step_end, where=has_operand)

        # The memory is free once all lanes have had their last tile.
        served = flow.service_start + operand.service(count, count)
        self.occupy(step.path, step.rate, np.where(has_operand, served, memory_free))
        self._slots_free[step.is_kv] = np.where(has_operand, flow.slots_free, slots_free)
        self._last_request = np.where(has_operand, flow.last_request, self._last_request)

    def _free_units(self, step: LaneOp) -> LaneInts:
        """Time at which the memory of a step is free, in units of service of this step."""
        if step.path not in self._memory_free:
            return np.full(self._now.shape, BEFORE_ALL)
        memory = self._memory_free[step.path]
        return in_units(memory.rate, memory.units, step.rate)

    def _service_start(
        self, path: int, operand: Operand, last_request: LaneInts, memory_free: LaneInts
    ) -> LaneInts:
        """Earliest start of service of an operand, in units of service; marks the memory as used.

        Args:
            path: The memory.
            operand: The operand.
            last_request: Cycle from which the operand may be requested.
            memory_free: When the memory is free, in units of service.
        """
        has_operand = operand.count > 0
        has_fetched = self._has_fetched.get(path, np.zeros((), np.bool_))
        self._has_fetched[path] = has_operand | has_fetched
        # When lanes fetch from a memory for the first time, they all do so at once, and each waits
        # for the tiles of the others. So its service starts no earlier than the first byte.
        first_byte = (last_request + operand.latency) * operand.numerator
        return np.where(has_fetched, memory_free, np.maximum(memory_free, first_byte))


def in_units(old_rate: Rate, time: LaneInts, rate: Rate) -> LaneInts:
    """A time in units of 1 / rate.numerator cycles.

    Another access pattern begins with a whole cycle: the time is rounded up if the rate changes.

    Args:
        old_rate: Rate of the units that ``time`` has.
        time: The time.
        rate: Rate of the units that are wanted.
    """
    if old_rate is rate:
        return time
    is_unchanged = (old_rate.numerator == rate.numerator) & (
        old_rate.denominator == rate.denominator
    )
    whole_cycles = np.where(time > BEFORE_ALL, -(-time // old_rate.numerator), 0)
    return np.where(is_unchanged | (time == BEFORE_ALL), time, whole_cycles * rate.numerator)
