"""One row of a comparison: a policy simulated on a design, and every quantity that follows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from carsim.account.booking import accounts, booked
from carsim.account.limits import PhaseLimit, Roofline, phase_limits, roofline
from carsim.account.simulation import Simulation, simulate_policy, simulate_policy_on_designs
from carsim.account.variants import Variant
from carsim.base.units import GB
from carsim.cost.energy import EnergyReport, Joules, energy
from carsim.cost.fit import FitReport
from carsim.design import Design
from carsim.hardware.mapping import MAPPINGS
from carsim.machine.batches import Batches
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.workload.forwards import forwards_of
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
        decode_energy: Joules of all batches without their prompts.
        replay_all: Replay ratio over all steps.
        replay_eligible: Replay ratio over the steps that may replay (frame 0 left out).
        roofline: A decode step if bytes or multiply-accumulates alone took time.
        latency_factors: Latency at the upper and at the lower end of the memory's bandwidth, over
            ``latency_s``; None where the board names no interval, or nobody asked (sweeps).
        decode_factors: Time of a decode step at these ends, over ``ms_per_token``; None where
            ``latency_factors`` is None, and for videos.
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
    decode_factors: tuple[float, float] | None = None

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
        decode_cycles = self.cycles - self._cycles_of("prefill")
        return 1e3 * self._seconds(decode_cycles) / self.n_batches / self.simulation.plan.n_steps

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
    def last_chunk_s(self) -> float | None:
        """Seconds of a chunk at the end of a rollout, its pixel decoder included.

        They run from the end of the chunk before to its own end, and are simulated once more. Of
        several chunks in flight, it is the last that leaves while all noise levels are taken. None
        for the bound, and for what is not made in chunks.
        """
        sample = self.simulation.plan.machine.model.sample
        if self.is_bound or sample is None or sample.chunk_frames is None:
            return None
        last = max(0, sample.chunks - sample.in_flight)
        forwards = enumerate(forwards_of(sample))
        numbers = [number for number, forward in forwards if forward.chunk == last]
        plan = replace(self.simulation.plan, steps=numbers)
        batches = self.batches.at_steps(np.array(numbers))
        simulation = simulate_policy(plan, batches)
        once = ("prefill", "pixels")
        cycles = sum(total.cycles for name, total in simulation.totals.items() if name not in once)
        return self._seconds(cycles) / self.n_batches + sample.decoder_s

    @cached_property
    def energy_per_token(self) -> Joules:
        """Joules of the board per token of a stream, prompt left out, with their interval."""
        return self.energy_parts_per_token.board

    @property
    def body_latency_s(self) -> float:
        """Latency without the head."""
        return self._seconds(self.cycles - self._cycles_of("head")) / self.n_batches

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

        Simplification: for a bound, the busy cycles of the row that it bounds are divided by the
        bound's own time, up to a share of 1. A bound has no time for adding cached outputs.
        """
        busy_cycles = sum(totals.busy_cycles for totals in self.simulation.totals.values())
        share = busy_cycles / self.simulation.plan.machine.core_cycles(self.cycles)
        return min(share, 1.0) if self.is_bound else share

    @property
    def mac_utilisation(self) -> float:
        """MACs done over MACs possible."""
        macs = sum(totals.macs for totals in self.simulation.totals.values())
        return macs / (self.cycles * self.design.machine.macs_per_cycle)

    @cached_property
    def dram_bytes(self) -> dict[str, int]:
        """Bytes moved by memory, over all batches."""
        return dict(self.simulation.activity.dram_bytes)

    @cached_property
    def accounts(self) -> dict[str, dict[str, dict[str, int]]]:
        """Phase -> core or port -> state -> cycles over all batches; empty for the bound.

        The policy is simulated once more for it. See :mod:`carsim.account.booking`.
        """
        if self.is_bound:
            return {}
        plan = self.simulation.plan
        phases = Phases(plan.machine, plan.phases.fidelity, book=booked)
        simulation = simulate_policy(replace(plan, phases=phases), self.batches)
        return {
            phase: accounts(plan.machine, totals.booked, totals.cycles)
            for phase, totals in simulation.totals.items()
        }

    @cached_property
    def ddr_utilisation(self) -> dict[str, float]:
        """Bytes moved over bytes that each memory in use could move at its peak rate.

        Measured times of kernels may be shorter than memory allows, as caches hold a part of the
        bytes. Then the utilisation is 1.
        """
        plan = self.simulation.plan
        utilisation = {
            path.name: self.dram_bytes[path.name]
            / (path.peak_gbps * GB * self._seconds(self.cycles))
            for path in plan.hw.paths
            if self.dram_bytes[path.name]
        }
        if plan.machine.kernels is None:
            return utilisation
        return {name: min(1.0, share) for name, share in utilisation.items()}

    @property
    def memory_sustained_share(self) -> float | None:
        """Bytes of decode steps over the bytes that their memory sustains in that time.

        It is that of the busiest memory. The prompt is left out.
        """
        decode_cycles = self.cycles - self._cycles_of("prefill")
        moved = self.simulation.decode_activity.dram_bytes
        shares = (
            moved[path.name] / float(path.rate) / decode_cycles
            for path in self.simulation.plan.hw.paths
            if moved.get(path.name)
        )
        return max(shares, default=None)

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

        At each end, all constants of energy and the bandwidth err in the same direction. At the low
        end, all constants are low, and idle power is drawn for the least time. At the high end, all
        constants are high, and idle power is drawn for the longest time.
        """
        return self.energy.scaled(1 / self.videos, self.latency_factors)

    @cached_property
    def energy_parts_per_token(self) -> EnergyReport:
        """Joules per token of a stream by component, prompt left out, with their intervals."""
        tokens = self.videos * self.simulation.plan.video.n_steps
        return self.decode_energy.scaled(1 / tokens, self.decode_factors or self.latency_factors)

    @property
    def average_power_w(self) -> float:
        """Watts of the board."""
        return self.energy.board.value_j / self._seconds(self.cycles)

    @cached_property
    def seconds_by_category(self) -> dict[str, float]:
        """Seconds of a batch by category; they sum to its latency. Empty for the bound."""
        if self.is_bound:
            return {}
        seconds = {}
        for category, label in enumerate(CATEGORY_LABELS):
            cycles = sum(totals.times[category] for totals in self.simulation.totals.values())
            seconds[label] = self._seconds(cycles) / self.n_batches
        return seconds

    @property
    def seconds_by_phase(self) -> dict[str, float]:
        """Seconds of a batch by kind of phase; they sum to its latency, also that of the bound."""
        return {
            phase: self._seconds(totals.cycles) / self.n_batches
            for phase, totals in self.simulation.totals.items()
        }

    def __repr__(self) -> str:
        joules = self.energy_per_video.value_j
        return f"<{self.variant.name}: {self.seconds_per_video:.4g} s and {joules:.4g} J per video>"

    def _cycles_of(self, phase: str) -> int:
        """Cycles of a kind of phase over all batches; 0 if there is none."""
        totals = self.simulation.totals.get(phase)
        return 0 if totals is None else totals.cycles

    def _seconds(self, cycles: int) -> float:
        clock_hz = round(self.design.board.fabric_clock_mhz * 1e6)
        return cycles / clock_hz  # rounded once


class Candidate(NamedTuple):
    """A design to simulate.

    Attributes:
        design: The design.
        fit: Its fit on its board.
        number: The number of its hardware among those of the phases.
        member: Index of the decisions that it consumes among the members of the batches.
    """

    design: Design
    fit: FitReport
    number: int = 0
    member: int = 0


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
    method = batches.method
    if not phases.skips_mlp_alone:
        # A method of a decoder is named after the skipping of MLPs.
        only = "only " if phases.machine.model.sample is None else ""
        method = f"{method} ({only}{phases.machine.skip.label} skipped)"
    variant = replace(variant, method=method)
    plan = Plan.of_video(
        phases,
        video,
        attention=variant.attention,
        schedule=variant.schedule,
        rule=batches.rule,
        further_rules=batches.further_rules,
        reuse=None if batches.tokens is None else batches.tokens.reuse,
    )
    simulations = simulate_policy_on_designs(plan, batches)
    frame_steps = video.tokens_per_frame // plan.tokens_per_step
    replay_ratios = [member.replay_ratio(frame_steps) for member in batches.members]
    rows = []
    for candidate in candidates:
        simulation = simulations[candidate.member][candidate.number]
        resources = candidate.fit.resources
        of_all_steps, of_eligible_steps = replay_ratios[candidate.member]
        row = RowResult(
            variant=variant,
            simulation=simulation,
            batches=batches.members[candidate.member],
            energy=energy(candidate.design, simulation.activity, resources),
            decode_energy=energy(candidate.design, simulation.decode_activity, resources),
            replay_all=of_all_steps,
            replay_eligible=of_eligible_steps,
            roofline=roofline(simulation),
        )
        rows.append(row)
    return rows


def bound_of(row: RowResult, fit: FitReport) -> RowResult:
    """The bound for the decisions of a row: the same work in the least time."""
    bound_totals = {
        phase: replace(totals, cycles=totals.bound_cycles, dram_bytes=totals.bound_dram_bytes)
        for phase, totals in row.simulation.totals.items()
    }
    simulation = replace(row.simulation, totals=bound_totals)
    splits_nothing = not MAPPINGS[row.design.machine.mapping].needs_broadcast
    return replace(
        row,
        variant=replace(row.variant, is_bound=True, is_whole=splits_nothing),
        simulation=simulation,
        energy=energy(row.design, simulation.activity, fit.resources),
        decode_energy=energy(row.design, simulation.decode_activity, fit.resources),
    )
