"""Simulate one policy on one machine over all batches of a trace.

A video is T * N steps of L layers; a layer-step is the phases QKV, attention, output projection and
MLP; a step ends with the head and the host; prefill comes first. Nothing crosses a phase, so that
each distinct phase is taken once, and a run is a sum of phases, each times how often it occurs.
:mod:`carsim.machine.plainly` takes the layer-steps one after the other instead, and is what the
fast way is tested against.
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
from carsim.machine.phase import Outcome, by_design
from carsim.machine.plan import Plan
from carsim.machine.ranges import check_plan
from carsim.machine.totals import PhaseTotals, activity_of, exactly, totals_of
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
    """Visits of the layer-steps of each batch to the outcomes of a kind of phase, on D designs.

    Attributes:
        name: Kind of phase.
        outcome: n different phases on each design.
        counts: Visits of each batch to each outcome, int64[D or 1, G, n].
        first_cycles: Cycles of the first step, int64[D or 1, G or 1]; 0 where another visit serves
            it.
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
    """Simulate all batches on one design.

    Args:
        plan: Policy, machine, video and the steps of it to simulate.
        batches: Decisions, bool[G, S, L, B]; S and L are those of plan and model.
        detail: Keep the cycles of each layer-step, and the work of each step.
    """
    (found,) = simulate_designs(plan, batches, detail=detail)
    return found


