"""Choose decisions: which of several traces a policy consumes, and what is done to fit them to it.

A policy takes the first trace that was captured under its own attention, else the first under the
same kind, else the first of all. Its decisions are then thresholded, scoped, resized, mapped to the
layers of the model and resampled as far as the design asks for it; the label says all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from carsim.base.errors import InputError
from carsim.decisions.attention import AttentionPolicy
from carsim.decisions.attention.base import Ints
from carsim.decisions.replay import ReplayRule, Scope
from carsim.decisions.trace import Decisions, Trace, captured, dense
from carsim.decisions.trace.decisions import DecisionShape, check_decisions, rescope, rethreshold
from carsim.decisions.trace.meta import STATED
from carsim.decisions.trace.precision import in_short
from carsim.decisions.trace.resize import crop, enlarge, layers_at_depth, map_layers, resample
from carsim.workload.geometry import Video
from carsim.workload.model import Model


@dataclass(frozen=True)
class Sources:
    """Traces, and what a design asks of their decisions.

    Attributes:
        traces: One or more of the same video.
        model: The model that is simulated.
        batch: Sequences in lockstep.
        tau: ``captured``, or a threshold (one per layer) that replaces the traces' own.
        scope: Who decides together.
        tokens_per_step: Tokens of each sequence that one step decodes.
        resample_seed: Seed of rows and frames beyond the traces'; None where none are drawn.
    """

    traces: Sequence[Trace]
    model: Model
    batch: int
    tau: Any
    scope: Scope
    tokens_per_step: int
    resample_seed: int | None = None

    @property
    def replays_any(self) -> bool:
        """Something may replay: a trace has decisions, or a tau is asked for."""
        return self.tau != "captured" or not all(t.meta.never_replays for t in self.traces)

    @property
    def video(self) -> Video:
        """The video that all traces are of.

        Raises:
            InputError: Traces of different videos, or a tau for layers that they lack.
        """
        first = self.traces[0]
        for trace in self.traces:
            if isinstance(self.tau, tuple) and len(self.tau) != trace.n_layers:
                problem = f"lists {len(self.tau)} values, {trace.name} has {trace.n_layers} layers"
                cure = "give one number, or capture a trace of as many layers"
                raise InputError("policy.tau", problem, cure)
            if (trace.video, trace.n_rows) != (first.video, first.n_rows):
                problem = f"decodes {trace.n_rows} rows of {trace.video}, {first.name} decodes"
                cure = "pass traces of the same video"
                raise InputError(trace.name, f"{problem} {first.n_rows} of {first.video}", cure)
        return first.video

    def check_sets(self, video: Video) -> None:
        """Refuse sets of tokens that do not divide a frame: all of a set may replay, or none.

        Raises:
            InputError: They do not divide it.
        """
        if video.tokens_per_frame % self.tokens_per_step:
            whole = f"{'frame' if video.kind == 'video' else 'text'} of {video.tokens_per_frame}"
            problem = f"{self.tokens_per_step} tokens do not divide a {whole}"
            raise InputError("policy.tokens_per_step", problem, "take a divisor of it")

    def trace_for(self, attention: AttentionPolicy) -> Trace:
        """The trace that a policy with this attention consumes.

        Fields of the same kind make no difference where reads follow from the context.
        """
        made = [trace.meta.attention for trace in self.traces]
        if attention.records and attention in made:
            return self.traces[made.index(attention)]
        kinds = [each.kind for each in made]
        return self.traces[kinds.index(attention.kind) if attention.kind in kinds else 0]

    def rule(self, attention: AttentionPolicy) -> ReplayRule:
        """The rule by which the decisions were made, at the width of the simulated model."""
        meta = self.trace_for(attention).meta
        return meta.rule.at_width(meta.decoded.hidden_size, self.model.body.hidden_size)

    def kv_held(self, attention: AttentionPolicy, video: Video) -> Ints | None:
        """The most tokens that a head of any sequence caches in each layer, int[L].

        A frame under way is cached in whole before anything of it, or of older ones, is given up.

        Returns:
            None where it follows from the context.

        Raises:
            InputError: It depends on the data, and no trace was captured under the policy.
        """
        if not attention.records:
            return None
        trace = self._recorded_under(attention)
        assert trace.kv_held is not None  # else the trace is refused when it is opened
        prompts = np.broadcast_to(np.array(trace.meta.prompt_lengths), trace.kv_held[:1].shape)
        at_begin = np.concatenate([prompts, trace.kv_held.astype(np.int64)])[: video.n_frames]
        most: Ints = at_begin.max(axis=(0, 2)) + trace.tokens_per_frame
        return most[layers_at_depth(trace.n_layers, self.model.body.n_layers)]

    def decisions(
        self, attention: AttentionPolicy, *, replays: bool, video: Video | None = None
    ) -> Decisions:
        """The decisions that a policy consumes, labelled with where they come from.

        Args:
            attention: Attention of the policy.
            replays: MLPs are replayed at all.
            video: The video to decode, where it is not the traces' own.

        Raises:
            InputError: A video that the traces' decisions cannot be extended to.
        """
        trace = self._recorded_under(attention)
        video = Video(trace.n_frames, trace.tokens_per_frame, 0) if video is None else video
        rows = max(trace.n_rows, 0 if self.resample_seed is None else self.batch)
        shape = DecisionShape(video.n_steps, self.model.body.n_layers, rows)
        check_decisions("policy.batch", shape, drawn=replays)
        found = (self._replayed if replays else self._dense)(trace, attention, video)
        have, wanted = trace.meta.decoded.n_kv_heads, self.model.body.n_kv_heads
        if found.reads is not None and have < wanted:
            mapped = f"head-mapped: {have} key heads stand for {wanted}"
            found = replace(found, label=f"{found.label}; {mapped}")
        if self.resample_seed is not None and self.batch > found.n_rows:
            rng, per_frame = np.random.default_rng(self.resample_seed), video.tokens_per_frame
            found = resample(found, rng, tokens_per_frame=per_frame, n_rows=self.batch)
        return found

    # ---------------------------------------------------------------- private

    def _dense(self, trace: Trace, attention: AttentionPolicy, video: Video) -> Decisions:
        n_layers = self.model.body.n_layers
        none = dense(video.n_steps, n_layers, trace.n_rows, trace.meta.guidance_pairs)
        if not attention.records:
            return none
        own = map_layers(self._resized(captured(trace), trace, video), n_layers)
        label = f"{none.label}; keys are read as {own.label}"
        return replace(none, reads=own.reads, held=own.held, label=label)

    def _replayed(self, trace: Trace, attention: AttentionPolicy, video: Video) -> Decisions:
        found = captured(trace) if self.tau == "captured" else rethreshold(trace, self.tau)
        found = replace(found, rule=self.rule(attention))
        found = rescope(found, self.scope, self.batch)
        if not attention.records:  # what the trace's own attention read is of no use
            found = replace(found, reads=None, held=None)
        if trace.meta.origin != STATED:  # assumed decisions hold for any machine
            for mismatch in self._mismatches(trace, attention):
                found = replace(found, label=f"{found.label}; {mismatch}")
        return map_layers(self._resized(found, trace, video), self.model.body.n_layers)

    def _recorded_under(self, attention: AttentionPolicy) -> Trace:
        """The trace of a policy, refused where it lacks what the policy reads."""
        trace = self.trace_for(attention)
        if attention.records and trace.meta.attention != attention:
            problem = f"was made under {trace.meta.attention.text}; what {attention.text} reads"
            cure = "pass a trace that was captured under it"
            raise InputError(trace.name, f"{problem} depends on the data", cure)
        return trace

    def _resized(self, decisions: Decisions, trace: Trace, video: Video) -> Decisions:
        """Decisions of a trace for a video of as many frames and tokens as is asked for."""
        tokens = trace.tokens_per_frame
        if video.n_frames < trace.n_frames:
            decisions = crop(decisions, video.n_frames, tokens)
        elif video.n_frames > trace.n_frames:
            if self.resample_seed is None:
                problem = f"{video.n_frames} are more than the {trace.n_frames} of {trace.name}"
                cure = "give a seed to resample with, or a longer trace"
                raise InputError("video.frames", problem, cure)
            rng = np.random.default_rng(self.resample_seed)
            decisions = resample(decisions, rng, tokens_per_frame=tokens, n_frames=video.n_frames)
        return enlarge(decisions, tokens, video.tokens_per_frame)

    def _mismatches(self, trace: Trace, attention: AttentionPolicy) -> list[str]:
        """A phrase for each way in which decisions were made unlike they are run."""
        found, made, meta = [], trace.meta.attention, trace.meta
        if made.kind != attention.kind:
            found.append(f"made under {made.kind} attention, run under {attention.kind}")
        elif made != attention:
            found.append(f"made under {made!r}, run under {attention!r}")
        model = self.model
        weights, activations, kv, replay = (
            each.bits for each in (model.weights, model.activations, model.kv, model.replay)
        )
        run_in = in_short(weights, activations, kv, replay, model.polished)
        if meta.precision is not None and meta.precision.short != run_in:
            found.append(f"made in {meta.precision.short}, run in {run_in}")
        if self.tokens_per_step > 1:  # traces hold decisions of tokens that saw all before them
            found.append(f"made a token a step, run with {self.tokens_per_step}")
        return found
