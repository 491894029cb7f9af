"""Tokens per second of plain auto-regressive decoding: what published boards report.

Model: one step of the design's batch, no replay and no schedule, each layer through the same phases
as a video's (:mod:`carsim.machine.phase`), head included where the design includes it, prefill
left out.
A step that attends to ``c`` tokens takes what its phases take; over a range of contexts the mean
step is that of evenly spaced contexts in the middle of equal parts of the range, since time is
nearly linear in the context in between.

Simplifications: each computing sequence writes its MLP outputs to the replay cache, which a machine
without replay would not (under 0.02 % of the bytes of any published system).
"""

from dataclasses import dataclass, replace

import numpy as np

from carsim.account.limits import phase_limits, shares_by_limit
from carsim.account.simulation import Simulation, simulate_policy
from carsim.base.errors import InputError
from carsim.base.units import GB
from carsim.cost.energy import EnergyReport, energy
from carsim.design import Design
from carsim.hardware.schedule import BASELINE
from carsim.hardware.technology import Resources
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.workload.geometry import Video

SAMPLED_CONTEXTS = 32
"""At most so many contexts of a range are simulated."""


@dataclass(frozen=True, eq=False)
class Decode:
    """Decoding at one context or over several.

    Attributes:
        simulation: Totals of all steps, by kind of phase.
        contexts: Tokens attended to, one entry per simulated step.
    """

    simulation: Simulation
    contexts: tuple[int, ...]

    @property
    def design(self) -> Design:
        """The design."""
        return self.simulation.plan.hw.design

    @property
    def cycles_per_step(self) -> float:
        """Mean fabric cycles of a step of the whole batch."""
        return self.simulation.cycles / len(self.contexts)

    @property
    def seconds_per_step(self) -> float:
        """Mean seconds of a step of the whole batch."""
        return self.cycles_per_step / (self.design.board.fabric_clock_mhz * 1e6)

    @property
    def peak_seconds_per_step(self) -> float:
        """Mean seconds of a step if memories and arrays worked at their data-sheet peak."""
        hw = self.simulation.plan.hw
        work = self.simulation.decode_activity
        macs_per_s = hw.design.machine.macs_per_cycle * hw.design.board.fabric_clock_mhz * 1e6
        seconds = [work.dram_bytes.get(path.name, 0) / (path.peak_gbps * GB) for path in hw.paths]
        seconds.append(work.macs / macs_per_s)
        return max(seconds) / len(self.contexts)

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second, all sequences of the batch together."""
        return self.design.policy.batch / self.seconds_per_step

    @property
    def limit_shares(self) -> dict[str, float]:
        """Share of the time spent in phases of each limit, most first."""
        return shares_by_limit(phase_limits(self.simulation))

    def energy_per_token(self, used: Resources) -> EnergyReport:
        """Joules of a token, by component.

        Args:
            used: What the design takes of the board.
        """
        tokens = len(self.contexts) * self.design.policy.batch
        return energy(self.design, self.simulation.activity, used).scaled(1 / tokens)


def decode(design: Design, first_context: int, last_context: int | None = None) -> Decode:
    """Simulate decoding at a context, or over a range of them.

    Args:
        design: The design.
        first_context: Tokens that the (first) step attends to, itself included.
        last_context: Those of the last step; equal to the first if left out.

    Raises:
        InputError: No such context or range.
    """
    last = first_context if last_context is None else last_context
    if first_context < 1 or last < first_context:
        cure = "give 1 or more, the smaller one first"
        raise InputError("context", f"got {first_context} to {last}", cure)
    policy = design.policy
    layers = design.model.body.n_layers
    if policy.tokens_per_step > 1:
        problem = f"{policy.tokens_per_step} tokens a step are for videos"
        raise InputError("policy.tokens_per_step", problem, "set it to 1 to decode at a context")
    contexts = contexts_of(first_context, last)
    # The prompt is over, and no step begins a frame: nothing is replayed.
    video = Video(n_frames=1, tokens_per_frame=max(contexts), prompt_tokens=0)
    steps = [context - 1 for context in contexts]
    plan = Plan(Phases(Hardware(design)), video, policy.attention, BASELINE.kind, None, steps)
    replay = np.zeros((1, len(steps), layers, policy.batch), np.bool_)
    simulation = simulate_policy(plan, Batches(replay, policy.batch, 0, "dense", "dense"))
    totals = {name: total for name, total in simulation.totals.items() if name != "prefill"}
    cycles = sum(total.cycles for total in totals.values())
    decoding = replace(simulation, totals=totals, batch_cycles=np.array([cycles], np.int64))
    return Decode(decoding, contexts)


def contexts_of(first: int, last: int) -> tuple[int, ...]:
    """The contexts that stand for a range: all of a short one, the middles of parts of a long one.

    >>> contexts_of(7, 9)
    (7, 8, 9)
    >>> contexts_of(1, 64)[:3]
    (2, 4, 6)
    """
    count = last - first + 1
    samples = min(count, SAMPLED_CONTEXTS)
    # The middle of each of so many equal stretches.
    return tuple(first + (2 * n + 1) * count // (2 * samples) for n in range(samples))