def simulate_designs(
    plan: Plan, batches: Batches, *, detail: bool = False
) -> tuple[Simulation, ...]:
    """The same on each of the designs of the plan's hardware; detail is of a single one."""
    check_plan(plan)
    shape, designs = batches.replay.shape[:3], len(plan.hw.designs)
    visits: list[_Visits] = []
    for scored in (False, True):
        where = np.flatnonzero(plan.scored == scored)
        if where.size:
            visits += _visits_of(_Steps(plan, shape, where, scored, detail), batches)
    outside = outside_of_layers(plan, shape[0])
    totals = {"prefill": outside.totals["prefill"]}
    for name in LAYER_PHASES:
        of_kind = [(v.outcome, v.counts.sum(axis=1)) for v in visits if v.name == name]
        totals[name] = totals_of(of_kind, designs)
    totals["mlp"] = with_mlp_bound(totals["mlp"], plan, batches)
    totals |= outside.totals
    batch_cycles = outside.cycles[:, None] + np.zeros(shape[0], np.int64)
    first_cycles = outside.first_cycles[:, None] + np.zeros(shape[0], np.int64)
    for visit in visits:
        cycles = by_design(visit.outcome.cycles, designs)[..., None]
        batch_cycles += (visit.counts @ cycles)[..., 0]
        first_cycles += visit.first_cycles
    kept = {name: np.zeros(shape, np.int64) for name in LAYER_PHASES} if detail else {}
    for visit in visits if detail else ():
        kept[visit.name] += visit.spread(visit.outcome.cycles)
    unique = sum(v.counts.any(axis=1).sum(axis=1) for v in visits) + np.zeros(designs, np.int64)
    return tuple(
        Simulation(
            plan.of_design(design),
            {k: each[design] for k, each in totals.items() if k != "host" or each[design].cycles},
            batch_cycles[design],
            first_cycles[design],
            kept,
            _work(visits, shape[1]) if detail else None,
            int(unique[design]),
        )
        for design in range(designs)
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

    @property
    def designs(self) -> int:
        """Designs D of the plan's hardware."""
        return len(self.plan.hw.designs)

    def visits(
        self, name: str, outcome: Outcome, index: NDArray[np.intp], layers: Sequence[int]
    ) -> _Visits:
        """Visits of some layers, given their outcomes, [D or 1, G or 1, s, l or 1]."""
        n, alike = len(outcome.cycles) // self.designs, len(layers) // index.shape[3]
        counts = np.array(
            [[np.bincount(each.ravel(), minlength=n) for each in of_one] for of_one in index],
            np.int64,
        )
        counts = np.broadcast_to(counts * alike, (len(index), self.shape[0], n))
        first_cycles = self.first_cycles(outcome, index[:, :, 0]) * alike
        return _Visits(name, outcome, counts, first_cycles, self._at(index, layers))

    def first_cycles(self, outcome: Outcome, index: NDArray[np.intp]) -> Ints:
        """Cycles of the first step, given its outcomes in each layer, [D or 1, G or 1, l]."""
        if self.where[0]:
            return np.zeros((1, 1), np.int64)
        n = len(outcome.cycles) // self.designs
        cycles: Ints = outcome.cycles[index + n * np.arange(self.designs)[:, None, None]].sum(-1)
        return cycles

    def _at(self, index: NDArray[np.intp], layers: Sequence[int]) -> NDArray[np.intp] | None:
        if not self.detail:
            return None
        every = np.full((index.shape[1], *self.shape[1:]), -1, np.intp)
        every[:, self.where[:, None], np.asarray(layers)] = index[0]
        return every


def _visits_of(steps: _Steps, batches: Batches) -> list[_Visits]:
    """The phases of all layer-steps of some steps."""
    plan, phases = steps.plan, steps.plan.phases
    rule = plan.rule if steps.scored else None
    every = range(steps.shape[2])
    same = np.zeros((1, 1, len(steps.where), 1), np.intp)
    attention, case_of = _attention(plan, batches, rule, steps.where)
    output = phases.output(rule)
    found = [
        steps.visits("qkv", phases.qkv(rule), same, every),
        steps.visits("attention", attention, case_of[None], every),
        steps.visits("output", output, same, every),
    ]
    known = plan.known_cycles(by_design(attention.cycles, steps.designs), output.cycles[:, None])
    known = np.minimum(known, plan.hw.dispatch_cycles(plan.schedule_of(steps.scored)))
    for dense, layers in plan.hw.design.model.body.layers_by_mlp().items():
        of_layers = case_of[..., layers] if case_of.shape[2] > 1 else case_of
        mlps = _Mlps(batches.of_layers(layers), known, of_layers, layers, dense)
        found += _mlp_visits(steps, mlps)
    return found


class _Mlps(NamedTuple):
    """The MLPs of some layers.

    Attributes:
        batches: Decisions of these layers.
        known_cycles: For how long they are known behind each case of attention, [D, n].
        case_of: Case of attention of each layer-step, [G or 1, s, l or 1].
        layers: The layers.
        dense: They have one MLP for all tokens.
    """

    batches: Batches
    known_cycles: Ints
    case_of: NDArray[np.intp]
    layers: Sequence[int]
    dense: bool


def _mlp_visits(steps: _Steps, mlps: _Mlps) -> list[_Visits]:
    plan, scored = steps.plan, steps.scored
    schedule, found = plan.schedule_of(scored), []
    for number, group in enumerate(plan.groups(scored)):
        rows = mlps.batches.distinct(steps.where, group)
        # The register takes the next group once the one before has left the cores.
        begun = mlps.known_cycles * (scored and number == 0)
        starts, start_of = begun[:, :1], np.zeros((1, 1, 1, 1), np.intp)
        if (begun != starts).any():
            used, start_of = renumber(begun, plan.hw.dispatch_cycles(schedule) + 1)
            starts, start_of = used[None], start_of[:, mlps.case_of]
        # Cores being alike, only their loads matter, what travels to them, and how long the
        # decisions are known.
        home = group.start % plan.hw.design.machine.cores
        none = np.zeros(1, np.int64) if scored else None
        cases = MlpCases(rows.rows, none, home, mlps.dense)
        loads = np.concatenate(cases.loads(plan.hw, schedule), axis=1)
        first, same_as = distinct_rows(loads, plan.hw.rows + 1)
        start, row = np.divmod(np.arange(len(first) * starts.shape[1]), len(first))
        known_cycles = starts[:, start] if scored else None
        cases = cases._replace(computing=rows.rows[first[row]], known_cycles=known_cycles)
        if starts.shape[1] == 1 and not steps.detail:
            counts = np.zeros((1, steps.shape[0], len(first)), np.int64)
            np.add.at(counts[0].T, same_as, rows.counts.T)
            mlp = plan.phases.mlp(schedule, cases, plan.rule)
            cycles = steps.first_cycles(mlp, same_as[rows.row_of_step(0)][None])
            found.append(_Visits("mlp", mlp, counts, cycles, None))
            continue
        used, index = renumber(same_as[rows.row_of] + len(first) * start_of, len(start))
        mlp = plan.phases.mlp(schedule, cases.take(used), plan.rule)
        found.append(steps.visits("mlp", mlp, index, mlps.layers))
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
        before += len(outcome.cycles) // len(plan.hw.designs)
    return Outcome.join(found, len(plan.hw.designs)), index


class Outside(NamedTuple):
    """Prefill, head and host of all batches, and their cycles in one batch, and in its first step.

    The prefill counts to the first step. All are of D designs, cycles int64[D].
    """

    totals: dict[str, list[PhaseTotals]]
    cycles: Ints
    first_cycles: Ints


def outside_of_layers(plan: Plan, n_batches: int) -> Outside:
    """Prefill, head and host of all batches of a plan."""
    design = plan.hw.design
    n_steps, prompt = len(plan.steps), plan.video.prompt_tokens
    prefill = [
        (
            plan.phases.prefill_layer(prompt, *kind),
            np.array([[n_batches * layers * (prompt > 0)]]),
        )
        for kind, layers in design.model.body.prompt_layers().items()
    ]
    designs, every = len(plan.hw.designs), np.array([[n_batches * n_steps]])
    totals = {"prefill": totals_of(prefill, designs)}
    if design.machine.include_head:
        totals["head"] = totals_of([(plan.phases.head(), every)], designs)
    if np.any(plan.hw.host_cycles):
        totals["host"] = totals_of([(plan.phases.host(), every)], designs)
    cycles = {
        name: np.array([total.cycles // n_batches for total in each])
        for name, each in totals.items()
    }
    first = {name: each if name == "prefill" else each // n_steps for name, each in cycles.items()}
    none = np.zeros(designs, np.int64)
    return Outside(totals, sum(cycles.values(), none), sum(first.values(), none))


def with_mlp_bound(totals: list[PhaseTotals], plan: Plan, batches: Batches) -> list[PhaseTotals]:
    """The bound of all MLPs: it knows no register groups, only how many sequences compute."""
    bounds = []
    for dense, layers in plan.hw.design.model.body.layers_by_mlp().items():
        bound = plan.phases.mlp_bound(plan.hw.rows, plan.rule, dense)
        counts = batches.of_layers(layers).computing_counts
        figures = np.concatenate([bound.cycles[..., None], bound.nbytes], axis=2)
        bounds.append(exactly(counts[None], figures))
    found = []
    for total, *parts in zip(totals, *bounds, strict=True):
        own, *moved = map(sum, zip(*parts, strict=True))
        found.append(replace(total, bound_cycles=own, bound_dram_bytes=tuple(moved)))
    return found


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
