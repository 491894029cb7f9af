"""Work that a policy asks of the hardware in each step of a video."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention import AttentionPolicy
from carsim.decisions.replay import ReplayRule, later
from carsim.hardware.schedule import BASELINE, Schedule
from carsim.machine.cases import AttendCases
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.machine.variants import Variant
from carsim.workload.body import in_window
from carsim.workload.geometry import Video


@dataclass(frozen=True)
class Plan:
    """A policy on a hardware, for one video.

    Attributes:
        phases: The phases of the hardware.
        video: The video that is decoded.
        attention: Attention policy.
        schedule: Schedule of the sequences that compute; a key of ``SCHEDULES``.
        rule: Rule of replay; None for decoding that never replays, which computes no scores and
            dispatches nothing.
        steps: The steps to simulate, in order; all of the video unless a part is enough.
    """

    phases: Phases
    video: Video
    attention: AttentionPolicy
    schedule: str
    rule: ReplayRule | None
    steps: Sequence[int]

    @classmethod
    def of(cls, phases: Phases, video: Video, variant: Variant, rule: ReplayRule | None) -> "Plan":
        """A policy in all steps of a video."""
        steps = range(video.n_steps // phases.hw.design.policy.tokens_per_step)
        return cls(phases, video, variant.attention, variant.schedule, rule, steps)

    @property
    def hw(self) -> Hardware:
        """The hardware."""
        return self.phases.hw

    def of_design(self, number: int) -> "Plan":
        """The plan on one of the designs of its hardware."""
        if len(self.hw.designs) == 1:
            return self
        return replace(
            self, phases=type(self.phases)(self.hw.designs[number], self.phases.fidelity)
        )

    @cached_property
    def scored(self) -> NDArray[np.bool_]:  # [S]
        """Steps in which a replay is decided on: all after the first frame."""
        first = self.video.tokens_per_frame // self.tokens_per_step
        return (self.rule is not None) & (np.asarray(self.steps) >= first)

    @cached_property
    def reads(self) -> dict[int | None, AttendCases]:
        """Keys that attention reads in each step, [S] each, by the window of the layer.

        The policy chooses among the newest tokens that are in the window. Where what is read
        depends on the data, other numbers take the place of these.
        """
        windows = self.hw.design.model.body.layers_by_window()
        return {window: self._reads_in(window) for window in windows}

    def _reads_in(self, window: int | None) -> AttendCases:
        contexts = in_window(self.contexts, window)
        found = self.attention.reads(contexts)
        tokens, runs = (each.astype(np.int64) for each in (found.tokens, found.runs))
        # A policy without work of its own asks for the same whatever it leaves unread.
        own = type(self.attention)
        at_frames = own.frame_work is not AttentionPolicy.frame_work
        works = own.side_work is not AttentionPolicy.side_work or at_frames
        contexts = contexts * (works and not own.follows_reads)
        outside, frame = self.aligned_outside(window), self.video.tokens_per_frame * at_frames
        runs = np.broadcast_to(runs, tokens.shape)
        return AttendCases(tokens, runs, contexts, self.attention, outside, frame)

    @cached_property
    def contexts(self) -> NDArray[np.int64]:  # [S]
        """Tokens that dense attention would read in each step: those of its last query."""
        done = (1 + np.asarray(self.steps, np.int64)) * self.tokens_per_step
        return self.video.prompt_tokens + done

    @property
    def n_steps(self) -> int:
        """Steps of the whole video."""
        return self.video.n_steps // self.tokens_per_step

    @property
    def tokens_per_step(self) -> int:
        """Tokens of each sequence that a step decodes."""
        return self.hw.design.policy.tokens_per_step

    def schedule_of(self, scored: bool) -> Schedule:
        """The policy's schedule; where nothing is decided, every core keeps its own sequences."""
        return self.phases.schedule(self.schedule) if scored else BASELINE

    def groups(self, scored: bool) -> list[tuple[slice, int]]:
        """Tokens whose MLPs are dispatched together, and the core of the first up to attention."""
        rows, width = self.hw.rows, self.hw.held(self.schedule_of(scored))
        return [(slice(n, min(n + width, rows)), self.hw.home_of(n)) for n in range(0, rows, width)]

    def aligned_outside(self, window: int | None) -> bool:
        """The cached key that the rule scores is not among those that a layer's attention reads.

        Args:
            window: As of :meth:`reads`.
        """
        if self.rule is None:
            return False
        distance = self.rule.key_distance(self.video.tokens_per_frame)
        beyond = window is not None and distance >= window
        return beyond or not self.attention.reads_aligned(distance)

    def known_cycles(self, attention: NDArray[np.int64], output: Any) -> NDArray[np.int64]:
        """For how long decisions have been known when the residual is complete.

        Args:
            attention: Cycles of attention phases, of any shape, which the result has too.
            output: Cycles of the output projection.
        """
        decision_at = self.hw.design.machine.decision_at
        if self.rule is not None:
            decision_at = later(decision_at, self.rule.known_at)
        if decision_at == "q":
            return attention + output
        return np.zeros_like(attention) + (output if decision_at == "attention" else 0)
