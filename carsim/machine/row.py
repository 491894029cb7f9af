"""One row of a comparison: a policy simulated on a design, and every quantity that follows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from carsim.base.units import GB
from carsim.cost.energy import EnergyReport, Joules, energy
from carsim.cost.fit import FitReport
from carsim.design import Design
from carsim.hardware.mapping import MAPPINGS
from carsim.machine.batches import Batches
from carsim.machine.booking import accounts
from carsim.machine.limits import PhaseLimit, Roofline, phase_limits, roofline
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.machine.simulate import Simulation, simulate, simulate_designs
from carsim.machine.variants import Variant
from carsim.workload.geometry import Video
from carsim.workload.ops import CATEGORY_LABELS


@dataclass(frozen=True, eq=False, repr=False)
class RowResult:
    """One policy on the design. Times are means over the batches of the trace.

    Attributes:
        variant: The policy.
        simulation: The simulation.
        batches: The decisions that it consumed, by batch.
        energy: Joules of all batches in ``latency_s`` each.
        decode_energy: The same without the prompts.
        replay_all: Replay ratio over all steps.
        replay_eligible: Replay ratio over the steps that may replay (frame 0 left out).
        roofline: A decode step if bytes or multiply-accumulates alone took time.
        latency_factors: Latency at the upper and at the lower end of the memory's bandwidth, over
            ``latency_s``; None where the board names no interval, or nobody asked (sweeps).
    """

    variant: Variant
    simulation: Simulation
    batches: Batches
    energy: EnergyReport
    decode_energy: EnergyReport
    replay_all: float
    replay_eligible: float
    roofline: Roofline
    latency_factors: tuple[float, float] | None = None

    @property
    def is_bound(self) -> bool:
        """The row is the bound instead of a simulation."""
        return self.variant.is_bound

    @property
    def design(self) -> Design:
        """The design."""
        return self.simulation.plan.hw.design

    @property
    def n_batches(self) -> int:
        """Batches that were decoded one after the other."""
        return int(self.simulation.batch_cycles.size)

    @property
    def cycles(self) -> int:
        """Latencies of all batches, added up."""
        return self.simulation.cycles

    @property
    def latency_s(self) -> float:
        """Seconds from the prompt to the last token of a batch."""
        return self._seconds(self.cycles) / self.n_batches

    @property
    def seconds_per_video(self) -> float:
        """Latency of a batch over the videos that it finishes."""
        return self.latency_s / self.batches.videos_per_batch

    @property
    def ms_per_token(self) -> float:
        """Milliseconds of one decode step of the batch, prefill left out."""
        decode = self.cycles - self._part("prefill")
        return 1e3 * self._seconds(decode) / self.n_batches / self.simulation.plan.n_steps

    @property
    def stream_tokens_per_s(self) -> float:
        """Tokens per second of each stream (a finished video or text), prompt left out."""
        return 1e3 * self.simulation.plan.tokens_per_step / self.ms_per_token

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second of all streams of a batch, prompt left out."""
        return self.stream_tokens_per_s * self.batches.videos_per_batch

    @cached_property
    def first_token_s(self) -> float | None:
        """Seconds from the prompt to the end of the first step; None for the bound."""
        if self.is_bound:
            return None
        return self._seconds(int(self.simulation.first_cycles.sum())) / self.n_batches

    @cached_property
    def energy_per_token(self) -> Joules:
        """Joules of the board per token of a stream, prompt left out, with their interval."""
        tokens = self.videos * self.simulation.plan.video.n_steps
        return self.decode_energy.scaled(1 / tokens, self.latency_factors).board

    @property
    def body_latency_s(self) -> float:
        """Latency without the head."""
        return self._seconds(self.cycles - self._part("head")) / self.n_batches

    @property
    def bound_latency_s(self) -> float:
        """Lower bound of the latency over all assignments of whole sequences to these cores."""
        return self._seconds(self.simulation.bound_cycles) / self.n_batches

    @cached_property
    def limits(self) -> tuple[PhaseLimit, ...]:
        """The limit of each kind of phase; none of the bound."""
        return () if self.is_bound else phase_limits(self.simulation)

    @property
    def busy(self) -> float:
        """Share of core cycles in which cores compute.

        Simplification: of a bound, the cycles of the row that it bounds in its own time, all of it
        at most; it has no time for adding what replays.
        """
        busy = sum(total.busy_cycles for total in self.simulation.totals.values())
        share = self.simulation.plan.hw.busy_share(busy, self.cycles)
        return min(share, 1.0) if self.is_bound else share

    @property
    def mac_utilisation(self) -> float:
        """MACs done over MACs possible."""
        macs = sum(total.macs for total in self.simulation.totals.values())
        return macs / (self.cycles * self.design.machine.macs_per_cycle)

    @cached_property
    def dram_bytes(self) -> dict[str, int]:
        """Bytes moved by memory, over all batches."""
        return dict(self.simulation.activity.dram_bytes)

    @cached_property
    def accounts(self) -> dict[str, dict[str, dict[str, int]]]:
        """Phase -> core or port -> state -> cycles over all batches; empty for the bound.

        The policy is simulated once more for it. See :mod:`carsim.machine.booking`.
        """
        if self.is_bound:
            return {}
        plan = self.simulation.plan
        phases = Phases(plan.hw, plan.phases.fidelity, books=True)
        totals = simulate(replace(plan, phases=phases), self.batches).totals
        return {name: accounts(plan.hw, each.booked, each.cycles) for name, each in totals.items()}

    @cached_property
    def ddr_utilisation(self) -> dict[str, float]:
        """Bytes moved over bytes that each memory in use could move at its peak rate."""
        return {
            path.name: self.dram_bytes[path.name]
            / (path.peak_gbps * GB * self._seconds(self.cycles))
            for path in self.simulation.plan.hw.paths
            if self.dram_bytes[path.name]
        }

    @property
    def dram_gb_per_video(self) -> float:
        """GB moved per finished video, all memories."""
        return sum(self.dram_bytes.values()) / GB / self.videos

    @property
    def videos(self) -> int:
        """Videos finished by all batches."""
        return self.n_batches * self.batches.videos_per_batch

    @property
    def energy_per_video(self) -> Joules:
        """Joules of the board per finished video, with their interval."""
        return self.energy_parts_per_video.board

    @cached_property
    def energy_parts_per_video(self) -> EnergyReport:
        """Joules per finished video by component.

        Ends have all constants of energy and the bandwidth err in the same direction: low is every
        constant at its low and, for what is drawn by being there, the least time; high likewise.
        """
        return self.energy.scaled(1 / self.videos, self.latency_factors)

    @property
    def average_power_w(self) -> float:
        """Watts of the board."""
        return self.energy.board.value_j / self._seconds(self.cycles)

    @cached_property
    def seconds_by_category(self) -> dict[str, float]:
        """Seconds of a batch by category; they sum to its latency. Empty for the bound."""
        if self.is_bound:
            return {}
        totals = self.simulation.totals.values()
        return {
            label: self._seconds(sum(total.times[i] for total in totals)) / self.n_batches
            for i, label in enumerate(CATEGORY_LABELS)
        }

    @property
    def seconds_by_phase(self) -> dict[str, float]:
        """Seconds of a batch by kind of phase; they sum to its latency, also that of the bound."""
        totals = self.simulation.totals
        return {name: self._seconds(each.cycles) / self.n_batches for name, each in totals.items()}

    def __repr__(self) -> str:
        name, joules = self.variant.name, self.energy_per_video.value_j
        return f"<{name}: {self.seconds_per_video:.4g} s and {joules:.4g} J per video>"

    def _part(self, phase: str) -> int:
        total = self.simulation.totals.get(phase)
        return 0 if total is None else total.cycles

    def _seconds(self, cycles: int) -> float:
        return cycles / round(self.design.board.fabric_clock_mhz * 1e6)  # rounded once


