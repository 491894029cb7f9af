"""Speculative decoding on a machine: what passes of m rows cost, and how many tokens pay for them.

Model: prompt and first frame are decoded a token a step. From then on, a pass takes m tokens of
each sequence through the machine as a set of m tokens does (``policy.tokens_per_step``): weights,
the head's among them, are fetched once for m rows, a cache once for a sequence, and an MLP's
weights unless every row replays. What a pass does and yields: :mod:`studies.speculation.decoding`.

Simplifications: every pass has m rows, also the last ones of a frame, which have fewer; passes lie
evenly over the contexts of the later frames; refused rows decide on their replay as the tokens do
that stay there; going back takes no time, nor does comparing a draw with its proposal. A machine
holds MLP outputs of m places twice (m * L * d of each sequence: 2 MB of VILA-U for m = 16, not
counted in the fit). Sequences of a batch go at their own pace, and a batch ends with its slowest
pair, whose passes count.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from carsim.base.errors import InputError
from carsim.cost.fit import FitReport
from carsim.decisions.trace import Trace
from carsim.design import Design, override
from carsim.machine.batches import Batches, make_batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.machine.row import RowResult, simulate_row
from carsim.machine.simulate import Simulation, simulate
from carsim.machine.totals import PhaseTotals
from carsim.machine.variants import own_variant
from carsim.runs.pipeline import fit_of, sources_of
from carsim.workload.geometry import Video
from studies.speculation.passes import expected_passes

_CLOSE = 1e-4


@dataclass(frozen=True, eq=False)
class Speculation:
    """Passes of m rows on a machine, beside decoding a token a step. Times are means over batches.

    Attributes:
        proposed: m.
        plain: The same policy without speculation.
        fit: Fit of the design with passes of m rows.
        first: Prompt and first frame.
        later: The later frames, as if every pass yielded m tokens.
    """

    proposed: int
    plain: RowResult
    fit: FitReport
    first: Simulation
    later: Simulation

    @property
    def video(self) -> Video:
        """What is decoded."""
        return self.plain.simulation.plan.video

    @property
    def design(self) -> Design:
        """The design that decodes m tokens of each sequence at once."""
        return self.later.plan.hw.design

    @property
    def pass_seconds(self) -> float:
        """Mean time of a pass of the batch, head and host included."""
        return self._seconds(sum(total.cycles for total in self._passes.values())) / self._sets

    @property
    def first_seconds(self) -> float:
        """Time of prompt and first frame."""
        return self._seconds(self.first.cycles)

    def seconds(self, passes: float) -> float:
        """Latency of a batch whose slowest pair takes so many passes after the first frame."""
        return self.first_seconds + passes * self.pass_seconds

    def speedup(self, passes: float) -> float:
        """How many times as fast as the same policy without speculation."""
        return self.plain.latency_s / self.seconds(passes)

    def passes_at(self, acceptance: float) -> float:
        """Expected passes after the first frame where each proposal is accepted with a chance.

        Of one pair; acceptances are taken as independent.
        """
        video = self.video
        of_frame = expected_passes(np.full(video.tokens_per_frame, acceptance), self.proposed)
        return (video.n_frames - 1) * of_frame

    @property
    def tokens_to_break_even(self) -> float:
        """Tokens that a pass must yield to take no longer than decoding a token a step."""
        tokens = self.video.n_steps - self.video.tokens_per_frame
        return tokens * self.pass_seconds / (self.plain.latency_s - self.first_seconds)

    @cached_property
    def acceptance_to_break_even(self) -> float | None:
        """The chance of acceptance at which it does; None if all accepted is not enough."""
        if self.speedup(self.passes_at(1.0)) < 1:
            return None
        low, high = 0.0, 1.0
        while high - low > _CLOSE:
            middle = (low + high) / 2
            low, high = (
                (low, middle) if self.speedup(self.passes_at(middle)) >= 1 else (middle, high)
            )
        return high

    @property
    def _passes(self) -> dict[str, PhaseTotals]:
        return {name: total for name, total in self.later.totals.items() if name != "prefill"}

    @property
    def _sets(self) -> int:
        """Passes of a batch where each yields m tokens."""
        return len(self.later.plan.steps)

    def _seconds(self, cycles: int) -> float:
        """Of all batches in cycles, of one in seconds."""
        return cycles / (self.design.board.fabric_clock_mhz * 1e6) / self.plain.n_batches


def speculate(
    design: Design,
    traces: Sequence[Trace],
    proposed: int,
    *,
    replays: bool = True,
    resample_seed: int | None = None,
) -> Speculation:
    """Simulate a design's own policy with passes of ``proposed`` rows, and without.

    A design that lacks room for so many rows is simulated all the same: see
    :attr:`Speculation.fit`.

    Args:
        design: The design.
        traces: Decisions, as :func:`~carsim.machine.run` takes them.
        proposed: m, a divisor of the tokens of a frame.
        replays: MLPs are replayed; False decodes densely.
        resample_seed: As there.

    Raises:
        InputError: A design that decodes sets of tokens already, an m that divides no frame, or a
            trace that cannot serve the design, such as one whose reads were recorded token by
            token.
    """
    if design.policy.tokens_per_step > 1:
        raise InputError(
            "policy.tokens_per_step",
            f"{design.policy.tokens_per_step} tokens a step leave nothing to speculate on",
            "set it to 1",
        )
    many = override(design, {"policy.tokens_per_step": proposed})
    sources = sources_of(design, traces, resample_seed=resample_seed)
    video = sources.video
    replace(sources, tokens_per_step=proposed).check_sets(video)
    variant = replace(own_variant(design), replays=replays)
    decisions = sources.decisions(variant.attention, replays=replays)
    batches = make_batches(decisions, design.policy.batch)
    phases = Phases(Hardware(design))
    plain = simulate_row(design, variant, batches, video, fit_of(design, sources, video), phases)

    def part(phases: Phases, batches: Batches, steps: range) -> Simulation:
        plan = Plan(phases, video, variant.attention, variant.schedule, batches.rule, steps)
        return simulate(plan, batches.part(np.array(steps)))

    frame = video.tokens_per_frame
    later = range(frame // proposed, video.n_steps // proposed)
    return Speculation(
        proposed,
        plain,
        fit_of(many, sources, video),
        part(phases, batches, range(frame)),
        part(Phases(Hardware(many)), make_batches(decisions, many.policy.batch, proposed), later),
    )
