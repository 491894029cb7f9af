"""The phases of a layer-step, a head and a prompt on one hardware, many cases of a kind at once.

A layer-step is QKV projection, attention, output projection, then dispatch, MLP and replay.
Attention is a phase of its own because only it depends on the context.

Simplifications: a barrier at the end of every phase, so that cores with fewer sequences wait for
the fullest one four times a layer-step; where attention is split and MLPs are not, the exchange
that brings an MLP's outputs to all cores is charged under a central schedule only, and there with
the way to the mapped core, which the gather after the output projection has made needless; where
leftover sequences are split, Q, K, V and attention outputs change cores for free (against
a static schedule, less than 0.2 % of a dense layer-step of the shipped designs), and so do those of
a set of tokens, which its sequence's own core attends with; every token of a set reads what the
last one of it reads (a policy of its own work pays that for each); where what is read depends on
the data, cores share it evenly.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property, partial
from math import ceil
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.cost.capacity import machine_shape
from carsim.cost.fit import activation_bytes_per_token, sequences_per_core
from carsim.decisions.attention import PLAIN, AttentionPolicy, SideWork
from carsim.decisions.replay import NO_WORK, Point, ReplayRule, RuleWork, later
from carsim.hardware.schedule import BASELINE, REPLAYS, Schedule
from carsim.machine import solver
from carsim.machine.array import vector_cycles
from carsim.machine.batches import distinct_rows, renumber
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import Ints, OpOf, Step, lower
from carsim.machine.phase import (
    Dispatch,
    Emit,
    Outcome,
    Phase,
    Replay,
    Timing,
    emit_slices,
    moved_bytes,
    outcome,
    repeats,
)
from carsim.workload.model import Model
from carsim.workload.ops import (
    Category,
    Count,
    HeadPass,
    HeadStep,
    Op,
    Slice,
    Stream,
    attend_op,
    choose_op,
    head_op,
    head_passes,
    mlp_ops,
    output_op,
    qkv_op,
    replay_op,
    score_op,
)

SOLVED = "fluid"
"""The default rung."""


def _simulated(phase: Phase) -> Timing:
    """As :func:`carsim.machine.parts.simulate`, which is loaded when it is first asked for."""
    from carsim.machine import parts

    return parts.simulate(phase)


FIDELITIES: Mapping[str, Callable[[Phase], Timing]] = MappingProxyType(
    {SOLVED: solver.solve, "tile": _simulated}
)
"""Rungs of the ladder: solved for all phases at once, or simulated tile by tile."""


CONTIGUOUS_BYTES = 1 << 16
"""Runs of keys of so many bytes are as good as one: a memory sustains no more for longer ones."""


MOST_KEPT = 1 << 16
"""Phases of one hardware that are kept for later runs: some 20 MB. The longest unused go first."""


ASSIGNED = 1 << 20
"""Sequences that are assigned to cores at a time, so that memory is bounded."""


class AttendCases(NamedTuple):
    """Inputs of n attention phases; with hardware and policy they determine the outcome.

    Attributes:
        attended: Tokens of the KV cache that each query reads, itself included, [n].
        runs: Contiguous runs of the cache in which they lie, [n].
        contexts: Tokens that dense attention would read, [n]; 0 where the policy's own work does
            not depend on them.
    """

    attended: Ints
    runs: Ints
    contexts: Ints

    def distinct(self) -> tuple["AttendCases", NDArray[np.intp]]:
        """The different cases of many layer-steps, and which of them each is, of the same shape."""
        attended, runs, contexts = most = [1 + int(each.max(initial=0)) for each in self]
        if attended * runs * contexts >= 1 << 62:
            every = AttendCases(*(each.ravel() for each in self))
            first, number = distinct_rows(np.stack(every, axis=1), max(most))
            return every.take(first), number.reshape(self.attended.shape)
        codes = (self.attended * runs + self.runs) * contexts + self.contexts
        codes, index = renumber(codes, attended * runs * contexts)
        codes, context = np.divmod(codes, contexts)
        return AttendCases(codes // runs, codes % runs, context), index

    def take(self, index: NDArray[Any]) -> "AttendCases":
        """Some of the cases."""
        return AttendCases(*(each[index] for each in self))


class MlpCases(NamedTuple):
    """Inputs of n MLP phases; with hardware and schedule they determine the outcome.

    Attributes:
        computing: Sequences that compute, bool[n, B] for the B that are dispatched together.
        known_cycles: Cycles for which decisions have been known when the phase begins, [n]; None if
            nothing was decided.
        home: Core of the first of these sequences, up to attention; the next has the next.
    """

    computing: NDArray[np.bool_]
    known_cycles: Ints | None
    home: int = 0

    def take(self, index: NDArray[Any]) -> "MlpCases":
        """Some of the cases."""
        known = self.known_cycles
        return MlpCases(self.computing[index], None if known is None else known[index], self.home)


class Phases:
    """Outcomes of the phases of one hardware on one rung; a repeated case is looked up.

    Args:
        hw: The hardware.
        fidelity: A key of :data:`FIDELITIES`.
        emit: Observer of slices of time, told of every phase each time it occurs; or None.

    Attributes:
        hw: The hardware.
        fidelity: The rung.
        latencies: Cycles from request to first byte, by memory.
        interpolated: The rung took the times of some phases from those of others.
        proven: What :mod:`carsim.machine.ranges` has found to be within 64 bits.

    Raises:
        InputError: No such rung.
    """

    def __init__(self, hw: Hardware, fidelity: str = SOLVED, emit: Emit | None = None) -> None:
        if fidelity not in FIDELITIES:
            known = ", ".join(FIDELITIES)
            raise InputError("`fidelity`", f"no rung {fidelity!r}", f"choose one of {known}")
        self.hw = hw
        self.fidelity = fidelity
        self.interpolated = False
        self._taken = 0  # phases but those of attention
        self._attended: dict[Hashable, list[AttendCases]] = {}  # by all else that they depend on
        self._emit = emit
        self._memo: OrderedDict[Hashable, Outcome] = OrderedDict()  # used last stands last
        self._kept = 0  # phases in it
        self.proven: set[Hashable] = set()
        self._mlp_bounds: dict[tuple[int, ReplayRule | None], tuple[Ints, Ints]] = {}
        machine = hw.design.machine
        latencies = [path.latency_cycles for path in hw.paths]
        if machine.cores > 1 and hw.is_lockstep(hw.mapping.splits_mlp):
            latencies[hw.path_of[Stream.WEIGHTS]] += machine.overheads.broadcast_cycles
        self.latencies = tuple(latencies)

    @property
    def simulated(self) -> int:
        """Different phases that were taken through the rung so far."""
        found = self._taken
        for cases in self._attended.values():
            every = AttendCases(*map(np.concatenate, zip(*cases, strict=True)))
            found += len(every.distinct()[0].attended)
        return found

    def qkv(self, rule: ReplayRule | None) -> Outcome:
        """Norm and QKV projection; ``rule``: by which this step is scored, None if it is not."""
        return self._once(("qkv", rule), lambda: self.qkv_phase(rule))

    def attention(
        self,
        rule: ReplayRule | None,
        cases: AttendCases,
        policy: AttentionPolicy,
        aligned_outside: bool,
        frame_steps: int = 0,
    ) -> Outcome:
        """Attention over the cache, for n cases.

        Args:
            rule: Rule of replay by which these steps are scored, None if they are not.
            cases: Keys that are read.
            policy: Attention policy, with the cost of its decisions.
            aligned_outside: The cached key that is scored is not among the keys that are read.
            frame_steps: Steps over which the policy's work at the end of a frame is spread; 0 where
                it has none.
        """
        aligned_outside = aligned_outside and rule is not None
        chunks = self.chunk_bytes(cases, policy)
        sizes = sorted(set(chunks.tolist()))
        if len(sizes) == 1:
            return self._attend(rule, cases, policy, aligned_outside, frame_steps)
        places = [np.flatnonzero(chunks == size) for size in sizes]
        found = [
            self._attend(rule, cases.take(at), policy, aligned_outside, frame_steps)
            for at in places
        ]
        return Outcome.join(found).take(np.argsort(np.concatenate(places)))

    def alike(self, cases: AttendCases, policy: AttentionPolicy) -> AttendCases:
        """The cases with one number of runs for all that are of one length class.

        Phases depend on runs by their class alone, so that fewer of them differ.
        """
        chunks = self.chunk_bytes(cases, policy)
        runs = np.maximum(1, cases.attended * self.key_bytes(policy) // chunks)
        return cases._replace(runs=np.where(chunks == CONTIGUOUS_BYTES, 1, runs))

    def output(self, rule: ReplayRule | None = None) -> Outcome:
        """Output projection and residual; norm and score where ``rule`` looks at the residual."""
        rule = rule if _at_residual(rule) else None
        return self._once(("output", rule), lambda: self.output_phase(rule))

    def mlp(self, schedule: Schedule, cases: MlpCases, rule: ReplayRule | None = None) -> Outcome:
        """Dispatch, MLP and replay of n layer-steps.

        Args:
            schedule: Who computes.
            cases: Who computes what, and since when that is known.
            rule: Rule of replay of the whole video: what it holds is written in any step.
        """
        known = None if cases.known_cycles is None else cases.known_cycles.tobytes()
        rule = self._felt_by_mlp(rule)
        computing = cases.computing.shape, cases.computing.tobytes(), cases.home
        key = ("mlp", schedule.kind, computing, known, rule)
        return self._once(key, lambda: self.mlp_phase(schedule, cases, rule))

    def head(self) -> Outcome:
        """All dependent passes of the head, for one step of all sequences."""
        times = Counter(self.head_passes)
        found, counts = [], []
        for steps in dict.fromkeys(each.steps for each in times):
            alike = [each for each in times if each.steps == steps]
            found.append(self.head_pass(steps, np.array([each.codes for each in alike])))
            counts += [times[each] for each in alike]
        return Outcome.join(found).summed(np.array(counts))

    @cached_property
    def head_passes(self) -> tuple[HeadPass, ...]:
        """Phases of the head in their order; rows without pairs pay for the mixing of guidance."""
        return head_passes(self._model, guided=self.hw.batch % 2 == 0)

    def head_pass(self, steps: tuple[HeadStep, ...], codes: Ints) -> Outcome:
        """A pass of the head, for n numbers of codes that its attention reads."""
        key = "head", steps, codes.tobytes()
        return self._once(key, lambda: self.head_phase(steps, codes))

    @property
    def host_cycles(self) -> int:
        """Fabric cycles of launches, host, sampling and embedding in one token step."""
        design = self.hw.design
        of_step_us = design.machine.overheads.of_step_us(design.model.body.n_layers)
        return ceil(of_step_us * design.board.fabric_clock_mhz)

    def host(self) -> Outcome:
        """Time of the host in a token step, after layers and head; no core or memory works."""
        cycles = np.array([self.host_cycles])
        nbytes = np.zeros((1, len(self.hw.paths)), np.int64)
        idle = Timing.of(np.zeros((5, 0, 1, 1), np.int64), cycles, np.zeros(1, np.int64))
        found = outcome(Phase((), self.latencies, cycles, nbytes), idle)
        found.times[:] = 0
        found.times[:, Category.HOST] = cycles
        return found

    def prefill_layer(self, tokens: int, window: int | None = None) -> Outcome:
        """One layer of the prompt, ``tokens`` per sequence, all computing.

        Args:
            tokens: Tokens of the prompt.
            window: Newest tokens that each attends to; None: all.
        """
        window = None if window is not None and window >= tokens else window
        return self._once(("prefill", tokens, window), lambda: self.prefill_phase(tokens, window))

    def first_operand_cycles(self, longest: int) -> dict[str, int]:
        """Cycles of memory that filling the buffers with each phase's first operand takes.

        Args:
            longest: Tokens of the longest context.
        """
        longest_case = AttendCases(np.array([longest]), np.array([1]), np.array([longest]))
        everyone = MlpCases(np.ones((1, self.hw.rows), np.bool_), None)
        phases = {
            "qkv": self.qkv_phase(None),
            "attention": self.attention_phase(None, longest_case, PLAIN, False),
            "output": self.output_phase(),
            "mlp": self.mlp_phase(BASELINE, everyone),
        }
        found = {}
        for name, phase in phases.items():
            first = phase.steps[0]
            held = np.minimum(first.stream_bytes, first.slots * first.tile_bytes).sum()
            found[name] = ceil(int(held) / first.rate)
        return found

    # ------------------------------------------------------------------ what the rungs are given

    def qkv_phase(self, rule: ReplayRule | None) -> Phase:
        """The phase behind :meth:`qkv`."""
        ops = self.qkv_ops(rule)
        return self._home(ops, self.hw.mapping.splits_attention, self.hw.home_loads)

    def qkv_ops(self, rule: ReplayRule | None) -> list[OpOf]:
        """The ops of :meth:`qkv`."""

        def op(rows: Count, part: Slice, streams: Count) -> Op:
            score = self._score(rule, "q", part)
            return qkv_op(
                self._model,
                rows,
                part,
                streams=streams,
                score_ops=score.vector_ops,
                key_elements=score.key_elements,
                held_bytes=score.held_bytes,
            )

        return [op]

    def attention_phase(
        self,
        rule: ReplayRule | None,
        cases: AttendCases,
        policy: AttentionPolicy,
        aligned_outside: bool,
        frame_steps: int = 0,
    ) -> Phase:
        """The phase behind :meth:`attention`; runs of keys are of one length class."""
        ops = self.attend_ops(rule, cases, policy, aligned_outside, frame_steps)
        split, n = self.hw.mapping.splits_attention, len(cases.attended)
        phase = self._home(ops, split, self.hw.home_sequences, n)
        chunk = int(self.chunk_bytes(cases, policy)[0])
        if chunk == CONTIGUOUS_BYTES:
            return phase
        *before, step = phase.steps
        rate = self.hw.gather_rate(step.path, chunk)
        return replace(phase, steps=(*before, step._replace(rate=rate)))

    def attend_ops(
        self,
        rule: ReplayRule | None,
        cases: AttendCases,
        policy: AttentionPolicy,
        aligned_outside: bool,
        frame_steps: int = 0,
    ) -> list[OpOf]:
        """The ops of :meth:`attention`; arguments as there."""
        reads, tokens = cases.attended[:, None], self.hw.design.policy.tokens_per_step
        side = self._side_work(policy, cases, frame_steps)
        macs, vector_ops, read, written, scan, elements = (
            tokens * np.reshape(getattr(side, each.name), (-1, 1)) for each in fields(side)
        )
        written = written + self._model.kv.bytes_of(elements)
        chooses = bool(scan.any())  # what is fetched hangs on this work, and waits for it

        def choose(rows: Count, part: Slice, streams: Count) -> Op:
            return choose_op(
                self._model, rows, part, macs=macs, vector_ops=vector_ops, read_bytes=read
            )

        def attend(rows: Count, part: Slice, streams: Count) -> Op:
            score = self._score(rule, "attention", part)
            return attend_op(
                self._model,
                rows,
                reads,
                part,
                tokens=tokens,
                score_ops=tokens * score.vector_ops,
                key_elements=tokens * score.key_elements if aligned_outside else 0,
                held_bytes=tokens * score.held_bytes,
                side_macs=0 if chooses else macs,
                side_vector_ops=0 if chooses else vector_ops,
                side_bytes=written if chooses else read + written,
                scan_cycles=scan,
                held_back=chooses,
            )

        return [choose, attend] if chooses else [attend]

    def output_phase(self, rule: ReplayRule | None = None) -> Phase:
        """The phase behind :meth:`output`; a score is taken once the residual is complete."""
        ops = self.output_ops(rule)
        return self._home(ops, self.hw.mapping.splits_attention, self.hw.home_loads)

    def output_ops(self, rule: ReplayRule | None) -> list[OpOf]:
        """The ops of :meth:`output`."""
        model = self._model

        def project(rows: Count, part: Slice, streams: Count) -> Op:
            read = self._score(rule, "residual", part)
            return output_op(
                model,
                rows,
                part,
                streams=streams,
                key_elements=read.key_elements,
                held_bytes=read.held_bytes,
            )

        def score(rows: Count, part: Slice, streams: Count) -> Op:
            ops = self._score(rule, "residual", part).vector_ops
            return score_op(model, rows, part, score_ops=ops)

        return [project, score] if _at_residual(rule) else [project]

    def mlp_phase(
        self, schedule: Schedule, cases: MlpCases, rule: ReplayRule | None = None
    ) -> Phase:
        """The phase behind :meth:`mlp`."""
        hw, split = self.hw, self.hw.mapping.splits_mlp
        cores = hw.design.machine.cores
        computing = cases.computing
        decided = cases.known_cycles is not None
        loads, moved = self.loads(schedule, cases)
        ops = self.mlp_ops(normed=decided and _at_residual(rule), rule=rule)
        steps = lower(hw, ops, loads, split=split, moved=moved)
        replaying = computing.shape[1] - computing.sum(axis=1)
        at_work, damped = (loads > 0).sum(axis=1), rule is not None and rule.damps
        replay = self._replay(replaying, at_work, damped) if replaying.any() else None
        dispatch = None
        if cases.known_cycles is not None:
            dispatch = Dispatch(
                schedule, hw.design.machine.drs, cores, computing, cases.known_cycles
            )
        return Phase(
            steps=steps,
            latencies=self.latencies,
            # The bound of MLPs knows no groups of sequences: see mlp_bound.
            bound_cycles=np.zeros(len(loads), np.int64),
            bound_dram_bytes=np.zeros((len(loads), len(hw.paths)), np.int64),
            replay=replay,
            dispatch=dispatch,
            # A core that owns its sequences, or shares its weights with all, knows what to fetch.
            early_fetch=hw.is_lockstep(split) or not schedule.central,
        )

    def loads(self, schedule: Schedule, cases: MlpCases) -> tuple[Ints, Ints]:
        """Sequences of each core, [n, C], and by lane, how many come from another core, [n, K].

        Where attention is split, no core is a sequence's home: all travel under a central schedule.
        """
        hw, split = self.hw, self.hw.mapping.splits_mlp
        cores = hw.design.machine.cores
        loads, moved = core_loads(schedule, cases.computing, cores, cases.home)
        if hw.mapping.splits_attention:
            moved = loads
        if hw.is_lockstep(split):
            moved = moved.sum(axis=1, keepdims=True)
        decided = cases.known_cycles is not None
        return loads, moved * (decided and schedule.central and not split)

    def head_phase(self, steps: Sequence[HeadStep], codes: Ints) -> Phase:
        """The phase behind :meth:`head_pass`."""
        split, home = self.hw.mapping.splits_mlp, self.hw.home_loads[None, :]
        ops = self.head_ops(steps, codes[:, None])
        lowered = lower(self.hw, ops, home, split=split)
        return Phase(lowered, self.latencies, *self._bound(lowered, len(codes)))

    def head_ops(self, steps: Sequence[HeadStep], codes: Count) -> list[OpOf]:
        """The ops of :meth:`head_pass`."""
        return [partial(head_op, self._model, step, codes=codes) for step in steps]

    def prefill_phase(self, tokens: int, window: int | None = None) -> Phase:
        """The phase behind :meth:`prefill_layer`."""
        ops = self.prefill_ops(tokens, window)
        return self._home(ops, self.hw.mapping.splits_mlp, self.hw.home_sequences)

    def prefill_ops(self, tokens: int, window: int | None) -> list[OpOf]:
        """The ops of :meth:`prefill_layer`.

        Where the activation buffer holds the widest activations of fewer tokens than a core has,
        they are taken in several passes and the weights are streamed once per pass.
        """
        hw, model = self.hw, self._model
        batch, split = hw.batch, hw.mapping.splits_mlp
        rows = sequences_per_core(hw.design.machine, batch, split=split) * tokens
        row_bytes = activation_bytes_per_token(model, hw.design.machine)
        passes = -(-rows * row_bytes // hw.design.machine.activation_buffer_bytes)
        return [
            lambda rows, part, n: qkv_op(model, rows, part, streams=n * passes, tokens=tokens),
            lambda rows, part, n: attend_op(
                model, rows, tokens, part, tokens=tokens, causal=True, window=window
            ),
            lambda rows, part, n: output_op(model, rows, part, streams=n * passes, tokens=tokens),
            *self.mlp_ops(passes=passes, tokens=tokens, cached=False),
        ]

    # ---------------------------------------------------------------------------------- private

    @property
    def _model(self) -> Model:
        return self.hw.design.model

    def _once(self, key: Hashable, make: Callable[[], Phase]) -> Outcome:
        if key in self._memo and self._emit is None:
            self._memo.move_to_end(key)
            return self._memo[key]
        phase = make()
        timing = FIDELITIES[self.fidelity](phase)
        found = outcome(phase, timing)
        if self._emit is not None:
            emit_slices(phase, timing, self._emit)
            return found
        self._taken += phase.n
        self.interpolated |= timing.interpolated
        self._memo[key] = found
        self._kept += phase.n
        while self._kept > MOST_KEPT and len(self._memo) > 1:
            _, oldest = self._memo.popitem(last=False)
            self._kept -= len(oldest.cycles)
        return found

    def _attend(
        self,
        rule: ReplayRule | None,
        cases: AttendCases,
        policy: AttentionPolicy,
        aligned_outside: bool,
        frame_steps: int,
    ) -> Outcome:
        """Attention phases whose runs of keys are of one length class."""
        kind = ("attention", rule, policy, aligned_outside, frame_steps)
        key = (kind, tuple(each.tobytes() for each in cases))
        if key not in self._memo and self._emit is None:
            # Counted by what they do: policies without work of their own differ in what they read.
            plain = type(policy).side_work is AttentionPolicy.side_work and not frame_steps
            works = None if plain and not policy.records else policy
            self._attended.setdefault((rule, works, aligned_outside, frame_steps), []).append(cases)
            self._taken -= len(cases.attended)
        return self._once(
            key,
            lambda: self.attention_phase(rule, cases, policy, aligned_outside, frame_steps),
        )

    def _side_work(self, policy: AttentionPolicy, cases: AttendCases, frame_steps: int) -> SideWork:
        """A policy's own work in a step, with its share of what is done after each frame."""
        body = self._model.body
        at = cases.attended if policy.follows_reads else cases.contexts
        side = policy.side_work(at, body.n_heads, body.n_kv_heads, body.head_dim)
        if not frame_steps:
            return side
        frame = policy.frame_work(at, frame_steps, body.n_kv_heads, body.head_dim)
        return SideWork(
            **{
                name: each + -(-getattr(frame, name) // frame_steps)
                for name, each in vars(side).items()
            }
        )

    def chunk_bytes(self, cases: AttendCases, policy: AttentionPolicy) -> Ints:
        """Bytes of a run of keys: a power of two, or what is as good as contiguous, [n]."""
        of_all = cases.attended * self.key_bytes(policy)
        chunk = np.maximum(1, of_all // np.maximum(1, cases.runs))
        power: Ints = 1 << np.log2(chunk).astype(np.int64)
        single = cases.runs <= 1
        return np.where(single, CONTIGUOUS_BYTES, np.minimum(power, CONTIGUOUS_BYTES))

    def key_bytes(self, policy: AttentionPolicy) -> int:
        """Bytes of a run for each of its tokens.

        Where heads read alike, the keys of a token lie side by side; where each reads its own, the
        cache lies head by head.
        """
        body = self._model.body
        key: int = self._model.kv.bytes_of(body.head_dim if policy.records else body.kv_size)
        return 2 * key if self.hw.design.machine.kv_layout == "interleaved" else key

    def _home(self, ops: Sequence[OpOf], split: bool, loads: Ints, n: int = 1) -> Phase:
        """N phases of all tokens or sequences, each on its own core or split over all."""
        steps = lower(self.hw, ops, loads[None, :], split=split)
        return Phase(steps, self.latencies, *self._home_bound(ops, steps, split, loads, n))

    def _home_bound(
        self, ops: Sequence[OpOf], steps: Sequence[Step], split: bool, home: Ints, n: int
    ) -> tuple[Ints, Ints]:
        """The least over spreads of all sequences: private weights cost a stream for each core."""
        cycles, nbytes = self._bound(steps, n)
        if self.hw.is_lockstep(split):
            return cycles, nbytes
        batch = int(home.sum())
        # Some cores have a sequence more than the others; those of either kind are alike.
        used = np.arange(1, min(self.hw.design.machine.cores, batch))
        each, more = batch // used, batch % used
        cores = np.stack([more, used - more], axis=1)  # [spreads, 2]
        loads = np.stack([each + 1, each], axis=1) * (cores > 0)
        # Phases that differ in nothing else take all spreads side by side.
        at_once = len(used) if n == 1 else 1
        for first in range(0, len(used), max(1, at_once)):
            spreads = slice(first, first + at_once)
            lanes = lower(self.hw, ops, loads[spreads], split=split)
            other = self._bound(lanes, max(n, at_once), alike=cores[spreads])
            if n == 1:
                least = np.array([other[0].argmin()])
                other = other[0][least], other[1][least]
            less = other[0] < cycles
            cycles = np.where(less, other[0], cycles)
            nbytes = np.where(less[:, None], other[1], nbytes)
        return cycles, nbytes

    def _score(self, rule: ReplayRule | None, point: Point, part: Slice) -> RuleWork:
        """Work of a row's score on a core, if it is taken at this point of the layer.

        It is taken as early as the design says, if the rule is known by then; else, what can be
        known before attention is taken beside it.
        """
        if rule is None:
            return NO_WORK
        taken: Point = "residual" if _at_residual(rule) else "attention"
        if later(self.hw.design.machine.decision_at, rule.known_at) == "q":
            taken = "q"
        return self._work(rule, part) if taken == point else NO_WORK

    def _work(self, rule: ReplayRule | None, part: Slice) -> RuleWork:
        """Work of a rule for one row on a core."""
        return NO_WORK if rule is None else rule.work(machine_shape(self._model, part.of))

    def _felt_by_mlp(self, rule: ReplayRule | None) -> ReplayRule | None:
        """A rule that norms what the MLP reads, holds data that it writes, or damps; else None."""
        if rule is None or _at_residual(rule) or rule.damps:
            return rule
        return rule if self._work(rule, Slice()).held_bytes else None

    def mlp_ops(
        self,
        *,
        passes: int = 1,
        tokens: int = 1,
        cached: bool = True,
        normed: bool = False,
        rule: ReplayRule | None = None,
    ) -> list[OpOf]:
        """The ops of :meth:`mlp` and of the MLPs of a prompt."""

        def nth(index: int) -> OpOf:
            def op(rows: Count, part: Slice, streams: Count) -> Op:
                return mlp_ops(
                    self._model,
                    rows,
                    part,
                    streams=streams * passes,
                    tokens=tokens,
                    cached=cached,
                    normed=normed,
                    held_bytes=self._work(rule, part).held_bytes,
                )[index]

            return op

        return [nth(index) for index in range(len(mlp_ops(self._model, 1, Slice())))]

    def _replay(self, replaying: Ints, at_work: Ints, damped: bool) -> Replay:
        """Replaying sequences; cores that compute an MLP add their residuals beside it, [n]."""
        hw, machine = self.hw, self.hw.design.machine
        split = hw.mapping.splits_mlp
        spread, part = (1, Slice(machine.cores)) if split else (machine.cores, Slice())
        slowest = replay_op(self._model, -(-replaying // spread), part, damped=damped)
        whole = replay_op(self._model, replaying, Slice(), damped=damped)
        cycles = vector_cycles(machine.vector, slowest.vector_ops)
        free_cores = machine.cores - at_work
        if hw.is_lockstep(split):
            free_cores = machine.cores * (at_work == 0)
        busy_cores = free_cores if split else np.minimum(replaying, free_cores)
        return Replay(
            path=hw.replay_path,
            rate=hw.paths[hw.replay_path].rate,
            nbytes=whole.replay_bytes,
            cycles=cycles,
            busy_cycles=busy_cores * cycles,
            vector_ops=whole.vector_ops,
            sram_bytes=2 * whole.replay_bytes,
        )

    def _bound(
        self,
        steps: Sequence[Step],
        n: int,
        replay_bytes: Ints | int = 0,
        fetched: Sequence[Step] | None = None,
        alike: Ints | int = 1,
    ) -> tuple[Ints, Ints]:
        """(Least cycles [n], bytes [n, memories]) of steps on the cores that they are given.

        The later of compute and bytes: no core is over 100 % busy, no memory over its rate. It
        charges nothing for latency, dispatch, exchange or imbalance.

        Args:
            steps: The steps.
            n: Phases.
            replay_bytes: Bytes of replays beside them.
            fetched: Steps whose bytes are charged instead, where another spread moves fewer.
            alike: Cores that each lane stands for, [K].
        """
        compute = np.zeros((n, 1), np.int64)
        for step, times in repeats(steps):
            own = step.pre_cycles + step.cycles - step.exchange_cycles
            compute = compute + times * own
        nbytes = moved_bytes(steps if fetched is None else fetched, n, len(self.hw.paths), alike)
        nbytes[:, self.hw.replay_path] += replay_bytes
        cycles = compute.max(axis=-1)
        for rate, moved in zip(self.hw.fastest_rates, nbytes.T, strict=True):
            numerator, denominator = rate.as_integer_ratio()
            cycles = np.maximum(cycles, -(-moved * denominator // numerator))
        return cycles, nbytes

    def mlp_bound(self, batch: int, rule: ReplayRule | None = None) -> tuple[Ints, Ints]:
        """Lower bound of an MLP over all assignments of whole sequences, by how many compute.

        The least over spreading n sequences evenly over u cores: with broadcast weights or split
        matrices bytes do not depend on u and the widest spread wins; with private weights each
        further core costs a stream. Of experts, that stream is least where all sequences but one
        for each further core are together, as they share what they choose.

        Args:
            batch: B, sequences of a layer-step; those that do not compute replay.
            rule: Rule of replay. Where its score needs the norm, that is charged with the score,
                and nowhere here, although the first frame has no score.

        Returns:
            Cycles [B + 1] and bytes [B + 1, memories].
        """
        rule = self._felt_by_mlp(rule)
        if (batch, rule) not in self._mlp_bounds:
            self._mlp_bounds[batch, rule] = self._least_mlp(batch, rule)
        return self._mlp_bounds[batch, rule]

    def _least_mlp(self, batch: int, rule: ReplayRule | None) -> tuple[Ints, Ints]:
        hw, split = self.hw, self.hw.mapping.splits_mlp
        cores = hw.design.machine.cores
        spreads = [(0, 1)]
        for n in range(1, batch + 1):
            most = min(cores, n)
            least = most if hw.is_lockstep(split) else 1
            spreads += [(n, used) for used in range(least, most + 1)]
        computing, used = np.array(spreads, np.int64).T
        core = np.arange(cores)
        even = computing // used
        loads = even[:, None] + (core < (computing - even * used)[:, None])
        loads = np.where(core < used[:, None], loads, 0)
        ops = self.mlp_ops(normed=_at_residual(rule), rule=rule)
        steps = lower(hw, ops, loads, split=split)
        damped = rule is not None and rule.damps
        replayed = replay_op(self._model, batch - computing, Slice(), damped=damped).replay_bytes
        fetched = None
        if self._model.body.experts is not None and not hw.is_lockstep(split):
            together = np.where(core < used[:, None], 1, 0)
            together[:, 0] += computing - together.sum(axis=1)
            fetched = lower(hw, ops, together, split=split)
        cycles, nbytes = self._bound(steps, len(loads), replayed, fetched)
        order = np.lexsort((used, cycles, computing))
        best = order[np.searchsorted(computing[order], np.arange(batch + 1))]
        return cycles[best], nbytes[best]


def _at_residual(rule: ReplayRule | None) -> bool:
    """The rule looks at the residual stream after attention, normed as for the MLP."""
    return rule is not None and rule.known_at == "residual"


def core_loads(
    schedule: Schedule, computing: NDArray[np.bool_], cores: int, home: int = 0
) -> tuple[Ints, Ints]:
    """Sequences of each core, and how many of them have another home: bool[n, B] -> int64[n, C].

    Cores are alike: the one with the most comes first. Parts of the rows are assigned at a time, so
    that memory is bounded.
    """
    n, batch = computing.shape
    both: Ints = np.zeros((n, cores), np.int64)
    for first in range(0, n, max(1, ASSIGNED // batch)):
        assigned = schedule.assign(computing[first : first + max(1, ASSIGNED // batch)], cores)
        moves = assigned != (home + np.arange(batch)) % cores
        # One place more for the sequences that replay.
        place = np.arange(len(assigned))[:, None] * (cores + 1) + assigned - REPLAYS
        size = len(assigned) * (cores + 1)
        found = np.bincount(place.ravel(), 1 + batch + moves.ravel(), minlength=size)
        both[first : first + len(assigned)] = found.reshape(len(assigned), -1)[:, 1:]
    both.sort(axis=1)
    loads, moved = np.divmod(both[:, ::-1], 1 + batch)
    return loads, moved
