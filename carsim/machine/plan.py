"""Work that a policy asks of the hardware in each step of a video."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from carsim.base.groups import grouped
from carsim.decisions.attention import AttentionPolicy
from carsim.decisions.replay import ReplayRule
from carsim.hardware.schedule import BASELINE, Schedule
from carsim.machine.arrays import MachineArrays
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.program.diffusion import fullest_forward
from carsim.program.layers import FurtherRules
from carsim.program.program import Program
from carsim.program.reads import Steps
from carsim.workload.forwards import ForwardKind, forwards_of
from carsim.workload.geometry import Video
from carsim.workload.workload import TokenReuse


@dataclass(frozen=True)
class Plan:
    """A policy on a hardware, for one video.

    The skipped blocks (``policy.skip``) and the point at which decisions are known
    (``machine.decision_at``) are in :class:`~carsim.machine.arrays.MachineArrays`, as all designs
    of ``phases`` share them.

    Attributes:
        phases: The phases of the hardware.
        video: The video that is decoded.
        attention: Attention policy.
        schedule: Schedule of the sequences that compute; a key of ``SCHEDULES``.
        rule: Rule of replay; None for decoding that never replays, which computes no scores and
            dispatches nothing.
        steps: The steps to simulate, in order; all of the video unless a part is enough.
        further_rules: Rules of further decisions, by name.
        reuse: What tokens of forwards reuse; None where whole rows decide.
    """

    phases: Phases
    video: Video
    attention: AttentionPolicy
    schedule: str
    rule: ReplayRule | None
    steps: Sequence[int]
    further_rules: FurtherRules = ()
    reuse: TokenReuse | None = None

    @classmethod
    def of_video(  # noqa: PLR0913 - the fields of a plan, by name
        cls,
        phases: Phases,
        video: Video,
        *,
        attention: AttentionPolicy,
        schedule: str,
        rule: ReplayRule | None,
        further_rules: FurtherRules = (),
        reuse: TokenReuse | None = None,
    ) -> "Plan":
        """A policy in all steps of a video."""
        return cls(
            phases=phases,
            video=video,
            attention=attention,
            schedule=schedule,
            rule=rule,
            steps=range(video.n_steps // phases.machine.tokens_per_step),
            further_rules=further_rules if rule is not None else (),
            reuse=reuse,
        )

    @property
    def hw(self) -> Hardware:
        """The hardware of a single design."""
        return self.phases.hw

    @property
    def machine(self) -> MachineArrays:
        """The numbers of D designs."""
        return self.phases.machine

    def of_design(self, number: int) -> "Plan":
        """The plan on one of the designs of its hardware."""
        if self.machine.n_designs == 1:
            return self
        hardware = self.machine.hardwares[number]
        return replace(self, phases=type(self.phases)(hardware, self.phases.fidelity))

    @cached_property
    def decided(self) -> NDArray[np.bool_]:  # [S]
        """Steps in which a replay is decided on: all after the first frame.

        Where ranges of tokens decide, a frame may look at the one before it in the same forward.
        """
        first = self.video.tokens_per_frame // self.tokens_per_step
        if self.reuse is not None:
            first = 0
        return (self.rule is not None) & (np.asarray(self.steps) >= first)

    @cached_property
    def forward_kinds(self) -> list[tuple[ForwardKind | None, NDArray[np.intp]]]:
        """Kinds of steps that take other blocks, and the steps of each, in order.

        Forwards of chunks may pass different numbers of latent frames; all other steps are alike.
        """
        sample = self.machine.model.sample
        every_step = np.arange(len(self.steps))
        if sample is None or sample.chunk_frames is None:
            return [(None, every_step)]
        forwards = forwards_of(sample)
        steps_of = grouped((forwards[number].kind, at) for at, number in enumerate(self.steps))
        return [(kind, np.array(steps, np.intp)) for kind, steps in steps_of.items()]

    @property
    def fullest_steps(self) -> NDArray[np.intp]:
        """Steps of the kind whose program is taken where none is named."""
        sample = self.machine.model.sample
        kind = None
        if sample is not None and sample.chunk_frames is not None:
            kind = fullest_forward(self.machine.model).kind
        return dict(self.forward_kinds).get(kind, np.arange(len(self.steps)))

    @property
    def reuses_forwards(self) -> bool:
        """Some forwards reuse the last one as a whole, beside tokens of the others."""
        return self.reuse is not None and self.reuse.beside_forwards

    @cached_property
    def of_whole_forwards(self) -> "Plan":
        """The plan of forwards that reuse the last one as a whole: no token of them is dealt."""
        return replace(self, schedule=BASELINE.kind, reuse=None)

    def parts(self, batches: Batches) -> list["Part"]:
        """The steps by the program that they take: undecided ones, decided ones, whole forwards.

        Args:
            batches: Decisions of all steps.
        """
        is_whole = batches.whole_forwards(len(self.steps))
        parts = []
        for decided in (False, True):
            own_steps = (self.decided == decided) & ~is_whole
            for kind, steps in self.forward_kinds:
                steps_of_part = steps[own_steps[steps]]
                if steps_of_part.size:
                    program = self.program(decided=decided, kind=kind)
                    part = Part(plan=self, program=program, batches=batches, steps=steps_of_part)
                    parts.append(part)
        if self.reuses_forwards:
            plan = self.of_whole_forwards
            part = Part(
                plan=plan,
                program=plan.program(decided=True),
                batches=batches.by_rows,
                steps=np.flatnonzero(is_whole),
            )
            parts.append(part)
        return [part for part in parts if part.steps.size]

    def program(self, *, decided: bool, kind: ForwardKind | None = None) -> Program:
        """The layers of steps in which a replay is decided on, or of all others.

        Args:
            decided: Decisions are taken in the steps.
            kind: Of forwards of chunks their kind; None: that of the fullest forward.
        """
        return self.phases.program(
            self.rule,
            decided=decided,
            kind=kind,
            reuse=self.reuse,
            attention=self.attention,
            further_rules=self.further_rules,
        )

    def steps_at(self, where: NDArray[np.intp]) -> Steps:
        """Some of the steps, as blocks look at them."""
        return Steps(contexts=self.contexts[where], video=self.video, attention=self.attention)

    @cached_property
    def contexts(self) -> NDArray[np.int64]:  # [S]
        """Tokens that dense attention would read in each step: those of its last query."""
        done = (1 + np.asarray(self.steps, np.int64)) * self.tokens_per_step
        return self.video.prompt_tokens + done

    @property
    def first_steps(self) -> int:
        """Steps until the first output is there: one, or the forwards of a chunk or sample."""
        sample = self.machine.model.sample
        if sample is None:
            return 1
        return sample.steps if sample.chunk_frames is not None else sample.forwards

    @property
    def n_steps(self) -> int:
        """Steps of the whole video."""
        return self.video.n_steps // self.tokens_per_step

    @property
    def tokens_per_step(self) -> int:
        """Tokens of each sequence that a step decodes."""
        return self.machine.tokens_per_step

    def idle_layers(self, batches: Batches) -> NDArray[np.int64]:
        """Layers of each step in which all rows skip all blocks that may be, int64[G, S]."""
        program = self.program(decided=False)
        layers = program.skipping_layers
        followed = {block.follows for block in program.skipped if block.follows is not None}
        if not followed:
            return np.zeros(batches.replay.shape[:2], np.int64)
        of_decisions = [
            batches.by_name([name])[name].of_layers(layers) for name in sorted(followed)
        ]
        if len(of_decisions) == 1:
            return of_decisions[0].idle_layers
        all_rows_skip = [batches_of.replay.all(axis=-1) for batches_of in of_decisions]
        is_idle = np.logical_and.reduce(all_rows_skip)  # bool[G, S, L]
        return np.asarray(is_idle).sum(axis=-1, dtype=np.int64)

    def schedule_of(self, decided: bool) -> Schedule:
        """The policy's schedule; where nothing is decided, every core keeps its own sequences."""
        return self.phases.schedule(self.schedule) if decided else BASELINE

    def groups(self, decided: bool) -> list[tuple[slice, int]]:
        """Rows that are dispatched together, and the home of the first."""
        rows = self.machine.rows
        width = self.machine.dispatched_together(self.schedule_of(decided))
        firsts = range(0, rows, width)
        return [
            (slice(first, min(first + width, rows)), self.machine.home_of(first))
            for first in firsts
        ]


@dataclass(frozen=True)
class Part:
    """Steps of a run that take one program.

    Attributes:
        plan: Policy and machine in these steps.
        program: The layers of each of them.
        batches: Decisions of all steps of the run, as these steps take them.
        steps: Numbers of the steps, int[s], ascending.
    """

    plan: Plan
    program: Program
    batches: Batches
    steps: NDArray[np.intp]
