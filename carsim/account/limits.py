"""The limit of each phase, and the array or bandwidth that flips.

For a kind of phase, over a whole run: *compute* is what the core that finishes last computes,
*memory* what its bytes take at the rate that the DRAM sustains, *port* what they take at the rate
of the ports, both for long reads; *dependency* the time that is covered by none of them: latency,
filling and draining, dispatch, waiting at barriers, and what keys gathered from many places lose.
The largest of the four is the limit. The flip is where compute and
bytes would take the same time, everything else equal.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np

from carsim.account.forward_limits import Work, forward_works, named_limit
from carsim.account.simulation import Simulation
from carsim.machine.build import build
from carsim.machine.cases import Cases
from carsim.machine.hardware import of_one_design
from carsim.program.reads import Reads


@dataclass(frozen=True, slots=True)
class PhaseLimit:
    """The limit of one kind of phase; shares are of the phase's own time.

    Attributes:
        phase: Kind of phase.
        share_of_time: Its share of the latency.
        limited_by: ``compute``, ``memory``, ``port`` or ``dependency``; of a forward of a network
            ``products``, ``exponentials``, ``elements``, ``bytes``, ``buffer`` or ``dependency``.
        compute_share: Time of compute alone.
        memory_share: Time of the bytes at the rate of the memory.
        port_share: Time of the bytes at the rate of the ports.
        dependency_share: Time covered by none of them.
        flip_gbps: Bandwidth at which compute and bytes take the same time.
        flip_macs_per_cycle: Array size, all cores, at which they do.
    """

    phase: str
    share_of_time: float
    limited_by: str
    compute_share: float
    memory_share: float
    port_share: float
    dependency_share: float
    flip_gbps: float | None
    flip_macs_per_cycle: float | None

    @property
    def shares(self) -> dict[str, float]:
        """Share of the phase's time that each resource would take alone, by name."""
        return {
            "compute": self.compute_share,
            "memory": self.memory_share,
            "port": self.port_share,
            "dependency": self.dependency_share,
        }

    @property
    def resource(self) -> str:
        """What limits the phase: ``compute``, ``memory``, ``port`` or ``dependency``.

        Limits of a forward have words of their own; bytes are those of memories or of ports.
        """
        if self.limited_by in ("products", "exponentials", "elements"):
            return "compute"
        if self.limited_by in ("bytes", "buffer"):
            return "port" if self.port_share > self.memory_share else "memory"
        return self.limited_by


def phase_limits(simulation: Simulation) -> tuple[PhaseLimit, ...]:
    """The limits of all kinds of phases of a simulation, in the order of a video."""
    hw = simulation.plan.hw
    clock_hz = hw.design.board.fabric_clock_mhz * 1e6
    factor = float(hw.bandwidth_factor)
    limits = []
    works: dict[str, Work] = {}
    if simulation.plan.machine.model.network is not None:
        works = forward_works(simulation.plan)

    def longest(all_bytes: Iterable[int], rates_gbps: Iterable[float]) -> float:
        """Cycles of the memory that takes longest for its bytes."""
        moved = zip(all_bytes, rates_gbps, strict=True)
        return max(nbytes / (gbps * factor * 1e9) * clock_hz for nbytes, gbps in moved)

    for phase, total in simulation.totals.items():
        if not total.cycles:
            continue
        memory = longest(total.dram_bytes, [path.dram_gbps for path in hw.paths])
        port = longest(total.dram_bytes, [path.port_gbps for path in hw.paths])
        compute = float(total.compute_cycles)
        dependency = total.cycles - max(compute, memory, port)
        cycles_of = {
            "compute": compute,
            "memory": memory,
            "port": port,
            "dependency": dependency,
        }
        limited_by = max(cycles_of, key=lambda name: cycles_of[name])
        if phase in works:
            moving = max(memory, port)
            limited_by = named_limit(limited_by, works[phase], cycles=compute, moving=moving)
        macs = hw.design.machine.macs_per_cycle * total.compute_cycles
        limits.append(
            PhaseLimit(
                phase=phase,
                share_of_time=total.cycles / simulation.cycles,
                limited_by=limited_by,
                compute_share=compute / total.cycles,
                memory_share=memory / total.cycles,
                port_share=port / total.cycles,
                dependency_share=dependency / total.cycles,
                flip_gbps=sum(total.dram_bytes) / 1e9 * clock_hz / max(1, total.compute_cycles),
                flip_macs_per_cycle=macs / max(1.0, memory, port),
            )
        )
    return tuple(limits)


