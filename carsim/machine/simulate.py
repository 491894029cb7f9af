"""Simulate one policy on one machine over all batches of a trace.

A video is T * N steps of L layers; a layer-step is the phases QKV, attention, output projection and
MLP; a step ends with the head and the host; prefill comes first. Nothing crosses a phase, so that
each distinct phase is taken once, and a run is a sum of phases, each times how often it occurs.
:func:`simulate_plainly` takes the layer-steps one after the other instead, and is what the fast way
is tested against.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.replay import ReplayRule
from carsim.machine.batches import Batches, distinct_rows, renumber
from carsim.machine.cases import AttendCases, MlpCases
from carsim.machine.lanes import Ints
from carsim.machine.phase import Outcome
from carsim.machine.plan import Plan
from carsim.machine.ranges import check_plan
from carsim.machine.totals import PhaseTotals, activity_of, exactly, total_of
from carsim.workload.activity import Activity

LAYER_PHASES = ("qkv", "attention", "output", "mlp")


@dataclass(frozen=True, eq=False)
class StepWork:
    """Work of all layers in each step of the first batch. S steps, M memories.

    Attributes:
        busy_cycles: Cycles in which cores compute, summed over cores, int64[S].
        dram_bytes: Bytes moved by each memory, int64[M, S].
    """

    busy_cycles: Ints
    dram_bytes: Ints


@dataclass(frozen=True, eq=False)
class Simulation:
    """One policy simulated over all batches of a trace. G batches, S steps, L layers.

    Attributes:
        plan: The policy and its machine.
        totals: Sums over all batches, by kind of phase: prefill, those of a layer, head.
        batch_cycles: Latency of each batch, prefill to last token, int64[G].
        first_cycles: The same of its first step alone, behind the prefill, int64[G].
        phase_cycles: Cycles of each layer-step by kind, int64[G, S, L]; empty without detail.
        work: Work of the layers in each step of the first batch; None without detail.
        unique_phases: Distinct phases among those of all layer-steps.
    """

    plan: Plan
    totals: Mapping[str, PhaseTotals]
    batch_cycles: Ints
    first_cycles: Ints
    phase_cycles: Mapping[str, Ints]
    work: StepWork | None
    unique_phases: int

    @property
    def cycles(self) -> int:
        """Latencies of all batches, added up."""
        return sum(total.cycles for total in self.totals.values())

    @property
    def bound_cycles(self) -> int:
        """Lower bound over all assignments of whole sequences to these cores, all batches."""
        return sum(total.bound_cycles for total in self.totals.values())

    @property
    def activity(self) -> Activity:
        """Work of the machine over all batches, for the energy model."""
        return activity_of(self.totals, [path.name for path in self.plan.hw.paths])

    @property
    def decode_activity(self) -> Activity:
        """The same without the prompt."""
        steps = {name: total for name, total in self.totals.items() if name != "prefill"}
        return activity_of(steps, [path.name for path in self.plan.hw.paths])


class _Visits(NamedTuple):
    """Visits of the layer-steps of each batch to the outcomes of a kind of phase.

    Attributes:
        name: Kind of phase.
        outcome: n different phases.
        counts: Visits of each batch to each outcome, int64[G, n].
        first_cycles: Cycles of the first step, int64[G or 1]; 0 where another visit serves it.
        outcome_of: The outcome of each layer-step, [G or 1, S, L]; -1 where another visit
            serves, None without detail.
    """

    name: str
    outcome: Outcome
    counts: Ints
    first_cycles: Ints
    outcome_of: NDArray[np.intp] | None

    def spread(self, figure: Ints) -> Ints:
        """A figure of the outcomes at each layer-step, 0 where another visit serves."""
        assert self.outcome_of is not None
        return np.where(self.outcome_of >= 0, figure[self.outcome_of], 0)


def simulate(plan: Plan, batches: Batches, *, detail: bool = False) -> Simulation:
    """Simulate all batches.

    Args:
        plan: Policy, machine, video and the steps of it to simulate.
        batches: Decisions, bool[G, S, L, B]; S and L are those of plan and model.
        detail: Keep the cycles of each layer-step, and the work of each step.
    """
    check_plan(plan)
    shape = batches.replay.shape[:3]
    visits: list[_Visits] = []
    for scored in (False, True):
        where = np.flatnonzero(plan.scored == scored)
        if where.size:
            visits += _visits_of(_Steps(plan, shape, where, scored, detail), batches)
    outside = _outside_of_layers(plan, shape[0])
    layers = {
        name: total_of([(v.outcome, v.counts.sum(axis=0)) for v in visits if v.name == name])
        for name in LAYER_PHASES
    }
    layers["mlp"] = _with_mlp_bound(layers["mlp"], plan, batches)
    batch_cycles = np.zeros(shape[0], np.int64) + outside.cycles
    first_cycles = np.zeros(shape[0], np.int64) + outside.first_cycles
    for visit in visits:
        batch_cycles += visit.counts @ visit.outcome.cycles
        first_cycles += visit.first_cycles
    kept = {name: np.zeros(shape, np.int64) for name in LAYER_PHASES} if detail else {}
    for visit in visits if detail else ():
        kept[visit.name] += visit.spread(visit.outcome.cycles)
    return Simulation(
        plan,
        {"prefill": outside.totals["prefill"], **layers} | outside.totals,
        batch_cycles,
        first_cycles,
        kept,
        _work(visits, shape[1]) if detail else None,
        sum(int(visit.counts.any(axis=0).sum()) for visit in visits),
    )


@dataclass(frozen=True)
class _Steps:
    """Steps of a run in which a replay is decided on, or all others.

    Attributes:
        plan: Policy and machine.
        shape: Batches G, steps S and layers L of the run.
        where: The steps, int[s].
        scored: Whether a replay is decided on.
        detail: Outcomes are kept for each layer-step.
    """

    plan: Plan
    shape: tuple[int, int, int]
    where: NDArray[np.intp]
    scored: bool
    detail: bool

    def visits(
        self, name: str, outcome: Outcome, index: NDArray[np.intp], layers: Sequence[int]
    ) -> _Visits:
        """Visits of some layers, given the outcome of each layer-step, [G or 1, s, l or 1]."""
        n, alike = len(outcome.cycles), len(layers) // index.shape[2]
        counts = np.array([np.bincount(each.ravel(), minlength=n) for each in index], np.int64)
        counts = np.broadcast_to(counts * alike, (self.shape[0], n))
        first_cycles = self.first_cycles(outcome, index[:, 0]) * alike
        return _Visits(name, outcome, counts, first_cycles, self._at(index, layers))

    def first_cycles(self, outcome: Outcome, index: NDArray[np.intp]) -> Ints:
        """Cycles of the first step, given its outcomes in each layer, [G or 1, l]."""
        cycles: Ints = outcome.cycles[index].sum(axis=-1)
        return cycles if self.where[0] == 0 else np.zeros(1, np.int64)

    def _at(self, index: NDArray[np.intp], layers: Sequence[int]) -> NDArray[np.intp] | None:
        if not self.detail:
            return None
        every = np.full((index.shape[0], *self.shape[1:]), -1, np.intp)
        every[:, self.where[:, None], np.asarray(layers)] = index
        return every


def _visits_of(steps: _Steps, batches: Batches) -> list[_Visits]:
    """The phases of all layer-steps of some steps."""
    plan, phases = steps.plan, steps.plan.phases
    rule = plan.rule if steps.scored else None
    every = range(steps.shape[2])
    same = np.zeros((1, len(steps.where), 1), np.intp)
    attention, case_of = _attention(plan, batches, rule, steps.where)
    output = phases.output(rule)
    found = [
        steps.visits("qkv", phases.qkv(rule), same, every),
        steps.visits("attention", attention, case_of, every),
        steps.visits("output", output, same, every),
    ]
    known = plan.known_cycles(attention.cycles[case_of], int(output.cycles[0]))
    known = np.minimum(known, plan.hw.dispatch_cycles(plan.schedule_of(steps.scored)))
    for dense, layers in plan.hw.design.model.body.layers_by_mlp().items():
        of_layers = known[..., layers] if known.shape[2] > 1 else known
        found += _mlps(steps, batches.of_layers(layers), of_layers, layers, dense)
    return found


def _mlps(
    steps: _Steps, batches: Batches, known: Ints, layers: Sequence[int], dense: bool
) -> list[_Visits]:
    """The MLPs of some layers, given for how long decisions are known, [G or 1, s, l or 1]."""
    plan, scored = steps.plan, steps.scored
    schedule, found = plan.schedule_of(scored), []
    for number, group in enumerate(plan.groups(scored)):
        rows = batches.distinct(steps.where, group)
        # The register takes the next group once the one before has left the cores.
        most = plan.hw.dispatch_cycles(schedule) + 1
        starts, start_of = renumber(known * (scored and number == 0), most)
        # Cores being alike, only their loads matter, what travels to them, and how long the
        # decisions are known.
        home = group.start % plan.hw.design.machine.cores
        cases = MlpCases(rows.rows, np.zeros(1, np.int64) if scored else None, home, dense)
        loads = np.concatenate(cases.loads(plan.hw, schedule), axis=1)
        first, same_as = distinct_rows(loads, plan.hw.rows + 1)
        start, row = np.divmod(np.arange(len(first) * len(starts)), len(first))
        known_cycles = starts[start] if scored else None
        mlps = cases._replace(computing=rows.rows[first[row]], known_cycles=known_cycles)
        if len(starts) == 1 and not steps.detail:
            counts = np.zeros((steps.shape[0], len(first)), np.int64)
            np.add.at(counts.T, same_as, rows.counts.T)
            mlp = plan.phases.mlp(schedule, mlps, plan.rule)
            begun = steps.first_cycles(mlp, same_as[rows.row_of_step(0)])
            found.append(_Visits("mlp", mlp, counts, begun, None))
            continue
        index = same_as[rows.row_of] + len(first) * start_of
        used, index = renumber(index, len(first) * len(starts))
        mlp = plan.phases.mlp(schedule, mlps.take(used), plan.rule)
        found.append(steps.visits("mlp", mlp, index, layers))
    return found


def _attention(
    plan: Plan, batches: Batches, rule: ReplayRule | None, where: NDArray[np.intp]
) -> tuple[Outcome, NDArray[np.intp]]:
    """Attention phases of some steps, and which of them each layer-step is, [G or 1, s, L or 1]."""
    by_window = plan.hw.design.model.body.layers_by_window()
    found, index_of = [], []
    for window, layers in by_window.items():
        reads = AttendCases(*(each[where].reshape(1, -1, 1) for each in plan.reads(window)))
        if batches.reads is not None and plan.attention.records:
            attended, runs = (each[:, where][..., layers] for each in batches.reads)
            contexts = np.broadcast_to(reads.contexts, attended.shape)
            reads = AttendCases(attended, runs, contexts).alike(plan.hw, plan.attention)
        cases, case_of = reads.distinct()
        outside = plan.aligned_outside(window)
        found.append(plan.phases.attention(rule, cases, plan.attention, outside, plan.frame_steps))
        index_of.append(case_of)
    if len(found) == 1:
        return found[0], index_of[0]
    n_layers = sum(len(layers) for layers in by_window.values())
    index = np.empty((len(index_of[0]), len(where), n_layers), np.intp)
    before = 0
    for layers, outcome, case_of in zip(by_window.values(), found, index_of, strict=True):
        index[..., layers] = before + case_of
        before += len(outcome.cycles)
    return Outcome.join(found), index


def simulate_plainly(plan: Plan, batches: Batches) -> Simulation:
    """The same, one layer-step after the other: slow, obvious, and equal to the bit."""
    check_plan(plan)
    phases, hw = plan.phases, plan.hw
    n_batches, n_steps, n_layers, _ = shape = batches.replay.shape
    taken = {name: np.zeros(shape[:3], np.int64) for name in LAYER_PHASES}
    work = StepWork(np.zeros(n_steps, np.int64), np.zeros((len(hw.paths), n_steps), np.int64))
    seen: dict[str, list[tuple[Outcome, Ints]]] = {name: [] for name in LAYER_PHASES}
    once = np.ones(1, np.int64)

    def book(name: str, at: tuple[int, int, int], outcome: Outcome) -> int:
        seen[name].append((outcome, once))
        taken[name][at] += outcome.cycles[0]
        if at[0] == 0:
            work.busy_cycles[at[1]] += outcome.busy_cycles[0]
            work.dram_bytes[:, at[1]] += outcome.dram_bytes[0]
        return int(outcome.cycles[0])

    for at in np.ndindex(n_batches, n_steps, n_layers):
        step = at[1]
        scored = bool(plan.scored[step])
        rule = plan.rule if scored else None
        book("qkv", at, phases.qkv(rule))
        body = hw.design.model.body
        window = body.window_of(at[2])
        cases = plan.reads(window).take(np.array([step]))
        if batches.reads is not None and plan.attention.records:
            attended, runs = (each[at][None] for each in batches.reads)
            cases = AttendCases(attended, runs, cases.contexts)
        attention = book(
            "attention",
            at,
            phases.attention(
                rule, cases, plan.attention, plan.aligned_outside(window), plan.frame_steps
            ),
        )
        output = book("output", at, phases.output(rule))
        known = plan.known_cycles(np.array([attention]), output)
        schedule = plan.schedule_of(scored)
        for number, group in enumerate(plan.groups(scored)):
            computing = ~batches.replay[at][None, group]
            start = known * (number == 0) if scored else None
            home = group.start % hw.design.machine.cores
            mlps = MlpCases(computing, start, home, body.is_dense(at[2]))
            book("mlp", at, phases.mlp(schedule, mlps, plan.rule))
    totals = {name: total_of(pairs) for name, pairs in seen.items()}
    totals["mlp"] = _with_mlp_bound(totals["mlp"], plan, batches)
    outside = _outside_of_layers(plan, n_batches)
    of_steps = sum(taken.values(), np.zeros(1, np.int64)).sum(axis=2)
    totals = {"prefill": outside.totals["prefill"], **totals} | outside.totals
    cycles = of_steps.sum(axis=1) + outside.cycles
    first_cycles = of_steps[:, 0] + outside.first_cycles
    return Simulation(plan, totals, cycles, first_cycles, taken, work, 0)


class _Outside(NamedTuple):
    """Prefill, head and host of all batches, and their cycles in one batch, and in its first step.

    The prefill counts to the first step.
    """

    totals: dict[str, PhaseTotals]
    cycles: int
    first_cycles: int


def _outside_of_layers(plan: Plan, n_batches: int) -> _Outside:
    design = plan.hw.design
    n_steps, prompt = len(plan.steps), plan.video.prompt_tokens
    prefill = [
        (
            plan.phases.prefill_layer(prompt, *kind),
            np.array([n_batches * layers * (prompt > 0)]),
        )
        for kind, layers in design.model.body.prompt_layers().items()
    ]
    totals = {"prefill": total_of(prefill)}
    if design.machine.include_head:
        totals["head"] = total_of([(plan.phases.head(), np.array([n_batches * n_steps]))])
    if plan.phases.host_cycles:
        totals["host"] = total_of([(plan.phases.host(), np.array([n_batches * n_steps]))])
    cycles = {name: total.cycles // n_batches for name, total in totals.items()}
    first = sum(each // n_steps for name, each in cycles.items() if name != "prefill")
    return _Outside(totals, sum(cycles.values()), cycles["prefill"] + first)


def _with_mlp_bound(total: PhaseTotals, plan: Plan, batches: Batches) -> PhaseTotals:
    """The bound of all MLPs: it knows no register groups, only how many sequences compute."""
    bound_cycles, bound_bytes = 0, [0] * len(plan.hw.paths)
    for dense, layers in plan.hw.design.model.body.layers_by_mlp().items():
        cycles, nbytes = plan.phases.mlp_bound(plan.hw.rows, plan.rule, dense)
        counts = batches.of_layers(layers).computing_counts
        bound_cycles += exactly(counts, cycles)
        bound_bytes = [sum(each) for each in zip(bound_bytes, exactly(counts, nbytes), strict=True)]
    return replace(total, bound_cycles=bound_cycles, bound_dram_bytes=tuple(bound_bytes))


def _work(visits: list[_Visits], n_steps: int) -> StepWork:
    """Work of the layers in each step of the first batch."""

    def total(visit: _Visits, figure: Ints) -> Ints:
        summed: Ints = visit.spread(figure)[0].sum(axis=1)
        return summed

    work = StepWork(
        np.zeros(n_steps, np.int64),
        np.zeros((visits[0].outcome.dram_bytes.shape[1], n_steps), np.int64),
    )
    for visit in visits:
        work.busy_cycles[:] += total(visit, visit.outcome.busy_cycles)
        for moved, of_memory in zip(work.dram_bytes, visit.outcome.dram_bytes.T, strict=True):
            moved += total(visit, of_memory)
    return work
