"""What no schedule can beat: the least over all assignments of the later of compute and bytes.

For one phase and one assignment of sequences to cores, no execution is shorter than the compute of
its fullest core, nor than its bytes over the rate of the memory they come from. Operands that the
phase before may already have fetched - at most what the buffers hold - are left out of the bytes.
The bound of a run is the sum over its phases of the least such time over the assignments that the
slots of the cores admit. It charges nothing for latency, dispatch, exchange or imbalance.
"""

from collections.abc import Sequence
from typing import NamedTuple

from carsim.machine.hardware import Hardware
from carsim.machine.lowering import Lane
from carsim.machine.many import larger, smaller


class Bound(NamedTuple):
    """Least time of a phase, and the bytes by memory that the assignment with that time moves."""

    cycles: int
    dram_bytes: tuple[int, ...]


def lanes_bound(
    hw: Hardware, lanes: Sequence[Lane], further_bytes: tuple[int, int] | None = None
) -> Bound:
    """Least time of a phase with these lanes.

    Args:
        hw: The hardware.
        lanes: The assignment, lowered.
        further_bytes: (Memory index, bytes) that the phase moves besides, such as replays.
    """
    compute = 0
    nbytes = [0] * len(hw.paths)
    ahead = [0] * len(hw.paths)
    for lane in lanes:
        own = sum([step.pre_cycles + step.cycles - step.exchange_cycles for step in lane.steps])
        compute = larger(compute, own)
        for index, step in enumerate(lane.steps):
            if step.path >= 0:
                nbytes[step.path] += lane.cores * step.stream_bytes
                if index == 0:
                    ahead[step.path] += lane.cores * smaller(step.stream_bytes, step.buffer_bytes)
            for path, side_bytes in step.sides:
                nbytes[path] += lane.cores * side_bytes
    if further_bytes is not None:
        nbytes[further_bytes[0]] += further_bytes[1]
    least = compute
    for total, early, way in zip(nbytes, ahead, hw.paths, strict=True):
        streaming = -(-(total - early) * way.rate.denominator // way.rate.numerator)
        least = larger(least, streaming)
    return Bound(least, tuple(nbytes))


def assignments(hw: Hardware, computing: int) -> list[tuple[int, ...]]:
    """Loads worth considering for ``computing`` sequences: spread evenly over u cores, for each u.

    With broadcast weights or split matrices, bytes do not depend on u and the widest spread wins;
    with private weights each further core costs a stream.
    """
    cores = hw.design.machine.cores
    if not computing:
        return [(0,) * cores]
    most = min(cores, computing)
    least = most if hw.is_lockstep else -(-computing // hw.slots)
    return [
        tuple(computing // u + (c < computing % u) if c < u else 0 for c in range(cores))
        for u in range(least, most + 1)
    ]
