"""Simulate one policy on one machine over all batches of a trace.

A video is T * N steps of L layers; a layer-step is the phases QKV, attention, output projection and
MLP; a step ends with the head; prefill comes first. Few things determine a phase, so the phases of
all layer-steps are numbered by them, a layer at a time (what a phase leaves to the next crosses
layers, not steps), and each number is simulated once. :func:`simulate_plainly` takes the
layer-steps one after the other instead, and is what the fast way is tested against.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from carsim.hw.bench import Ahead, PhaseResult
from carsim.hw.phase import Case
from carsim.machine.batches import Batches
from carsim.machine.memo import PhaseMemo
from carsim.machine.patterns import Pattern, computes_first, number_patterns, pattern_of
from carsim.machine.plan import Plan
from carsim.machine.tables import START, Cycles, Ints, State, States, Table
from carsim.machine.totals import PhaseTotals, total_of

LAYER_PHASES = ("qkv", "attention", "output", "mlp")


@dataclass(frozen=True, eq=False)
class Simulation:
    """One policy simulated over all batches of a trace. G batches, S steps, L layers.

    Attributes:
        plan: The policy and its machine.
        totals: Sums over all batches, by kind of phase: prefill, those of a layer, head.
        batch_cycles: Latency of each batch, prefill to last token, int64[G].
        phase_cycles: Of each layer-step by kind of phase, int64[G, S, L]; empty without detail.
        unique_phases: Different phases among those of all layer-steps.
    """

    plan: Plan
    totals: dict[str, PhaseTotals]
    batch_cycles: Cycles
    phase_cycles: dict[str, Cycles]
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
        detail: Keep the cycles of each layer-step.
    """
    run = _Run(plan, memo)
    n_batches, n_steps, n_layers, _ = batches.replay.shape
    patterns_of, patterns = number_patterns(plan, batches.replay)
    computes_of = np.array([computes_first(pattern) for pattern in patterns], np.intp)[patterns_of]
    qkv_kinds, qkv_example = _number_steps(plan.steps, lambda s: plan.qkv_case(s, START))
    kinds, example = _number_steps(plan.steps, lambda s: plan.attend_case(s, START))
    scored = np.array([plan.scored(step) for step in plan.steps], np.intp)
    states = States()
    tables = {
        "qkv": Table(
            len(qkv_example), 1, states, lambda k, _, at, n: run.qkv(qkv_example[k], at.ahead, n)
        ),
        "attention": Table(
            len(example), 1, states, lambda k, _, at, n: run.attend(example[k], at.ahead, n)
        ),
        "output": Table(
            2, 2, states, lambda k, item, at, n: run.output(bool(k), bool(item), at.ahead, n)
        ),
        "mlp": Table(
            2, len(patterns), states, lambda k, item, at, n: run.mlp(patterns[item], bool(k), at, n)
        ),
        "last mlp": Table(
            2,
            len(patterns),
            states,
            lambda k, item, at, n: run.mlp(patterns[item], bool(k), at, n, last=True),
        ),
    }
    dispatch = np.array([plan.dispatch_cycles(bool(k)) for k in scored], np.int64)
    before = np.zeros((n_batches, n_steps), np.intp)
    batch_cycles = np.zeros(n_batches, np.int64)
    kept: dict[str, list[Cycles]] = {phase: [] for phase in LAYER_PHASES}
    for layer in range(n_layers):
        projected, before = tables["qkv"].look_up(qkv_kinds, 0, before)
        attended, before = tables["attention"].look_up(kinds, 0, before)
        put_out, before = tables["output"].look_up(scored, computes_of[:, :, layer], before)
        exposed = np.maximum(0, dispatch - plan.slack_cycles(attended, put_out))
        before = states.exposed(before, exposed)
        table = tables["last mlp" if layer == n_layers - 1 else "mlp"]
        multiplied, before = table.look_up(scored, patterns_of[:, :, layer], before)
        taken = dict(zip(LAYER_PHASES, (projected, attended, put_out, multiplied), strict=True))
        for cycles in taken.values():
            batch_cycles += cycles.sum(axis=1)
        if detail:
            for name, cycles in taken.items():
                kept[name].append(cycles)
    for table in tables.values():
        table.book()
    batch_cycles += run.outside_of_layers(n_batches)
    phase_cycles = {name: np.stack(parts, axis=-1) for name, parts in kept.items() if parts}
    return Simulation(plan, run.totals(), batch_cycles, phase_cycles, run.unique_phases)


