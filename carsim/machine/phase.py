"""Simulate one phase of a layer-step by itself: projection, attention, output, MLP; head; prefill.

A phase starts with its inputs there and ends when its last core, its last replay and its last write
are done; what crosses its boundary is what has been fetched ahead (:class:`Ahead`). No state
depends on absolute time, so a phase that is given the same takes the same, and a run is a sum of
phases. Attention is a phase of its own because only it depends on the context length.

Simplifications: a barrier at the end of every phase, so cores with fewer sequences wait for the
fullest one four times a layer-step; what was fetched ahead is levelled there to the least of all
cores, and to whole ``LEAD_GRAIN_BYTES`` if still under way. Under mapping ``heads``, nothing is
fetched ahead from attention to the MLP or back, as buffers change hands; the attention of the
prompt is taken by sequences; and the exchange that brings an MLP's outputs to all cores is charged
under ``drs`` and ``pack`` only, and there with the way to the mapped core, which the gather after
the output projection has made needless (against ``static``, less than 0.2 % of a dense layer-step
of the shipped designs).
"""

from collections.abc import Sequence
from functools import cache, cached_property
from typing import NamedTuple, cast

from carsim.design import Model
from carsim.machine.alone import is_alone, run_alone
from carsim.machine.array import vector_cycles
from carsim.machine.bench import Ahead, Bench, PhaseResult
from carsim.machine.bound import Bound, assignments, lanes_bound
from carsim.machine.hardware import Hardware
from carsim.machine.lane import Emit, Lead, Step
from carsim.machine.lowering import Lane, OpOf, lower
from carsim.machine.many import ints
from carsim.workload.ops import (
    Category,
    Op,
    Slice,
    attend_op,
    head_ops,
    mlp_ops,
    output_op,
    qkv_op,
    replay_op,
)

FEWEST_AT_ONCE = 4
"""Phases for which arrays are no slower than the event loop."""


class QkvCase(NamedTuple):
    """What determines norm and QKV projection, given the hardware.

    Attributes:
        scored: TAS is computed in this step.
        attended: Cached tokens that attention will read, as far as it sets what can be fetched
            ahead of it (see :meth:`Phases.qkv_case`).
        before: What the phase before has fetched.
    """

    scored: bool
    attended: int
    before: Ahead


class AttendCase(NamedTuple):
    """What determines attention over the cache.

    Attributes:
        scored: TAS is computed in this step.
        attended: Tokens of the KV cache that each query reads, itself included.
        aligned_outside: The aligned key lies outside of the attended window.
        before: What the phase before has fetched.
    """

    scored: bool
    attended: int
    aligned_outside: bool
    before: Ahead


class OutputCase(NamedTuple):
    """What determines the output projection.

    Attributes:
        mlp_lead: MLP weights may be fetched before the phase ends.
        before: What the phase before has fetched.
    """

    mlp_lead: bool
    before: Ahead


class MlpCase(NamedTuple):
    """What determines dispatch, MLP and replay.

    Attributes:
        loads: Computing sequences of each core, most loaded first.
        replaying: Sequences that replay.
        exposed_dispatch_cycles: What dispatch still takes once the residual is complete.
        early_fetch: Weights may be fetched before dispatch is over.
        handed_over: Activations travel to the mapped cores and back.
        next_lead: QKV weights of a next layer may be fetched before the phase ends.
        before: What the phase before has fetched.
    """

    loads: tuple[int, ...]
    replaying: int
    exposed_dispatch_cycles: int
    early_fetch: bool
    handed_over: bool
    next_lead: bool
    before: Ahead


Case = QkvCase | AttendCase | OutputCase | MlpCase


