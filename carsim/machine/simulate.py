"""Simulate one policy on one machine over all batches of a trace.

A video is T * N steps of L layers; a layer-step is the phases QKV, attention, output projection and
MLP; a step ends with the head; prefill comes first. Few things determine a phase, so the phases of
all layer-steps are numbered by them, a layer at a time (what a phase leaves to the next crosses
layers, not steps), and each number is simulated once. :func:`simulate_plainly` takes the
layer-steps one after the other instead, and is what the fast way is tested against.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from carsim.machine.batches import Batches
from carsim.machine.bench import PhaseResult
from carsim.machine.bound import Bound
from carsim.machine.memo import PhaseMemo
from carsim.machine.patterns import Pattern, computes_first, number_patterns, pattern_of
from carsim.machine.phase import Case
from carsim.machine.plan import Plan
from carsim.machine.tables import Cycles, Entry, Ints, State, States, Table
from carsim.machine.totals import PhaseTotals, total_of

LAYER_PHASES = ("qkv", "attention", "output", "mlp")


@dataclass(frozen=True, eq=False)
class StepWork:
    """What all layers of each step of the first batch did. S steps, M memories.

    Attributes:
        busy_cycles: Cycles in which cores compute, summed over cores, int64[S].
        dram_bytes: Bytes moved by each memory, int64[M, S].
    """

    busy_cycles: Cycles
    dram_bytes: Cycles


@dataclass(frozen=True, eq=False)
class Simulation:
    """One policy simulated over all batches of a trace. G batches, S steps, L layers.

    Attributes:
        plan: The policy and its machine.
        totals: Sums over all batches, by kind of phase: prefill, those of a layer, head.
        batch_cycles: Latency of each batch, prefill to last token, int64[G].
        phase_cycles: Of each layer-step by kind of phase, int64[G, S, L]; empty without detail.
        work: Of the layers of each step of the first batch; None without detail.
        unique_phases: Different phases among those of all layer-steps.
    """

    plan: Plan
    totals: dict[str, PhaseTotals]
    batch_cycles: Cycles
    phase_cycles: dict[str, Cycles]
    work: StepWork | None
    unique_phases: int

    @property
    def cycles(self) -> int:
        """Latencies of all batches, added up."""
        return sum(total.cycles for total in self.totals.values())

    @property
    def bound_cycles(self) -> int:
        """What no schedule can beat, over all batches."""
        return sum(total.bound_cycles for total in self.totals.values())


def simulate(plan: Plan, batches: Batches, memo: PhaseMemo, *, detail: bool = False) -> Simulation:
    """Simulate all batches.

    Args:
        plan: Policy, machine, video and the steps of it to simulate.
        batches: Decisions, bool[G, S, L, B]; S and L are those of plan and model.
        memo: Results shared with other simulations of the same hardware.
        detail: Keep the cycles of each layer-step, and the work of each step.
    """
    run = _Run(plan, memo)
    n_batches, n_steps, n_layers, _ = batches.replay.shape
    patterns_of, patterns = number_patterns(plan, batches.replay)
    computes_of = np.array([computes_first(pattern) for pattern in patterns], np.intp)[patterns_of]
    scored = np.array([plan.scored(step) for step in plan.steps], np.intp)
    attended = np.array([plan.attended(step) for step in plan.steps], np.intp)
    # Steps differ in nothing else; a QKV phase sees no more of the context than can be fetched.
    kinds, example = _number(scored, attended, plan.steps)
    qkv_kinds, qkv_example = _number(
        scored, np.minimum(attended, plan.phases.qkv_attended), plan.steps
    )
    states = States()

    def attend(entries: list[Entry]) -> list[tuple[PhaseResult, ...]]:
        return run.attend_all([(example[kind], before) for kind, _, before in entries])

    tables = {
        "qkv": Table(
            len(qkv_example),
            1,
            states,
            _each(lambda k, _, at: run.qkv(qkv_example[k], at)),
        ),
        "attention": Table(len(example), 1, states, attend),
        "output": Table(
            2, 2, states, _each(lambda k, item, at: run.output(bool(k), bool(item), at))
        ),
        "mlp": Table(
            2,
            len(patterns),
            states,
            _each(lambda k, item, at: run.mlp(patterns[item], bool(k), at)),
        ),
        "last mlp": Table(
            2,
            len(patterns),
            states,
            _each(lambda k, item, at: run.mlp(patterns[item], bool(k), at, last=True)),
        ),
    }
    dispatch = np.array([plan.dispatch_cycles(bool(k)) for k in scored], np.int64)
    before = np.zeros((n_batches, n_steps), np.intp)
    batch_cycles = np.zeros(n_batches, np.int64)
    kept: dict[str, list[Cycles]] = {phase: [] for phase in LAYER_PHASES}
    visits: list[tuple[Table, Ints]] = []

    def take(name: str, kinds: Ints, what: Ints | int) -> Cycles:
        nonlocal before, batch_cycles
        table = tables[name]
        if detail:
            visits.append((table, table.entries(kinds, what, before)[0]))
        cycles, before = table.look_up(kinds, what, before)
        batch_cycles += cycles.sum(axis=1)
        if detail:
            kept[_phase_of(name)].append(cycles)
        return cycles

    for layer in range(n_layers):
        take("qkv", qkv_kinds, 0)
        attending = take("attention", kinds, 0)
        put_out = take("output", scored, computes_of[:, :, layer])
        exposed = np.maximum(0, dispatch - plan.slack_cycles(attending, put_out))
        before = states.exposed(before, exposed)
        take("last mlp" if layer == n_layers - 1 else "mlp", scored, patterns_of[:, :, layer])
    for name, table in tables.items():
        run.count(_phase_of(name), table.counted())
    batch_cycles += run.outside_of_layers(n_batches)
    phase_cycles = {name: np.stack(parts, axis=-1) for name, parts in kept.items() if parts}
    work = _work(visits, len(plan.hw.paths)) if detail else None
    return Simulation(plan, run.totals(), batch_cycles, phase_cycles, work, run.unique_phases)


def simulate_plainly(plan: Plan, batches: Batches, memo: PhaseMemo) -> Simulation:
    """The same, one layer-step after the other: slow, obvious, and equal to the bit."""
    run = _Run(plan, memo)
    n_batches, n_steps, n_layers, _ = batches.replay.shape
    taken = {phase: np.zeros(batches.replay.shape[:3], np.int64) for phase in LAYER_PHASES}
    work = StepWork(np.zeros(n_steps, np.int64), np.zeros((len(plan.hw.paths), n_steps), np.int64))

    def book(name: str, at: tuple[int, int, int], results: tuple[PhaseResult, ...]) -> State:
        run.count(name, [(result, 1) for result in results])
        taken[name][at] = sum(result.cycles for result in results)
        for result in results if at[0] == 0 else ():
            work.busy_cycles[at[1]] += result.busy_cycles
            work.dram_bytes[:, at[1]] += result.dram_bytes
        return State(results[-1].ahead)

    for g, s in np.ndindex(n_batches, n_steps):
        step, state = plan.steps[s], State()
        scored = plan.scored(step)
        for layer in range(n_layers):
            at = g, s, layer
            pattern = pattern_of(plan, batches.replay[at], scored)
            state = book("qkv", at, run.qkv(step, state))
            state = book("attention", at, run.attend(step, state))
            state = book("output", at, run.output(scored, computes_first(pattern), state))
            known = plan.slack_cycles(taken["attention"][at], taken["output"][at])
            exposed = max(0, plan.dispatch_cycles(scored) - int(known))
            state = State(state.ahead, exposed)
            last = layer == n_layers - 1
            state = book("mlp", at, run.mlp(pattern, scored, state, last=last))
    batch_cycles = sum(taken.values(), np.zeros(1, np.int64)).sum(axis=(1, 2))
    batch_cycles += run.outside_of_layers(n_batches)
    return Simulation(plan, run.totals(), batch_cycles, taken, work, run.unique_phases)


class _Run:
    """Simulates phases through the memo and keeps count of them."""

    def __init__(self, plan: Plan, memo: PhaseMemo) -> None:
        self._plan = plan
        self._memo = memo
        self._weighted: dict[str, list[tuple[PhaseResult, int]]] = {
            name: [] for name in LAYER_PHASES
        }
        self._cases: set[Case] = set()
        self._fixed: dict[str, PhaseTotals] = {}

    @property
    def unique_phases(self) -> int:
        """Different phases of layers so far."""
        return len(self._cases)

    def qkv(self, step: int, before: State) -> tuple[PhaseResult]:
        """A QKV phase."""
        return (self._phase(self._plan.qkv_case(step, before.ahead)),)

    def attend(self, step: int, before: State) -> tuple[PhaseResult]:
        """An attention phase."""
        return (self._phase(self._plan.attend_case(step, before.ahead)),)

    def attend_all(self, asked: Sequence[tuple[int, State]]) -> list[tuple[PhaseResult, ...]]:
        """Many attention phases, each of a step and what it finds."""
        cases = [self._plan.attend_case(step, before.ahead) for step, before in asked]
        self._cases.update(cases)
        return [(result,) for result in self._memo.attend_all(cases)]

    def output(self, scored: bool, mlp_computes: bool, before: State) -> tuple[PhaseResult]:
        """An output projection."""
        return (self._phase(self._plan.output_case(scored, mlp_computes, before.ahead)),)

    def mlp(
        self, pattern: Pattern, scored: bool, before: State, *, last: bool = False
    ) -> tuple[PhaseResult, ...]:
        """The MLP of one layer-step, a register group after the other."""
        results: list[PhaseResult] = []
        ahead, exposed = before
        for index, (loads, replaying) in enumerate(pattern):
            no_lead = last or index < len(pattern) - 1
            case = self._plan.mlp_case(loads, replaying, scored, no_lead, exposed, ahead)
            results.append(self._phase(case))
            ahead = results[-1].ahead
            # The registers take the next group once this one has left the cores.
            exposed = self._plan.dispatch_cycles(scored)
        if len(results) > 1:
            # A schedule that knows no groups streams the weights once.
            computing = sum(sum(loads) for loads, _ in pattern)
            replaying = sum(replaying for _, replaying in pattern)
            bound = self._plan.phases.mlp_bound(computing, replaying)
            none = Bound(0, (0,) * len(bound.dram_bytes))
            results = [
                result._replace(bound_cycles=each.cycles, bound_dram_bytes=each.dram_bytes)
                for result, each in zip(results, [bound] + [none] * (len(results) - 1), strict=True)
            ]
        return tuple(results)

    def count(self, name: str, weighted: Iterable[tuple[PhaseResult, int]]) -> None:
        """Book results of one kind of phase, each with how often it occurs."""
        self._weighted[name].extend(weighted)

    def outside_of_layers(self, n_batches: int) -> int:
        """Book prefill and head of all batches; returns their cycles in one batch."""
        hw, video = self._plan.hw, self._plan.video
        prefill = self._memo.prefill_layer(video.prompt_tokens)
        layers = hw.design.model.body.n_layers
        self._fixed["prefill"] = total_of([(prefill, n_batches * layers)])
        cycles = layers * prefill.cycles
        if hw.design.machine.include_head:
            head = self._memo.head()
            n_steps = len(self._plan.steps)
            self._fixed["head"] = total_of([(head, n_batches * n_steps)])
            cycles += n_steps * head.cycles
        return cycles

    def totals(self) -> dict[str, PhaseTotals]:
        """Sums by kind of phase, in the order in which a video meets them."""
        layers = {name: total_of(weighted) for name, weighted in self._weighted.items()}
        return {"prefill": self._fixed["prefill"], **layers} | self._fixed

    def _phase(self, case: Case) -> PhaseResult:
        self._cases.add(case)
        return self._memo.layer_phase(case)


def _phase_of(table: str) -> str:
    return table.removeprefix("last ")


def _work(visits: Sequence[tuple[Table, Ints]], n_memories: int) -> StepWork:
    """What was done in visits of tables, each with its entries, intp[S]."""
    tables = {table for table, _ in visits}

    def total(of: Callable[[PhaseResult], int]) -> Cycles:
        figures = {table: table.figure(of) for table in tables}
        summed: Cycles = np.sum([figures[table][entries] for table, entries in visits], axis=0)
        return summed

    def moved_by(memory: int) -> Cycles:
        return total(lambda result: result.dram_bytes[memory])

    busy_cycles = total(lambda result: result.busy_cycles)
    return StepWork(busy_cycles, np.stack([moved_by(memory) for memory in range(n_memories)]))


def _each(
    simulate: Callable[[int, int, State], tuple[PhaseResult, ...]],
) -> Callable[[list[Entry]], list[tuple[PhaseResult, ...]]]:
    """Entries simulated one after the other."""
    return lambda entries: [simulate(*entry) for entry in entries]


def _number(scored: Ints, attended: Ints, steps: Sequence[int]) -> tuple[Ints, list[int]]:
    """Number the steps by (scored, attended).

    Returns:
        The number of each step, intp[S], and an example of a step by number.
    """
    _, example, numbers = np.unique(2 * attended + scored, return_index=True, return_inverse=True)
    return numbers.ravel(), [steps[index] for index in example.tolist()]
