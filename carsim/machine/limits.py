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
from typing import Any, NamedTuple

import numpy as np

from carsim.hardware.schedule import BASELINE
from carsim.machine.builders import BUILDERS
from carsim.machine.cases import AttendCases, MlpCases
from carsim.machine.simulate import LAYER_PHASES, Simulation


@dataclass(frozen=True, slots=True)
class PhaseLimit:
    """The limit of one kind of phase; shares are of the phase's own time.

    Attributes:
        phase: Kind of phase.
        share_of_time: Its share of the latency.
        limited_by: ``compute``, ``memory``, ``port`` or ``dependency``.
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


def phase_limits(simulation: Simulation) -> tuple[PhaseLimit, ...]:
    """The limits of all kinds of phases of a simulation, in the order of a video."""
    hw = simulation.plan.hw
    clock_hz = hw.design.board.fabric_clock_mhz * 1e6
    factor = float(hw.bandwidth_factor)
    limits = []

    def longest(all_bytes: Iterable[int], rates_gbps: Iterable[float]) -> float:
        """Cycles of the memory that takes longest for its bytes."""
        moved = zip(all_bytes, rates_gbps, strict=True)
        return max(nbytes / (gbps * factor * 1e9) * clock_hz for nbytes, gbps in moved)

    for phase, total in simulation.totals.items():
        if not total.cycles:
            continue
        memory = longest(total.dram_bytes, [path.dram_gbps for path in hw.paths])
        port = longest(total.dram_bytes, [path.port_gbps for path in hw.paths])
        by_name = {"compute": float(total.compute_cycles), "memory": memory, "port": port}
        by_name["dependency"] = total.cycles - max(by_name.values())
        macs = hw.design.machine.macs_per_cycle * total.compute_cycles
        limits.append(
            PhaseLimit(
                phase=phase,
                share_of_time=total.cycles / simulation.cycles,
                limited_by=max(by_name, key=lambda name: by_name[name]),
                **{f"{name}_share": cycles / total.cycles for name, cycles in by_name.items()},
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
    hw, steps = simulation.plan.hw, simulation.batch_cycles.size * len(simulation.plan.steps)
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
    for each in limits:
        shares[each.limited_by] += each.share_of_time  # type: ignore[assignment]
    return dict(shares.most_common())


def fetch_ahead_share(simulation: Simulation) -> float:
    """At most this share of the latency would fetching ahead across the phases of layers save.

    A phase begins with its operands in memory. A machine may fetch for the next phase while the
    memory idles, as much of its first operand as the buffers hold: per kind of phase the lesser of
    the two, summed. The bound is loose. Over 480 drawn designs of two models, what fetching ahead
    really saved was 0.1 % in the median, and below this bound in all of them (docs/limits.md).
    """
    plan, hw = simulation.plan, simulation.plan.hw
    longest = np.array([plan.video.max_context])
    given: dict[str, tuple[Any, ...]] = {
        "attention": (None, AttendCases(longest, np.ones_like(longest), longest)),
        "mlp": (BASELINE, MlpCases(np.ones((1, hw.rows), np.bool_), None)),
    }
    saved = 0.0
    for name, following in zip(LAYER_PHASES, (*LAYER_PHASES[1:], LAYER_PHASES[0]), strict=True):
        total = simulation.totals[name]
        moved = zip(total.dram_bytes, hw.paths, strict=True)
        moving = max(float(nbytes / path.rate) for nbytes, path in moved)
        first = BUILDERS[following](hw, *given.get(following, (None,))).steps[0]
        held = int(np.minimum(first.stream_bytes, first.slots * first.tile_bytes).sum())
        saved += min(total.count * ceil(held / first.rate), max(0.0, total.cycles - moving))
    return saved / simulation.cycles