class Phases:
    """Simulates the phases of one hardware; equal cases give equal results.

    Args:
        hw: The hardware.
        emit: Observer of slices of time, or None.
    """

    def __init__(self, hw: Hardware, emit: Emit | None = None) -> None:
        self.hw = hw
        self._emit = emit
        of_attention = hw.of_attention
        self._qkv = {
            scored: _home(of_attention, [self._qkv_of(scored)]) for scored in (False, True)
        }
        self._output = _home(of_attention, [self._output_of])
        self._output_lead = _lead(self._output)
        self._qkv_lead = self._mlp_lead = None
        if of_attention is hw:
            self._qkv_lead = _lead(self._qkv[False])
            # Streamed once per sequence, weights for a second one are not sure to be used.
            single = tuple(min(1, load) for load in hw.home_loads)
            self._mlp_lead = _lead(lower(hw, self._mlp_of()[:1], single))
        self._mlp_bounds: dict[tuple[int, int], Bound] = {}

    def simulate(self, case: Case) -> PhaseResult:
        """Simulate the phase that a case describes."""
        of_attention = self.hw.of_attention
        if isinstance(case, AttendCase):
            return self._run(of_attention, self._attend(case), case.before, self._output_lead)
        if isinstance(case, QkvCase):
            attend = self._attend(AttendCase(case.scored, case.attended, False, Ahead()))
            return self._run(of_attention, self._qkv[case.scored], case.before, _lead(attend))
        if isinstance(case, OutputCase):
            lead_out = self._mlp_lead if case.mlp_lead else None
            return self._run(of_attention, self._output, case.before, lead_out)
        return self._mlp(case)

    def attend_all(self, cases: Sequence[AttendCase]) -> list[PhaseResult]:
        """Simulate many attention phases, which differ in context length above all.

        Equal to :meth:`simulate` for each; where nothing competes 4 times as fast for 16 of them
        and 16 times for 2,000.
        """
        alike: dict[tuple[bool, bool], list[int]] = {}
        for number, case in enumerate(cases):
            alike.setdefault((case.scored, case.aligned_outside), []).append(number)
        results: dict[int, PhaseResult] = {}
        for numbers in alike.values():
            found = self._attend_alike([cases[number] for number in numbers])
            results.update(zip(numbers, found, strict=True))
        return [results[number] for number in range(len(cases))]

    def qkv_case(self, scored: bool, attended: int, before: Ahead) -> QkvCase:
        """The case of a QKV phase: a longer context than fills the KV buffers changes nothing."""
        return QkvCase(scored, min(attended, self.qkv_attended), before)

    @cached_property
    def qkv_attended(self) -> int:
        """The shortest context that overfills the KV buffers, in tokens."""
        machine, body = self.hw.design.machine, self._model.body
        sharing = machine.cores if self.hw.of_attention.is_tensor else 1
        token_bytes = max(1, self._model.kv.bytes_of(2 * body.kv_size) // sharing)
        return machine.kv_buffer_bytes // token_bytes + 1

    def mlp_bound(self, computing: int, replaying: int) -> Bound:
        """What no schedule can beat in a layer's MLP, given how many sequences do what."""
        key = (computing, replaying)
        if key not in self._mlp_bounds:
            replay = self._replay(replaying, 0) if replaying else None
            replayed = (replay.path, replay.stream_bytes) if replay else None
            self._mlp_bounds[key] = min(
                lanes_bound(self.hw, lower(self.hw, self._mlp_of(), loads), replayed)
                for loads in assignments(self.hw, computing)
            )
        return self._mlp_bounds[key]

    def head(self) -> PhaseResult:
        """All dependent passes of the head, for one step of all sequences."""
        guided = self.hw.batch % 2 == 0

        @cache
        def ops(rows: int, part: Slice, streams: int) -> tuple[Op, ...]:
            return head_ops(self._model, rows, part, streams=streams, guided=guided)

        def nth(index: int) -> OpOf:
            return lambda rows, part, streams: ops(rows, part, streams)[index]

        count = len(ops(1, self.hw.part, 1))
        lanes = _home(self.hw, [nth(index) for index in range(count)])
        return self._run(self.hw, lanes, Ahead(), None)

    def prefill_layer(self, tokens: int) -> PhaseResult:
        """One layer of the prompt, ``tokens`` per sequence, all computing.

        Where the activation buffer holds fewer rows than a core has, they are taken in several
        passes and the weights are streamed once per pass.
        """
        rows = max(self.hw.home_loads) * tokens
        row_bytes = self._model.activations.bytes_of(self._model.body.hidden_size)
        passes = -(-rows * row_bytes // self.hw.design.machine.activation_buffer_bytes)
        model = self._model
        ops: list[OpOf] = [
            lambda rows, part, n: qkv_op(model, rows, part, streams=n * passes, tokens=tokens),
            lambda rows, part, n: attend_op(model, rows, tokens, part, tokens=tokens),
            lambda rows, part, n: output_op(model, rows, part, streams=n * passes, tokens=tokens),
            *self._mlp_of(passes=passes, tokens=tokens, cached=False),
        ]
        return self._run(self.hw, _home(self.hw, ops), Ahead(), None)

    # ---------------------------------------------------------------- private

    @property
    def _model(self) -> Model:
        return self.hw.design.model

    def _run(
        self, hw: Hardware, lanes: Sequence[Lane], before: Ahead, lead_out: Lead | None
    ) -> PhaseResult:
        bench = Bench(hw, self._emit)
        for lane in lanes:
            bench.add(lane, before, lead_out)
        return bench.run(lanes_bound(hw, lanes))

    def _mlp(self, case: MlpCase) -> PhaseResult:
        lanes = lower(self.hw, self._mlp_of(), case.loads, case.handed_over)
        computing = sum(lane.cores for lane in lanes)
        fetching = 1 if self.hw.is_lockstep else sum(load > 0 for load in self.hw.home_loads)
        bench = Bench(self.hw, self._emit)
        dispatched = bench.dispatch(case.exposed_dispatch_cycles)
        fetch_gate = None if case.early_fetch else dispatched
        lead_out = self._qkv_lead if case.next_lead else None
        for lane in lanes:
            bench.add(lane, case.before, lead_out, fetch_gate=fetch_gate, start_gate=dispatched)
        if computing < fetching:
            # Cores without a sequence drop what they hold and fetch for the next layer.
            idle = Lane(fetching - computing, ())
            bench.add(idle, Ahead(), lead_out, fetch_gate=dispatched, start_gate=dispatched)
        replay = self._replay(case.replaying, computing) if case.replaying else None
        if replay is not None:
            bench.replay(replay, dispatched)
        wasted_bytes = (fetching - computing) * case.before.nbytes
        return bench.run(self.mlp_bound(sum(case.loads), case.replaying), wasted_bytes)

    def _early_keys(self, scored: bool) -> int:
        """Aligned keys that are read ahead of attention, so that Q alone decides."""
        return 1 if scored and self.hw.design.machine.decision_at == "q" else 0

    def _qkv_of(self, scored: bool) -> OpOf:
        keys = self._early_keys(scored)
        return lambda rows, part, n: qkv_op(self._model, rows, part, streams=n, early_keys=keys)

    def _attend(self, case: AttendCase) -> tuple[Lane, ...]:
        scored_keys = int(case.scored) - self._early_keys(case.scored)
        aligned_keys = scored_keys if case.aligned_outside else 0

        def op(rows: int, part: Slice, streams: int) -> Op:
            return attend_op(
                self._model,
                rows,
                case.attended,
                part,
                aligned_keys=aligned_keys,
                scored_keys=scored_keys,
            )

        return _home(self.hw.of_attention, [op])

    def _attend_alike(self, cases: Sequence[AttendCase]) -> list[PhaseResult]:
        """Attention phases that differ in nothing but context length and what was fetched."""
        if self._emit is None and len(cases) >= FEWEST_AT_ONCE:
            attended = cast(int, ints(case.attended for case in cases))
            lanes = self._attend(cases[0]._replace(attended=attended))
            if is_alone(self.hw.of_attention, lanes, self._output_lead):
                before = [case.before for case in cases]
                return run_alone(self.hw.of_attention, lanes[0], before, self._output_lead)
        return [self.simulate(case) for case in cases]

    def _output_of(self, rows: int, part: Slice, streams: int) -> Op:
        return output_op(self._model, rows, part, streams=streams)

    def _mlp_of(self, *, passes: int = 1, tokens: int = 1, cached: bool = True) -> list[OpOf]:
        def nth(index: int) -> OpOf:
            def op(rows: int, part: Slice, streams: int) -> Op:
                ops = mlp_ops(
                    self._model, rows, part, streams=streams * passes, tokens=tokens, cached=cached
                )
                return ops[index]

            return op

        return [nth(0), nth(1)]

    def _replay(self, replaying: int, computing: int) -> Step:
        """The replaying sequences; cores that compute an MLP add their residuals beside it."""
        machine = self.hw.design.machine
        spread = 1 if self.hw.is_tensor else machine.cores
        slowest = replay_op(self._model, -(-replaying // spread), self.hw.part)
        whole = replay_op(self._model, replaying, Slice())
        cycles = vector_cycles(machine.vector, slowest.vector_ops)
        free_cores = machine.cores - computing
        if self.hw.is_lockstep:
            free_cores = 0 if computing else machine.cores
        busy_cores = free_cores if self.hw.is_tensor else min(replaying, free_cores)
        return Step(
            category=Category.REPLAY,
            pre_cycles=0,
            exchange_cycles=0,
            cycles=cycles,
            balanced_cycles=cycles,
            path=self.hw.replay_path,
            stream_bytes=whole.replay_bytes,
            tile_bytes=whole.replay_bytes,
            buffer_bytes=whole.replay_bytes,
            is_kv=False,
            sides=(),
            busy_cycles=busy_cores * cycles,
            macs=0,
            vector_ops=whole.vector_ops,
            sram_bytes=2 * whole.replay_bytes,
        )


def _home(hw: Hardware, ops: Sequence[OpOf]) -> tuple[Lane, ...]:
    """Operations of all sequences, each on its own core or split over all."""
    return lower(hw, ops, hw.home_loads)


def _lead(lanes: Sequence[Lane]) -> Lead | None:
    """What may be fetched of a phase's first operand before that phase begins."""
    first = lanes[0].steps[0]
    nbytes = min(min(lane.steps[0].stream_bytes, first.buffer_bytes) for lane in lanes)
    if not nbytes:
        return None
    return Lead(first.path, nbytes, first.is_kv, first.tile_bytes, first.buffer_bytes)
