"""Fidelity ``fluid``: the times of many phases at once, solved in NumPy.

Model: the machine of :mod:`carsim.machine.play`, tile for tile. A lane fetches its operands into a
double buffer of m slots. With latency L, service time s(b) of b bytes, and C(k) compute cycles of
an operand's first k tiles, tile k = 1, 2, ... of an operand is

* requested at I(k) = max(I(k-1), F(k-m)), once the slot of tile k - m is free;
* complete at S(k) = max(S(k-1), I(k) + L) + s(tile k);
* computed at F(k) = max(F(k-1), ceil S(k)) + C(k) - C(k-1).

The m tiles of a full buffer wait for nothing but the slots of the m tiles before them, so that they
are solved together: S(k) = X(k) + s(bytes up to k) and F(k) = Y(k) + C(k), where X and Y are
running maxima (:mod:`carsim.machine.solve.tile_flow`).

After two buffers of an operand its pace has settled: X is constant if memory sets the pace, and Y
is constant if the array does. So the solver jumps to the operand's last m tiles, and its work does
not grow with the operand. If the buffer is too small to cover the latency, X and Y grow by the
period (L + s + c) / m a tile in between, without rounding.

The times are equal to the bit to those of the SimPy machine where ``is_exact`` in
``tests/machine/test_ladder.py`` says so.

Simplifications:

* Lanes that share a memory keep the turn in which they began
  (:mod:`carsim.machine.solve.operand`).
* A lane that is slower than its share of the memory leaves the rest of that share unused.
* Lanes wait for the tiles of the others in the present operand, not for tiles of operands behind
  it.
* In a buffer with more than :data:`~carsim.machine.solve.operand.MOST_ROWS` slots, that many slots
  are followed.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from carsim.machine.across import most_across, sum_across
from carsim.machine.hardware import Rate, Rates, served
from carsim.machine.lanes import LaneOp
from carsim.machine.phase import Phase, ReplayWork, Timing
from carsim.machine.solve.axes import LaneInts, PhaseInts
from carsim.machine.solve.operand import MOST_ROWS
from carsim.machine.solve.stepper import LaneStepper, StepTimes, in_units
from carsim.machine.solve.tile_flow import BEFORE_ALL

TILES_AT_ONCE = 1 << 16
"""Lanes times tiles that are solved together: arrays of a megabyte bound the use of memory."""

# Once glibc has given back a block of nearly 32 MiB, it keeps smaller blocks for later arrays. Else
# it may map each array anew, page by page: a sweep with private weights took 5 % longer.
np.empty((1 << 25) - (1 << 13), np.uint8)


class _Replays(NamedTuple):
    """Times of the replays of n phases, [n] each.

    Attributes:
        ends: Cycle at which they are done; 0 without one.
        memory_free: When they leave their memory, in units of 1 / rate.numerator cycles.
    """

    ends: PhaseInts
    memory_free: PhaseInts


def solve(phase: Phase) -> Timing:
    """Times of each step of each lane of n phases."""
    replays = _replays(phase)
    # [5, steps, n, K]: five times as in :class:`StepTimes`.
    times = np.empty((len(StepTimes._fields), len(phase.steps), phase.n, phase.lanes), np.int64)
    for phases in _portions(phase):
        stepper = _stepper(phase, phases, replays)
        for number, step in enumerate(phase.steps):
            step_times = StepTimes._make(times[:, number, phases])
            stepper.execute(_step_of(step, phases), step_times)
    if phase.dispatch is not None and phase.dispatch.queues is not None and phase.steps:
        cycles_alone = _cycles_alone(phase)
        queue_ends = phase.dispatch.queues.ends(cycles_alone, phase.dispatch.known_cycles)
        ends = times[-1, -1]
        is_at_work = ends > times[0, 0]
        # A lane that waits for instructions does all its work later.
        times += np.where(is_at_work, (queue_ends - ends).clip(0), 0)
    sides_end = _sides_end(phase, step_start=times[0], replays_free=replays.memory_free)
    sides_end = np.maximum(sides_end, _memory_bound(phase))
    return Timing.of(times, sides_end, replays.ends)


def _replays(phase: Phase) -> _Replays:
    """Ends of the replays of n phases, which are the first to be served by their memory."""
    replay = phase.replay
    if replay is None:
        return _Replays(np.zeros(phase.n, np.int64), np.full(phase.n, BEFORE_ALL))
    numerator, denominator = _flat(replay.rate)
    has_replays = replay.nbytes > 0
    first_byte = phase.exposed_cycles + np.ravel(phase.latencies[replay.path])
    read_end = first_byte + served(replay.rate, replay.nbytes)
    ends = (read_end + replay.add_cycles) * has_replays
    if phase.early_fetch:
        # Operands that are fetched early come before the replays. The solver lets them wait for the
        # service of the replays, at the beginning of the phase.
        first_byte = first_byte - phase.exposed_cycles
    memory_free = first_byte * numerator + replay.nbytes * denominator
    return _Replays(ends, np.where(has_replays, memory_free, BEFORE_ALL))


def _portions(phase: Phase) -> list[slice]:
    """Phases that are solved together, so that no array has more than TILES_AT_ONCE tiles."""
    slots = max((step.slots for step in phase.steps if step.path >= 0), default=1)
    tiles_of_phase = phase.lanes * min(slots, MOST_ROWS)
    size = max(1, TILES_AT_ONCE // tiles_of_phase)
    return [slice(first, first + size) for first in range(0, phase.n, size)]


def _stepper(phase: Phase, phases: slice, replays: _Replays) -> LaneStepper:
    """The lanes of some of n phases at their beginning.

    Args:
        phase: The n phases.
        phases: The wanted ones.
        replays: Replays of the n phases.
    """
    exposed = phase.exposed_cycles[phases, None]
    shape = (len(exposed), phase.lanes)
    start = np.broadcast_to(exposed, shape)
    fetch_start = np.zeros(shape, np.int64) if phase.early_fetch else start
    latencies = [_phases_of(latency, phases) for latency in phase.latencies]
    stepper = LaneStepper(latencies, start, fetch_start)
    if phase.replay is not None:
        memory_free = np.broadcast_to(replays.memory_free[phases, None], shape)
        stepper.occupy(phase.replay.path, _rate_of(phase.replay.rate, phases), memory_free)
    return stepper


def _step_of(step: LaneOp, phases: slice) -> LaneOp:
    """A step of some of n phases, with the figures that decide its timing."""
    return step._replace(
        pre_cycles=_phases_of(step.pre_cycles, phases),
        cycles=_phases_of(step.cycles, phases),
        stream_bytes=_phases_of(step.stream_bytes, phases),
        tile_bytes=_phases_of(step.tile_bytes, phases),
        rate=_rate_of(step.rate, phases),
    )


def _rate_of(rate: Rate, phases: slice) -> Rate:
    """The rate of some of n phases; one fraction stands for all."""
    if isinstance(rate, Rates):
        return Rates(_phases_of(rate.numerator, phases), _phases_of(rate.denominator, phases))
    return rate


def _phases_of(figure: LaneInts, phases: slice) -> LaneInts:
    """A figure of some of n phases, [n, ...]; a number or a single row stands for all."""
    is_alike = np.ndim(figure) == 0 or len(figure) == 1
    return figure if is_alike else figure[phases]


def _flat(rate: Rate) -> Rates:
    """A rate with int64[n], or [1]."""
    return Rates(np.ravel(rate.numerator), np.ravel(rate.denominator))


def _cycles_alone(phase: Phase) -> LaneInts:
    """Cycles of each lane if it had every memory to itself and no latency, [n, K]."""
    cycles = np.zeros((phase.n, phase.lanes), np.int64)
    for step in phase.steps:
        service = -(-step.stream_bytes * step.rate.denominator // step.rate.numerator)
        cycles += np.maximum(step.pre_cycles + step.cycles, service)
    return cycles


class _Transfer(NamedTuple):
    """Bytes that n phases move between a memory and the machine.

    Attributes:
        path: Index of the memory.
        rate: Its rate for them.
        nbytes: Bytes of each lane, [n, K], or of all, [n, 1].
    """

    path: int
    rate: Rate
    nbytes: LaneInts


def _reads(phase: Phase) -> list[_Transfer]:
    """Operands and replays, which wait for the latency of their memory."""
    reads = [
        _Transfer(step.path, step.rate, step.stream_bytes) for step in phase.steps if step.path >= 0
    ]
    replay: ReplayWork | None = phase.replay
    if replay is not None:
        reads.append(_Transfer(replay.path, replay.rate, replay.nbytes[:, None]))
    return reads


def _memory_bound(phase: Phase) -> PhaseInts:
    """Earliest cycle at which each memory can have moved all bytes of n phases, [n].

    Reads begin a latency after the phase. Writes beside the operands are posted.
    """
    reads = _reads(phase)
    writes = [_Transfer._make(side) for step in phase.steps for side in step.sides]
    transfers = reads + writes
    begin = np.zeros(phase.n, np.int64) if phase.early_fetch else phase.exposed_cycles
    bound = np.zeros(phase.n, np.int64)
    for path in {transfer.path for transfer in transfers}:
        read_cycles = _service_cycles([read for read in reads if read.path == path], phase.n)
        all_cycles = _service_cycles(
            [transfer for transfer in transfers if transfer.path == path], phase.n
        )
        latency = np.ravel(phase.latencies[path]) * (read_cycles > 0)
        end = begin + np.maximum(read_cycles + latency, all_cycles)
        bound = np.maximum(bound, end * (all_cycles > 0))
    return bound


def _service_cycles(transfers: Sequence[_Transfer], n: int) -> PhaseInts:
    """Least cycles that one memory takes for transfers at several rates, [n]."""
    bytes_at_rate: dict[int, tuple[Rate, PhaseInts]] = {}
    for transfer in transfers:
        key = id(transfer.rate)
        _, nbytes = bytes_at_rate.get(key, (transfer.rate, np.zeros(n, np.int64)))
        bytes_at_rate[key] = transfer.rate, nbytes + sum_across(transfer.nbytes)
    # The sum for each rate is rounded up, but together they are rounded once.
    rounding = max(0, len(bytes_at_rate) - 1)
    cycles: PhaseInts = np.full(n, -rounding)
    for rate, nbytes in bytes_at_rate.values():
        cycles += served(rate, nbytes)
    return cycles.clip(0)


def _sides_end(phase: Phase, step_start: LaneInts, replays_free: PhaseInts) -> PhaseInts:
    """End of the last transfer beside the operands, [n]; memories serve them step by step.

    Args:
        phase: The n phases.
        step_start: Cycles at which their lanes came to each step, [steps, n, K].
        replays_free: When replays leave their memory, in units of service, [n].
    """
    end = np.zeros(phase.n, np.int64)
    # By memory: its last rate, and when it is free in units of service at that rate, [n].
    memory_free: dict[int, tuple[Rate, PhaseInts]] = {}
    if phase.replay is not None:
        memory_free[phase.replay.path] = _flat(phase.replay.rate), replays_free
    for step, start in zip(phase.steps, step_start, strict=True):
        for path, side_rate, nbytes in step.sides:
            rate = _flat(side_rate)
            # A transfer starts when the last lane that has a part of it comes to the step.
            last_lane = most_across(np.where(nbytes > 0, start, 0))
            start = last_lane * rate.numerator
            if path in memory_free:
                last_rate, free = memory_free[path]
                start = np.maximum(start, in_units(last_rate, free, rate))
            served_units = start + sum_across(nbytes) * rate.denominator
            memory_free[path] = rate, served_units
            end = np.maximum(end, -(-served_units // rate.numerator))
    return end