class Candidate(NamedTuple):
    """A design to simulate.

    Attributes:
        design: The design.
        fit: Its fit on its board.
        number: The number of its hardware among those of the phases.
        part: The part of the decisions that it consumes.
    """

    design: Design
    fit: FitReport
    number: int = 0
    part: int = 0


def simulate_rows(
    candidates: Sequence[Candidate],
    variant: Variant,
    batches: Batches,
    video: Video,
    phases: Phases,
) -> list[RowResult]:
    """The rows of several designs of one structure.

    Args:
        candidates: The designs.
        variant: The policy.
        batches: Decisions that the policy consumes.
        video: The video that is decoded.
        phases: Of the hardware of the designs, or of hardware that differs from it only in what no
            phase depends on: threshold, scope, schedule and attention of its policy, constants of
            energy.
    """
    variant = replace(variant, method=batches.method)
    plan = Plan.of(phases, video, variant, batches.rule)
    simulations = simulate_designs(plan, batches)
    parts, steps = batches.every_part, video.tokens_per_frame // plan.tokens_per_step
    ratios = [each.replay_ratio(steps) for each in parts]
    rows = []
    for design, fit, number, part in candidates:
        simulation = simulations[part][number]
        works = simulation.activity, simulation.decode_activity
        joules, decode = (energy(design, work, fit.resources) for work in works)
        line = roofline(simulation)
        row = RowResult(variant, simulation, parts[part], joules, decode, *ratios[part], line)
        rows.append(row)
    return rows


def bound_of(row: RowResult, fit: FitReport) -> RowResult:
    """The bound for the decisions of a row: the same work in the least time."""
    totals = {
        name: replace(each, cycles=each.bound_cycles, dram_bytes=each.bound_dram_bytes)
        for name, each in row.simulation.totals.items()
    }
    simulation = replace(row.simulation, totals=totals)
    whole = not MAPPINGS[row.design.machine.mapping].needs_broadcast
    variant = replace(row.variant, is_bound=True, is_whole=whole)
    joules = energy(row.design, simulation.activity, fit.resources)
    decode = energy(row.design, simulation.decode_activity, fit.resources)
    return replace(row, variant=variant, simulation=simulation, energy=joules, decode_energy=decode)
