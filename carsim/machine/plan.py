"""Which phases a policy asks for: the cases of every layer-step, before any is simulated."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from carsim.design import StreamingAttention
from carsim.design.policy import Attention, Schedule
from carsim.machine.bench import Ahead
from carsim.machine.hardware import Hardware
from carsim.machine.phase import AttendCase, MlpCase, OutputCase, Phases, QkvCase
from carsim.workload.geometry import Video

Cycles = NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """A policy on a hardware, for one video.

    Attributes:
        phases: The phases of the hardware.
        video: What is decoded.
        attention: What queries attend to.
        schedule: Who computes the sequences that do not replay.
        replays: The policy replays at all; dense decoding computes no scores and dispatches
        nothing.
        steps: The steps to simulate, in order; all of the video unless a part is enough.
    """

    phases: Phases
    video: Video
    attention: Attention
    schedule: Schedule
    replays: bool
    steps: Sequence[int]

    @property
    def hw(self) -> Hardware:
        """The hardware."""
        return self.phases.hw

    def scored(self, step: int) -> bool:
        """A replay is decided on in this step."""
        return self.replays and step >= self.video.tokens_per_frame

    def attended(self, step: int) -> int:
        """Cached tokens that a query of this step reads."""
        return self.attention.attended(self.video.context(step))

    def register_groups(self, scored: bool) -> list[slice]:
        """Sequences whose MLPs are dispatched together: as many as the Index Register holds."""
        batch = self.hw.batch
        width = self.hw.design.machine.drs.index_register_bits
        if not scored or self.schedule == "static":
            width = batch
        return [slice(first, min(first + width, batch)) for first in range(0, batch, width)]

    def qkv_case(self, step: int, before: Ahead) -> QkvCase:
        """Norm and QKV projection of any layer of a step."""
        return self.phases.qkv_case(self.scored(step), self.attended(step), before)

    def attend_case(self, step: int, before: Ahead) -> AttendCase:
        """Attention of any layer of a step."""
        return AttendCase(self.scored(step), self.attended(step), self._aligned_outside, before)

    def output_case(self, scored: bool, computes: bool, before: Ahead) -> OutputCase:
        """Output projection, given whether any sequence computes its MLP right afterwards."""
        machine = self.hw.design.machine
        if machine.prefetch == "none":
            lead = False
        elif not scored or machine.prefetch == "speculative":
            lead = True
        else:
            # Gated: only what is sure to be used, so the decision is known and binds all cores.
            lead = machine.decision_at != "residual" and self.hw.is_lockstep and computes
        return OutputCase(lead, before)

    def mlp_case(
        self,
        loads: tuple[int, ...],
        replaying: int,
        scored: bool,
        last: bool,
        exposed_cycles: int,
        before: Ahead,
    ) -> MlpCase:
        """Dispatch, MLP and replay of one register group.

        Args:
            loads: Computing sequences of each core, most loaded first.
            replaying: Sequences that replay.
            scored: A replay was decided on.
            last: No further layer follows in this step.
            exposed_cycles: What dispatch still takes.
            before: What has been fetched.
        """
        prefetch = self.hw.design.machine.prefetch
        knows_core = self.hw.is_lockstep or not scored or self.schedule == "static"
        return MlpCase(
            loads=loads,
            replaying=replaying,
            exposed_dispatch_cycles=exposed_cycles,
            early_fetch=prefetch == "speculative" or (prefetch == "gated" and knows_core),
            handed_over=scored and self.schedule != "static",
            next_lead=not last,
            before=before,
        )

    def slack_cycles(self, attention: Cycles, output: Cycles) -> Cycles:
        """For how long the decisions have been known when the residual is complete.

        Args:
            attention: Cycles of the attention phases.
            output: Cycles of the output projections, of the same shape.
        """
        decision_at = self.hw.design.machine.decision_at
        if decision_at == "q":
            return attention + output
        return output if decision_at == "attention" else output * 0

    def dispatch_cycles(self, scored: bool) -> int:
        """Cycles from the decisions of a layer to its last MLP instruction; none without any."""
        return self._dispatch_cycles if scored else 0

    @cached_property
    def _dispatch_cycles(self) -> int:
        return self.hw.dispatch_cycles(self.schedule)

    @cached_property
    def _aligned_outside(self) -> bool:
        return (
            isinstance(self.attention, StreamingAttention)
            and self.attention.window <= self.video.tokens_per_frame
        )