def simulate_plainly(plan: Plan, batches: Batches, memo: PhaseMemo) -> Simulation:
    """The same, one layer-step after the other: slow, obvious, and equal to the bit."""
    run = _Run(plan, memo)
    n_batches, n_steps, n_layers, _ = batches.replay.shape
    taken = {phase: np.zeros(batches.replay.shape[:3], np.int64) for phase in LAYER_PHASES}
    for g, s in np.ndindex(n_batches, n_steps):
        step, state = plan.steps[s], START
        scored = plan.scored(step)
        for layer in range(n_layers):
            at = g, s, layer
            pattern = pattern_of(plan, batches.replay[at], scored)
            taken["qkv"][at], state = run.qkv(step, state, 1)
            taken["attention"][at], state = run.attend(step, state, 1)
            taken["output"][at], state = run.output(scored, computes_first(pattern), state, 1)
            known = plan.slack_cycles(taken["attention"][at], taken["output"][at])
            exposed = max(0, plan.dispatch_cycles(scored) - int(known))
            taken["mlp"][at], state = run.mlp(
                pattern, scored, State(state, exposed), 1, last=layer == n_layers - 1
            )
    batch_cycles = sum(taken.values(), np.zeros(1, np.int64)).sum(axis=(1, 2))
    batch_cycles += run.outside_of_layers(n_batches)
    return Simulation(plan, run.totals(), batch_cycles, taken, run.unique_phases)


class _Run:
    """Simulates phases through the memo and keeps count of them."""

    def __init__(self, plan: Plan, memo: PhaseMemo) -> None:
        self._plan = plan
        self._memo = memo
        self._counts: dict[str, Counter[PhaseResult]] = {name: Counter() for name in LAYER_PHASES}
        self._cases: set[Case] = set()
        self._fixed: dict[str, PhaseTotals] = {}

    @property
    def unique_phases(self) -> int:
        """Different phases of layers so far."""
        return len(self._cases)

    def qkv(self, step: int, before: Ahead, count: int) -> tuple[int, Ahead]:
        """Cycles of a QKV phase and what it leaves, booked ``count`` times."""
        return self._book("qkv", self._plan.qkv_case(step, before), count)

    def attend(self, step: int, before: Ahead, count: int) -> tuple[int, Ahead]:
        """Cycles of an attention phase and what it leaves, booked ``count`` times."""
        return self._book("attention", self._plan.attend_case(step, before), count)

    def output(
        self, scored: bool, mlp_computes: bool, before: Ahead, count: int
    ) -> tuple[int, Ahead]:
        """Cycles of an output projection and what it leaves, booked ``count`` times."""
        return self._book("output", self._plan.output_case(scored, mlp_computes, before), count)

    def mlp(
        self, pattern: Pattern, scored: bool, before: State, count: int, *, last: bool = False
    ) -> tuple[int, Ahead]:
        """Cycles of the MLP of one layer-step, a register group after the other."""
        cycles, ahead, exposed = 0, before.ahead, before.exposed_cycles
        for index, (loads, replaying) in enumerate(pattern):
            no_lead = last or index < len(pattern) - 1
            case = self._plan.mlp_case(loads, replaying, scored, no_lead, exposed, ahead)
            taken, ahead = self._book("mlp", case, count)
            cycles += taken
            # The registers take the next group once this one has left the cores.
            exposed = self._plan.dispatch_cycles(scored)
        return cycles, ahead

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
        layers = {name: total_of(counts.items()) for name, counts in self._counts.items()}
        return {"prefill": self._fixed["prefill"], **layers} | self._fixed

    def _book(self, name: str, case: Case, count: int) -> tuple[int, Ahead]:
        result = self._memo.layer_phase(case)
        self._cases.add(case)
        self._counts[name][result] += count
        return result.cycles, result.ahead


def _number_steps(steps: Sequence[int], kind_of: Callable[[int], object]) -> tuple[Ints, list[int]]:
    """Number the steps by their kind.

    Returns:
        The number of each step, intp[S], and an example of a step by number.
    """
    seen: dict[object, int] = {}
    examples: list[int] = []
    numbers = []
    for step in steps:
        kind = kind_of(step)
        if kind not in seen:
            seen[kind] = len(seen)
            examples.append(step)
        numbers.append(seen[kind])
    return np.array(numbers, np.intp), examples