class Roofline(NamedTuple):
    """A decode step if one thing alone took time: its bytes, or its multiply-accumulates.

    Attributes:
        gb: GB moved, all memories together.
        bandwidth_ms: Milliseconds of the memory that takes longest for its bytes, at the rate that
            it sustains behind its ports.
        gmacs: 1e9 multiply-accumulates.
        compute_ms: Milliseconds of them at all of the arrays.
    """

    gb: float
    bandwidth_ms: float
    gmacs: float
    compute_ms: float


def roofline(simulation: Simulation) -> Roofline:
    """The roofline of a mean decode step, head included where the design has it."""
    hw = simulation.plan.hw
    steps = simulation.batch_cycles.size * len(simulation.plan.steps)
    activity = simulation.decode_activity
    cycles_per_ms = hw.design.board.fabric_clock_mhz * 1e3
    moving = max(float(activity.dram_bytes[path.name] / path.rate) for path in hw.paths)
    computing = activity.macs / hw.design.machine.macs_per_cycle
    return Roofline(
        gb=sum(activity.dram_bytes.values()) / 1e9 / steps,
        bandwidth_ms=moving / cycles_per_ms / steps,
        gmacs=activity.macs / 1e9 / steps,
        compute_ms=computing / cycles_per_ms / steps,
    )


def shares_by_limit(limits: Iterable[PhaseLimit]) -> dict[str, float]:
    """Limit -> share of the time in phases that it limits, most first."""
    shares: Counter[str] = Counter()
    for limit in limits:
        shares[limit.limited_by] += limit.share_of_time  # type: ignore[assignment]
    return dict(shares.most_common())


def fetch_ahead_share(simulation: Simulation) -> float:
    """Upper bound on the share of latency that fetching ahead across layer phases would save.

    A phase begins with its operands in memory. A machine may fetch for the next phase while the
    memory idles, as much of its first operand as the buffers hold: per kind of phase the lesser of
    the two, summed. The bound is loose. Over 480 drawn designs of two models, what fetching ahead
    really saved was 0.1 % in the median, and below this bound in all of them
    (docs/reference/limits.md).
    """
    plan = simulation.plan
    hw = plan.hw
    if plan.machine.model.network is not None:
        return 0.0  # its phases take far longer than a buffer is filled
    layer = plan.program(decided=False).layers[-1]
    longest = Reads.of_tokens(plan.video.max_context)
    saved = 0.0
    for position, block in enumerate(layer):
        total = simulation.totals[block.name]
        moved = zip(total.dram_bytes, hw.paths, strict=True)
        moving = max(float(nbytes / path.rate) for nbytes, path in moved)
        following = layer[(position + 1) % len(layer)]
        reads = longest if following.reads_tokens else None
        step = build(plan.machine, following, None, Cases(reads)).steps[0]
        buffer_bytes = step.slots * step.tile_bytes
        prefetched_bytes = int(np.minimum(step.stream_bytes, buffer_bytes).sum())
        prefetch_cycles = ceil(prefetched_bytes / of_one_design(step.rate))
        memory_idle_cycles = max(0.0, total.cycles - moving)
        saved += min(total.count * prefetch_cycles, memory_idle_cycles)
    return saved / simulation.cycles
