"""Choose decisions: which of several traces a policy consumes, and what is done to fit them to it.

A policy takes the first trace that was captured under its own attention, else the first under the
same kind, else the first of all. Its decisions are then thresholded, scoped, resized, mapped to the
layers of the model and resampled as far as the design asks for it; the label says all of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from carsim.base.errors import InputError
from carsim.base.text import percent
from carsim.decisions.attention import PLAIN, AttentionPolicy
from carsim.decisions.attention.base import Bools, Ints
from carsim.decisions.replay import MachineShape, ReplayRule, Scope
from carsim.decisions.trace import Decisions, Trace, captured, dense
from carsim.decisions.trace.decisions import (
    COARSENESS,
    DecisionShape,
    check_decisions,
    replay_ratio,
    rescope,
    rethreshold,
)
from carsim.decisions.trace.meta import STATED, TOKEN, TraceMeta
from carsim.decisions.trace.precision import in_short
from carsim.decisions.trace.resize import crop, enlarge, layers_at_depth, map_layers, resample
from carsim.decisions.trace.token_ranges import METHODS, RangeDecisions
from carsim.workload.geometry import Video
from carsim.workload.model import Model
from carsim.workload.workload import TokenReuse

CAPTURED_SKIP = "mlp"
"""Kind of the blocks that rows skip unless a design says otherwise: the MLP alone."""


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
        skip: Kind of the blocks that a replaying row skips.
        replays: False: nothing replays, whatever the traces decided.
        skips_mlp_alone: In this model, the kind marks the MLP of every layer and nothing else.
        skipped: Decision -> names of the blocks that follow it, where several decisions are
            followed; else empty.
    """

    traces: Sequence[Trace]
    model: Model
    batch: int
    tau: Any
    scope: Scope
    tokens_per_step: int
    resample_seed: int | None = None
    skip: str = CAPTURED_SKIP
    replays: bool = True
    skips_mlp_alone: bool = False
    skipped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def replays_any(self) -> bool:
        """Something may replay: a trace has decisions, or a tau is asked for."""
        if not self.replays:
            return False
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
            unit = "frame" if video.kind == "video" else "text"
            size = f"{unit} of {video.tokens_per_frame}"
            problem = f"{self.tokens_per_step} tokens do not divide a {size}"
            raise InputError("policy.tokens_per_step", problem, "take a divisor of it")

    def trace_for(self, attention: AttentionPolicy) -> Trace:
        """The trace that a policy with this attention consumes.

        Fields of the same kind make no difference where reads follow from the context.
        """
        if attention.records:
            for trace in self.traces:
                if trace.meta.attention == attention:
                    return trace
        for trace in self.traces:
            if trace.meta.attention.kind == attention.kind:
                return trace
        return self.traces[0]

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
        if not attention.records or self.model.sample is not None:
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
        if self.model.sample is not None:
            attention = PLAIN  # a mask of forwards follows from the step
        trace = self._recorded_under(attention)
        video = Video(trace.n_frames, trace.tokens_per_frame, 0) if video is None else video
        rows = max(trace.n_rows, 0 if self.resample_seed is None else self.batch)
        shape = DecisionShape(video.n_steps, self.model.body.n_layers, rows)
        check_decisions("policy.batch", shape, drawn=replays)
        decide = self._replayed if replays else self._dense
        decisions = decide(trace, attention, video)
        if self.model.sample is not None:
            further = {name: scored.replay for name, scored in trace.further.items()}
            decisions = replace(
                decisions,
                rows_per_video=self.model.sample.passes,
                method="reuse of forwards",
                further=further if replays else {},
            )
            if replays and trace.ranges is not None:
                decisions = self._of_ranges(decisions, trace.ranges)
        trace_heads = trace.meta.decoded.n_kv_heads
        model_heads = self.model.body.n_kv_heads
        if decisions.reads is not None and trace_heads < model_heads:
            mapped = f"head-mapped: {trace_heads} key heads stand for {model_heads}"
            decisions = replace(decisions, label=f"{decisions.label}; {mapped}")
        if self.resample_seed is not None and self.batch > decisions.n_rows:
            rng = np.random.default_rng(self.resample_seed)
            tokens = video.tokens_per_frame
            decisions = resample(decisions, rng, tokens_per_frame=tokens, n_rows=self.batch)
        return decisions

    # ---------------------------------------------------------------- private

    def _dense(self, trace: Trace, attention: AttentionPolicy, video: Video) -> Decisions:
        """Decisions without replay; where the policy records what it reads, as the trace has it."""
        n_layers = self.model.body.n_layers
        no_replay = dense(video.n_steps, n_layers, trace.n_rows, trace.meta.guidance_pairs)
        if not attention.records:
            return no_replay
        of_trace = map_layers(self._resized(captured(trace), trace, video), n_layers)
        label = f"{no_replay.label}; keys are read as {of_trace.label}"
        return replace(no_replay, reads=of_trace.reads, held=of_trace.held, label=label)

    def _replayed(self, trace: Trace, attention: AttentionPolicy, video: Video) -> Decisions:
        """Decisions of a trace, at the design's threshold, for its layers, rows and video."""
        decisions = captured(trace) if self.tau == "captured" else rethreshold(trace, self.tau)
        decisions = replace(decisions, rule=self.rule(attention))
        names = [name for name in self.skipped if name != TOKEN]
        if names:
            decisions = replace(
                decisions,
                further={name: self._further(trace, name) for name in names},
                further_rules=tuple((name, self._further_rule(trace, name)) for name in names),
            )
        decisions = self._rescoped(decisions, trace.tokens_per_frame)
        if not attention.records:  # what the trace's own attention read is of no use
            decisions = replace(decisions, reads=None, held=None)
        if trace.meta.origin != STATED:  # assumed decisions hold for any machine
            for mismatch in self._mismatches(trace, attention):
                decisions = replace(decisions, label=f"{decisions.label}; {mismatch}")
        return map_layers(self._resized(decisions, trace, video), self.model.body.n_layers)

    def _of_ranges(self, decisions: Decisions, ranges: RangeDecisions) -> Decisions:
        """Decisions by range for the layers and tokens of the model that is simulated."""
        network = self.model.network
        sample = self.model.sample
        assert network is not None
        assert sample is not None
        layers = layers_at_depth(ranges.reused.shape[1], self.model.body.n_layers)
        tokens = network.tokens(sample)
        label = decisions.label
        if tokens != ranges.tokens:
            label = f"{label}; {ranges.tokens:,} tokens of a row stand for {tokens:,}"
        method = METHODS[ranges.source]
        if ranges.whole_forwards is not None:
            method = f"{decisions.method} and {method}"
        return replace(
            decisions,
            ranges=ranges.of_layers(layers).with_tokens(tokens),
            method=method,
            label=label,
        )

    @property
    def reuse(self) -> TokenReuse | None:
        """Outputs that tokens of forwards reuse; None where whole rows decide."""
        if self.replays:
            for trace in self.traces:
                ranges = trace.meta.ranges
                if ranges is not None:
                    return TokenReuse(ranges.source, bool(ranges.whole_forwards))
        return None

    def _further(self, trace: Trace, name: str) -> Bools:
        """The decision of a name beside ``token``, bool[S, L, B].

        Raises:
            InputError: The trace lacks it.
        """
        if name not in trace.further:
            names = ", ".join([TOKEN, *trace.further])
            problem = f"follows the decision {name!r}, and {trace.name} has {names}"
            raise InputError("policy.skip", problem, "name one of them, or take another trace")
        replay: Bools = trace.further[name].replay
        return replay

    def _further_rule(self, trace: Trace, name: str) -> ReplayRule:
        """The rule of a decision beside ``token``, at the width of the simulated model.

        Raises:
            InputError: The rule holds data, which only that of ``token`` may.
        """
        rule = trace.meta.further[name].rule
        assert rule is not None  # else the trace is refused
        rule = rule.at_width(trace.meta.decoded.hidden_size, self.model.body.hidden_size)
        if rule.work(self._machine_shape).held_bytes:
            problem = f"{name!r} is decided by {rule.text}, which holds data for each place"
            cure = f"make it the decision {TOKEN!r} of the trace"
            raise InputError(trace.name, problem, cure)
        return rule

    @property
    def _machine_shape(self) -> MachineShape:
        """The model as rules of replay see it."""
        body = self.model.body
        return MachineShape(
            n_heads=body.n_heads,
            n_kv_heads=body.n_kv_heads,
            head_dim=body.head_dim,
            hidden_size=body.hidden_size,
            activation_bits=self.model.activations.bits_per_element,
        )

    def _rescoped(self, decisions: Decisions, tokens_per_frame: int) -> Decisions:
        """Decisions of the asked scope; the label says how many replays the scope takes away."""
        rescoped = rescope(decisions, self.scope, self.batch)
        if rescoped is decisions:
            return decisions
        _, before = replay_ratio(decisions.replay, tokens_per_frame)
        _, after = replay_ratio(rescoped.replay, tokens_per_frame)
        lost = f"{percent(after)} of eligible steps replay instead of {percent(before)}"
        return replace(rescoped, label=f"{rescoped.label}: {lost}")

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
        meta = trace.meta
        captured_under = meta.attention
        mismatches: list[str] = []
        is_captured = self.skip == meta.captured_skip
        if self.skipped:
            is_captured = all(
                blocks == self._captured_blocks(trace, name)
                for name, blocks in self.skipped.items()
            )
        if not is_captured and not (self.skips_mlp_alone and meta.captured_skip == CAPTURED_SKIP):
            skips = f"made under skip {meta.captured_skip}, run under skip {self.skip}"
            mismatches.append(f"{skips} (open loop)")
        unused = [name for name in meta.further if name not in self.skipped]
        if unused:
            mismatches.append(f"without the decisions {', '.join(unused)} of the trace")
        mismatches += self._scopes_unlike(meta)
        if captured_under.kind != attention.kind:
            kinds = f"made under {captured_under.kind} attention, run under {attention.kind}"
            mismatches.append(kinds)
        elif captured_under != attention:
            mismatches.append(f"made under {captured_under!r}, run under {attention!r}")
        model = self.model
        run_in = in_short(
            model.mean_body_bits,
            model.activations.bits,
            kv=model.kv.bits,
            replay=model.replay.bits,
            polished=model.polished,
        )
        if meta.precision is not None and meta.precision.short != run_in:
            mismatches.append(f"made in {meta.precision.short}, run in {run_in}")
        if self.tokens_per_step > 1:  # traces hold decisions of tokens that saw all before them
            mismatches.append(f"made a token a step, run with {self.tokens_per_step}")
        return mismatches

    def _scopes_unlike(self, meta: TraceMeta) -> list[str]:
        """A phrase for each further decision whose rows decide together unlike the design asks.

        Where the trace's own decision is made coarser, so are all that are finer.
        """
        phrases = []
        is_rescoped = self.scope != meta.decision_scope
        for name in self.skipped:
            scope = meta.replay_of(name).scope
            follows = is_rescoped and COARSENESS[scope] < COARSENESS[self.scope]
            if name != TOKEN and scope != self.scope and not follows:
                phrases.append(f"decision {name} of scope {scope}, run under {self.scope}")
        return phrases

    def _captured_blocks(self, trace: Trace, name: str) -> tuple[str, ...]:
        """Names of the blocks that a decision of a trace was made to skip."""
        decision = (trace.meta.decisions or {}).get(name)
        return (CAPTURED_SKIP,) if decision is None else decision.blocks
