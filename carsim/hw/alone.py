"""A phase of one streamed step that nothing competes with: the event loop's result without it.

Nine in ten different phases of a run are attention at one context length each. One lane executes
one step there, and its fetches follow each other, so that the rules of
:mod:`carsim.hw.core` leave nothing to chance: each flow has its path to itself, at the path's rate
until the array has begun and no faster than the array from then on. What follows from that can be
written down flow by flow.

It is not another model but the same one solved: every result equals the event loop's to the bit,
which the property tests hold it to. Phases of several lanes, several steps or flows beside the
stream go through the event loop, and so does everything that is observed.
"""

from collections.abc import Sequence

from carsim.hw.bench import Ahead, PhaseResult, levelled
from carsim.hw.bound import Bound
from carsim.hw.core import last_tile_cycles, read_bytes
from carsim.hw.ddr import credits_of
from carsim.hw.hardware import Hardware, Path
from carsim.hw.lane import Lead, book
from carsim.hw.lowering import Lane
from carsim.workload.ops import CATEGORY_LABELS


def is_alone(hw: Hardware, lanes: Sequence[Lane], lead_out: Lead | None) -> bool:
    """Whether :func:`run_alone` can tell what a phase takes.

    Args:
        hw: The hardware.
        lanes: All lanes of the phase.
        lead_out: What may be fetched for the next phase; it must go to the other buffer, where it
            waits for no room.
    """
    if hw.fidelity != "fluid" or len(lanes) != 1 or len(lanes[0].steps) != 1:
        return False
    step = lanes[0].steps[0]
    apart = lead_out is None or lead_out.is_kv != step.is_kv
    # An array that takes no time would end with its fetch, in one cycle with what follows that.
    return apart and step.path >= 0 and not step.sides and step.cycles > 0


def run_alone(
    hw: Hardware, lane: Lane, before: Ahead, lead_out: Lead | None, bound: Bound
) -> PhaseResult:
    """What a phase takes whose only lane has only one step, see :func:`is_alone`.

    Args:
        hw: The hardware.
        lane: The lane.
        before: What the phase before has fetched.
        lead_out: What may be fetched for the next phase.
        bound: What no schedule can beat.
    """
    step = lane.steps[0]
    fetch = _Fetch(hw.paths, lane, before)
    array_begun = fetch.operand()
    end = max(array_begun + step.cycles, fetch.now + last_tile_cycles(step))
    ahead = Ahead() if lead_out is None else fetch.ahead(lead_out, end)
    moved = [0] * len(hw.paths)
    moved[step.path] += lane.cores * (step.stream_bytes - before.nbytes)
    if lead_out is not None:
        moved[lead_out.path] += lane.cores * ahead.nbytes
    times = [0] * len(CATEGORY_LABELS)
    book(times, step, 0, array_begun, end)
    return PhaseResult(
        cycles=end,
        times=tuple(times),
        compute_cycles=step.pre_cycles + step.cycles,
        busy_cycles=step.busy_cycles,
        macs=step.macs,
        vector_ops=step.vector_ops,
        sram_bytes=step.sram_bytes,
        dram_bytes=tuple(moved),
        wasted_bytes=0,
        peak_weight_buffer_bytes=0 if step.is_kv else fetch.peak_bytes,
        peak_kv_buffer_bytes=fetch.peak_bytes if step.is_kv else 0,
        bound_cycles=bound.cycles,
        bound_dram_bytes=bound.dram_bytes,
        ahead=ahead,
    )


class _Fetch:
    """The fetches of a lane, one after the other.

    Attributes:
        now: When the last of them ended.
        peak_bytes: Highest level of the buffer so far.
    """

    def __init__(self, paths: Sequence[Path], lane: Lane, before: Ahead) -> None:
        self.now = 0
        self.peak_bytes = before.nbytes
        self._paths = paths
        self._cores = lane.cores
        self._step = step = lane.steps[0]
        self._held_bytes = before.nbytes
        self._streaming = before.streaming  # so that the first request waits for nothing
        self._credits = credits = credits_of(paths[step.path].rate)
        # Credits per cycle, before the array has begun and after.
        self._free = credits.capacity // lane.cores
        self._paced = min(self._free, credits.pace(step.stream_bytes, step.cycles))
        self._array_begun: int | None = None  # open until the first tile is in
        self._ended = -1  # the last flow; one that follows without a gap takes what it left over
        self._spare_credits = 0

    def operand(self) -> int:
        """Bring the operand in; returns when the array begins it."""
        step, stream_bytes = self._step, self._step.stream_bytes
        tile_bytes = min(stream_bytes, step.tile_bytes)
        waiting = False  # the array, for the operand; nothing waits yet when the phase begins
        if self._held_bytes < tile_bytes:
            self._bring(tile_bytes)
            waiting = step.pre_cycles <= self.now
        self._array_begun = begun = max(step.pre_cycles, self.now)
        lead_bytes = min(stream_bytes, step.buffer_bytes)
        if self._held_bytes < lead_bytes and not waiting:
            self._bring(lead_bytes)
        if self._held_bytes < stream_bytes:
            self.now = max(self.now, begun)  # only then is there room for the rest
            self._bring(stream_bytes)
        return begun

    def ahead(self, lead: Lead, end: int) -> Ahead:
        """What has come in of the next phase's operand when this one ends."""
        begun, spare_credits = self._request(lead.path)
        if begun >= end:
            return levelled(0, lead.nbytes)
        credits = credits_of(self._paths[lead.path].rate)
        served = spare_credits + credits.capacity // self._cores * (end - begun)
        left = max(0, lead.nbytes * credits.per_byte - served)
        return levelled(lead.nbytes - -(-left // credits.per_byte), lead.nbytes)

    def _bring(self, until_bytes: int) -> None:
        """Fetch on until so much of the operand is held."""
        step, switch = self._step, self._array_begun
        begun, spare_credits = self._request(step.path)
        left = (until_bytes - self._held_bytes) * self._credits.per_byte - spare_credits
        rate = self._free
        if switch is not None and begun + -(-left // rate) > switch:
            if begun < switch:
                left -= rate * (switch - begun)
                begun = switch
            rate = self._paced
        cycles = max(0, -(-left // rate))
        self._spare_credits = rate * cycles - left
        self.now = self._ended = begun + cycles
        self._held_bytes = until_bytes
        self.peak_bytes = max(self.peak_bytes, until_bytes - self._read_bytes())

    def _request(self, path: int) -> tuple[int, int]:
        """When the first byte of a request made now comes in, and what the last flow left over."""
        follows = self._ended == self.now and path == self._step.path
        latency_cycles = self._paths[path].latency_cycles
        if follows or self._streaming:
            latency_cycles = 0
        self._streaming = False
        return self.now + latency_cycles, self._spare_credits if follows else 0

    def _read_bytes(self) -> int:
        """Bytes of the operand that the array has read by now."""
        step, begun = self._step, self._array_begun
        if begun is None or self.now < begun:
            return 0
        return read_bytes(step, self.now - begun)
