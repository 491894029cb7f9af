"""Phases of one streamed step that nothing competes with, many at once and without an event loop.

Nearly all different phases of a run are attention, each at a context length of its own. One lane
executes one step there, and its fetches follow each other, so that the rules of
:mod:`carsim.machine.core` leave nothing open: each flow has its path to itself, at the path's rate
until
the array has begun and no faster than the array from then on. What follows is written down here
flow by flow, for all context lengths at once: figures that depend on the length are arrays
(:mod:`carsim.machine.many`).

It is not another model but the same one solved: every result equals the event loop's to the bit,
which the property tests hold it to. What :func:`is_alone` refuses goes through the event loop
(several lanes or steps, flows beside the stream, ``tile`` fidelity), and so does all that is
observed.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.machine.bench import Ahead, PhaseResult, levelled
from carsim.machine.bound import lanes_bound
from carsim.machine.core import last_tile_cycles
from carsim.machine.ddr import credits_of
from carsim.machine.hardware import Hardware
from carsim.machine.lane import Lead, book
from carsim.machine.lowering import Lane
from carsim.machine.many import Ints, ints, smaller
from carsim.memory import Path
from carsim.workload.ops import CATEGORY_LABELS

Bools = NDArray[np.bool_]


def is_alone(hw: Hardware, lanes: Sequence[Lane], lead_out: Lead | None) -> bool:
    """Whether :func:`run_alone` can tell what phases take.

    Args:
        hw: The hardware.
        lanes: All lanes of the phases.
        lead_out: What may be fetched for the next phase; it must go to the other buffer, where it
            waits for no room.
    """
    if hw.fidelity != "fluid" or len(lanes) != 1 or len(lanes[0].steps) != 1:
        return False
    step = lanes[0].steps[0]
    apart = lead_out is None or lead_out.is_kv != step.is_kv
    # An array that takes no time would end with its fetch, in one cycle with what follows that.
    return apart and step.path >= 0 and not step.sides and bool(np.all(step.cycles > 0))


def run_alone(
    hw: Hardware, lane: Lane, before: Sequence[Ahead], lead_out: Lead | None
) -> list[PhaseResult]:
    """What phases take whose only lane has only one step, see :func:`is_alone`.

    Args:
        hw: The hardware.
        lane: The lane; figures of its step may be arrays, with an element for each phase.
        before: What the phase before each phase has fetched, no more than the operand.
        lead_out: What may be fetched for the next phase.

    Returns:
        A result for each element of ``before``.
    """
    step, count = lane.steps[0], len(before)
    fetch = _Fetch(hw.paths, lane, before)
    moved: list[Any] = [0] * len(hw.paths)
    moved[step.path] = lane.cores * (step.stream_bytes - fetch.held_bytes)
    array_begun: Any = fetch.operand()
    end: Any = np.maximum(array_begun + step.cycles, fetch.now + last_tile_cycles(step))
    ahead = [Ahead()] * count
    if lead_out is not None:
        fetched = fetch.ahead(lead_out, end).tolist()
        left = {nbytes: levelled(nbytes, lead_out.nbytes) for nbytes in set(fetched)}
        ahead = [left[nbytes] for nbytes in fetched]
        moved[lead_out.path] += lane.cores * ints(each.nbytes for each in ahead)
    times: list[Any] = [0] * len(CATEGORY_LABELS)
    book(times, step, 0, array_begun, end)
    bound = lanes_bound(hw, [lane])

    def column(figure: Any) -> Iterable[Any]:
        if isinstance(figure, Sequence):
            return zip(*map(column, figure), strict=True)
        return figure.tolist() if isinstance(figure, np.ndarray) else [figure] * count

    columns = {
        "cycles": end,
        "times": times,
        "compute_cycles": step.pre_cycles + step.cycles,
        "busy_cycles": step.busy_cycles,
        "macs": step.macs,
        "vector_ops": step.vector_ops,
        "sram_bytes": step.sram_bytes,
        "dram_bytes": moved,
        "wasted_bytes": 0,
        "peak_weight_buffer_bytes": 0 if step.is_kv else fetch.peak_bytes,
        "peak_kv_buffer_bytes": fetch.peak_bytes if step.is_kv else 0,
        "bound_cycles": bound.cycles,
        "bound_dram_bytes": bound.dram_bytes,
        "ahead": np.fromiter(ahead, object, count),
    }
    rows = zip(*(column(columns[name]) for name in PhaseResult._fields), strict=True)
    return [PhaseResult._make(row) for row in rows]


class _Fetch:
    """The fetches of a lane, one after the other, for all phases at once.

    Attributes:
        held_bytes: What has been fetched of the operand.
        now: When the last fetch ended.
        peak_bytes: Highest level of the buffer so far.
    """

    def __init__(self, paths: Sequence[Path], lane: Lane, before: Sequence[Ahead]) -> None:
        self.held_bytes = self.peak_bytes = ints(each.nbytes for each in before)
        self.now = ints([0] * len(before))
        self._paths = paths
        self._cores = lane.cores
        self._step = step = lane.steps[0]
        # So that the first request waits for nothing.
        self._streaming: Bools = np.array([each.streaming for each in before])
        self._credits = credits = credits_of(paths[step.path].rate)
        # Credits per cycle, before the array has begun and after.
        self._free = credits.capacity // lane.cores
        self._paced = smaller(self._free, credits.pace(step.stream_bytes, step.cycles))
        self._array_begun: Ints | None = None  # open until the first tile is in
        self._ended = self.now - 1  # a flow that follows without a gap takes what was left over
        self._spare_credits = self.now

    def operand(self) -> Ints:
        """Bring the operand in; returns when the array begins it."""
        step, stream_bytes = self._step, self._step.stream_bytes
        tile_bytes = smaller(stream_bytes, step.tile_bytes)
        short = self.held_bytes < tile_bytes
        self._bring(tile_bytes, short)
        # An array that waits for its first tile takes what follows at once; none waits yet when
        # the phase begins.
        waiting = short & (step.pre_cycles <= self.now)
        self._array_begun = begun = np.maximum(step.pre_cycles, self.now)
        lead_bytes = smaller(stream_bytes, step.buffer_bytes)
        self._bring(lead_bytes, (self.held_bytes < lead_bytes) & ~waiting)
        short = self.held_bytes < stream_bytes
        # There is room for the rest once the array has begun.
        self.now = np.where(short, np.maximum(self.now, begun), self.now)
        self._bring(stream_bytes, short)
        return begun

    def ahead(self, lead: Lead, end: Ints) -> Ints:
        """Bytes that have come in of the next phase's operand when this one ends."""
        begun, spare_credits = self._request(lead.path)
        credits = credits_of(self._paths[lead.path].rate)
        served = spare_credits + credits.capacity // self._cores * (end - begun)
        left = np.maximum(0, lead.nbytes * credits.per_byte - served)
        return np.where(begun < end, lead.nbytes - -(-left // credits.per_byte), 0)

    def _bring(self, until_bytes: int, where: Bools) -> None:
        """Fetch on, in some of the phases, until so much of the operand is held."""
        begun, spare_credits = self._request(self._step.path)
        left = (until_bytes - self.held_bytes) * self._credits.per_byte - spare_credits
        rate: Any = self._free
        if self._array_begun is not None:
            is_paced = begun + -(-left // rate) > self._array_begun
            free_cycles = np.where(is_paced, np.maximum(0, self._array_begun - begun), 0)
            left = left - rate * free_cycles
            begun = begun + free_cycles
            rate = np.where(is_paced, self._paced, rate)
        cycles = np.maximum(0, -(-left // rate))
        self.now = np.where(where, begun + cycles, self.now)
        self._ended = np.where(where, self.now, self._ended)
        self._spare_credits = np.where(where, rate * cycles - left, self._spare_credits)
        self._streaming = self._streaming & ~where
        self.held_bytes = np.where(where, until_bytes, self.held_bytes)
        level_bytes = np.where(where, self.held_bytes - self._read_bytes(), 0)
        self.peak_bytes = np.maximum(self.peak_bytes, level_bytes)

    def _request(self, path: int) -> tuple[Ints, Ints]:
        """When the first byte of a request made now comes in, and what the last flow left over."""
        follows = (self._ended == self.now) & (path == self._step.path)
        at_once = follows | self._streaming
        latency_cycles = np.where(at_once, 0, self._paths[path].latency_cycles)
        return self.now + latency_cycles, np.where(follows, self._spare_credits, 0)

    def _read_bytes(self) -> Ints | int:
        """Bytes of the operand that the array has read by now."""
        if self._array_begun is None:
            return 0
        elapsed = np.maximum(0, self.now - self._array_begun)
        stream_bytes, cycles = self._step.stream_bytes, self._step.cycles
        read: Ints = np.minimum(stream_bytes, -(-stream_bytes * elapsed // cycles))
        return read
