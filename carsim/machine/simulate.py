"""Simulate one policy on one machine over all batches of a trace.

A video is T * N steps of L layers; a layer-step is the phases QKV, attention, output projection and
MLP; a step ends with the head and the host; prefill comes first. Nothing crosses a phase, so that
each distinct phase is taken once, and a run is a sum of phases, each times how often it occurs.
``tests/plainly.py`` takes the layer-steps one after the other instead: the reference of this way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.replay import ReplayRule
from carsim.hardware.schedule import SCHEDULES, Schedule
from carsim.machine.batches import Batches, distinct_rows, renumber
from carsim.machine.cases import MlpCases
from carsim.machine.lanes import Ints
from carsim.machine.phase import Outcome, PhaseTotals, by_design, exactly, totals_of
from carsim.machine.plan import Plan
from carsim.machine.ranges import check_plan
from carsim.workload.activity import Activity

LAYER_PHASES = ("qkv", "attention", "output", "mlp")


class Visits(NamedTuple):
    """How often a run visits the outcomes of a kind of phase, on D designs.

    Attributes:
        name: Kind of phase.
        outcome: n different phases on each design.
        counts: Visits of each batch to each outcome, int64[D or 1, G, n].
        first: Those before the first token is there: the prompt's, and of the first step, likewise.
        outcome_of: The outcome of each layer-step, [G or 1, S, L], or of each step, [1, S, 1]; -1
            where other visits serve, None for the prompt and without detail.
    """

    name: str
    outcome: Outcome
    counts: Ints
    first: Ints
    outcome_of: NDArray[np.intp] | None = None

    def cycles(self, counts: Ints, designs: int) -> Ints:
        """Cycles of so many visits, int64[D, G]."""
        return (counts @ by_design(self.outcome.cycles, designs)[..., None])[..., 0]

    def of_parts(self, sizes: Ints) -> Ints:
        """Visits of parts of so many batches, int64[D or 1, P, n]; one row: all are alike."""
        if self.counts.shape[1] > 1:
            return np.add.reduceat(self.counts, np.cumsum(sizes) - sizes, axis=1)
        return self.counts * (sizes[:1] if (sizes == sizes[0]).all() else sizes)[:, None]

    def spread(self, figure: Ints) -> Ints:
        """A figure of the outcomes at each (layer-)step, 0 where other visits serve."""
        assert self.outcome_of is not None
        where = self.outcome_of.reshape(*self.outcome_of.shape, *[1] * (figure.ndim - 1))
        return np.where(where >= 0, figure[self.outcome_of], 0)


@dataclass(frozen=True, eq=False)
class Simulation:
    """One policy simulated over all batches of a trace. G batches, S steps, L layers.

    Attributes:
        plan: The policy and its machine.
        totals: Sums over all batches, by kind of phase: prefill, those of a layer, head.
        batch_cycles: Latency of each batch, prefill to last token, int64[G].
        first_cycles: The same of prefill and first step, int64[G].
        visits: Outcome of each layer-step and step; empty without detail.
    """

    plan: Plan
    totals: Mapping[str, PhaseTotals]
    batch_cycles: Ints
    first_cycles: Ints
    visits: tuple[Visits, ...] = ()

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
        return self._activity(self.totals.values())

    @property
    def decode_activity(self) -> Activity:
        """The same without the prompt."""
        return self._activity(each for name, each in self.totals.items() if name != "prefill")

    def _activity(self, totals: Iterable[PhaseTotals]) -> Activity:
        every, names = [*totals], ("cycles", "macs", "vector_ops", "sram_bytes")
        sums = {name: sum(getattr(total, name) for total in every) for name in names}
        moved = map(sum, zip(*(total.dram_bytes for total in every), strict=True))
        memories = (path.name for path in self.plan.hw.paths)
        return Activity(**sums, dram_bytes=dict(zip(memories, moved, strict=True)))


def simulate(plan: Plan, batches: Batches, *, detail: bool = False) -> Simulation:
    """Simulate all batches on one design.

    Args:
        plan: Policy, machine, video and the steps of it to simulate.
        batches: Decisions, bool[G, S, L, B]; S and L are those of plan and model.
        detail: Keep the outcome of each layer-step.
    """
    ((found,),) = simulate_designs(plan, batches, detail=detail)
    return found


def simulate_designs(
    plan: Plan, batches: Batches, *, detail: bool = False
) -> list[tuple[Simulation, ...]]:
    """The same for each part of the batches, on each of the designs of the plan's hardware.

    Detail is of a single part and design.
    """
    check_plan(plan)
    fits = type(SCHEDULES[plan.schedule]).fitted is not Schedule.fitted
    if fits and len(plan.hw.designs) > 1:  # a schedule of its own for each
        every = range(len(plan.hw.designs))
        alone = [simulate_designs(plan.of_design(number), batches) for number in every]
        return [tuple(one for (one,) in part) for part in zip(*alone, strict=True)]
    visits = [*prefill(plan)]
    for scored in (False, True):
        where = np.flatnonzero(plan.scored == scored)
        if where.size:
            visits += _Steps(plan, batches, where, scored, detail).visits()
    return simulations(plan, batches, [*visits, *step_ends(plan)], detail=detail)


def simulations(
    plan: Plan, batches: Batches, visits: Sequence[Visits], *, detail: bool
) -> list[tuple[Simulation, ...]]:
    """The simulation of each part and design from all visits of a run."""
    designs, parts = len(plan.hw.designs), batches.every_part
    batch_cycles, first_cycles = np.zeros((2, designs, len(batches.replay)), np.int64)
    of_kind: dict[str, list[tuple[Outcome, Ints]]] = {}
    sizes = np.array([len(each.replay) for each in parts])
    for each in visits:
        batch_cycles += each.cycles(each.counts, designs)
        first_cycles += each.cycles(each.first, designs)
        of_kind.setdefault(each.name, []).append((each.outcome, each.of_parts(sizes)))
    totals = {name: totals_of(every, designs) for name, every in of_kind.items()}
    totals["mlp"] = _with_mlp_bound(totals["mlp"], plan, parts)
    detailed = tuple(each for each in visits if detail and each.outcome_of is not None)
    plans, ends = [plan.of_design(design) for design in range(designs)], np.cumsum(sizes)

    def simulation(part: int, design: int) -> Simulation:
        own = slice(ends[part] - sizes[part], ends[part])
        every = {name: each[design][part % len(each[design])] for name, each in totals.items()}
        if "host" in every and not every["host"].cycles:
            del every["host"]
        cycles, first = batch_cycles[design, own], first_cycles[design, own]
        return Simulation(plans[design], every, cycles, first, detailed)

    every = range(designs)
    return [tuple(simulation(part, design) for design in every) for part in range(len(parts))]


def prefill(plan: Plan) -> Iterator[Visits]:
    """The prompt, layer by layer."""
    prompt = plan.video.prompt_tokens
    for kind, layers in plan.hw.design.model.body.prompt_layers().items():
        counts = np.array([[[layers * (prompt > 0)]]])
        yield Visits("prefill", plan.phases.prefill_layer(prompt, *kind), counts, counts)


def step_ends(plan: Plan) -> Iterator[Visits]:
    """Head and host, once a step."""
    once, each = np.ones((1, 1, 1), np.int64), np.zeros((1, len(plan.steps), 1), np.intp)
    if plan.hw.design.machine.include_head:
        yield Visits("head", plan.phases.head, once * len(plan.steps), once, each)
    if np.any(plan.hw.host_cycles):
        yield Visits("host", plan.phases.host(), once * len(plan.steps), once, each)


def _with_mlp_bound(
    totals: list[list[PhaseTotals]], plan: Plan, parts: Sequence[Batches]
) -> list[list[PhaseTotals]]:
    """The bound of all MLPs: it knows no register groups, only how many sequences compute."""
    sums: Any = 0
    for dense, layers in plan.hw.design.model.body.layers_by_mlp().items():
        bound = plan.phases.mlp_bound(plan.hw.rows, plan.rule, dense)
        counts = np.array([part.of_layers(layers).computing_counts for part in parts])
        figures = np.concatenate([bound.cycles[..., None], bound.nbytes], axis=2)
        sums = sums + exactly(counts[None], figures)
    return [
        [
            replace(of_kind[part % len(of_kind)], bound_cycles=own, bound_dram_bytes=tuple(moved))
            for part, (own, *moved) in enumerate(of_design)
        ]
        for of_kind, of_design in zip(totals, sums.tolist(), strict=True)
    ]


@dataclass(frozen=True)
class _Steps:
    """Steps of a run in which a replay is decided on, or all others.

    Attributes:
        plan: Policy and machine.
        batches: Decisions of all steps.
        where: The steps, int[s].
        scored: Whether a replay is decided on.
        detail: Outcomes are kept for each layer-step.
    """

    plan: Plan
    batches: Batches
    where: NDArray[np.intp]
    scored: bool
    detail: bool

    def visits(self) -> Iterator[Visits]:
        """The phases of all layer-steps."""
        plan, phases, hw = self.plan, self.plan.phases, self.plan.hw
        rule, every = plan.rule if self.scored else None, range(self.batches.replay.shape[2])
        same = np.zeros((1, 1, len(self.where), 1), np.intp)
        attention, case_of = self._attention(rule)
        output = phases.output(rule)
        yield self._visits("qkv", phases.qkv(rule), same, every)
        yield self._visits("attention", attention, case_of[None], every)
        yield self._visits("output", output, same, every)
        attended = by_design(attention.cycles, len(hw.designs))
        known = plan.known_cycles(attended, output.cycles[:, None])
        known = np.minimum(known, hw.dispatch_cycles(plan.schedule_of(self.scored)))
        for dense, layers in hw.design.model.body.layers_by_mlp().items():
            of_layers = case_of[..., layers] if case_of.shape[2] > 1 else case_of
            yield from self._mlps(known, of_layers, layers, dense)

    def _attention(self, rule: ReplayRule | None) -> tuple[Outcome, NDArray[np.intp]]:
        """Attention phases, and which of them each layer-step is, [G or 1, s, L or 1]."""
        plan, where, reads = self.plan, self.where, self.batches.reads
        by_window = plan.hw.design.model.body.layers_by_window()
        found, index_of = [], []
        for window, layers in by_window.items():
            cases = plan.reads[window].each(lambda figure: figure[where].reshape(1, -1, 1))
            if reads is not None and plan.attention.records:
                attended, runs = (each[:, where][..., layers] for each in reads)
                contexts = np.broadcast_to(cases.contexts, attended.shape)
                cases = cases._replace(attended=attended, runs=runs, contexts=contexts)
                cases = cases.alike(plan.hw)
            cases, case_of = cases.distinct()
            found.append(plan.phases.attention(rule, cases))
            index_of.append(case_of)
        if len(found) == 1:
            return found[0], index_of[0]
        index = np.empty((len(index_of[0]), len(where), sum(map(len, by_window.values()))), np.intp)
        before = 0
        for layers, outcome, case_of in zip(by_window.values(), found, index_of, strict=True):
            index[..., layers] = before + case_of
            before += len(outcome.cycles) // len(plan.hw.designs)
        return Outcome.join(found, len(plan.hw.designs)), index

    def _mlps(
        self, known: Ints, case_of: NDArray[np.intp], layers: Sequence[int], dense: bool
    ) -> Iterator[Visits]:
        """The MLPs of layers of one kind.

        Args:
            known: For how long decisions are known behind each case of attention, [D, n].
            case_of: Case of attention of each layer-step, [G or 1, s, l or 1].
            layers: The layers.
            dense: They have one MLP for all tokens.
        """
        plan, hw, batches = self.plan, self.plan.hw, self.batches.of_layers(layers)
        schedule = plan.schedule_of(self.scored)
        for number, (group, home) in enumerate(plan.groups(self.scored)):
            rows = batches.distinct(self.where, group)
            # The register takes the next group once the one before has left the cores.
            begun = known * (self.scored and number == 0)
            starts, start_of = begun[:, :1], np.zeros((1, 1, 1, 1), np.intp)
            if (begun != starts).any():
                used, start_of = renumber(begun, hw.dispatch_cycles(schedule) + 1)
                starts, start_of = used[None], start_of[:, case_of]
            # What decides is who computes, as far as it matters, and how long that is known.
            cases = MlpCases(rows.rows, starts[0, :1] if self.scored else None, home, dense)
            first, same_as = distinct_rows(cases.alike(hw, schedule), hw.rows + 1)
            start, row = np.divmod(np.arange(len(first) * starts.shape[1]), len(first))
            known_cycles = starts[:, start] if self.scored else None
            cases = cases._replace(computing=rows.rows[first[row]], known_cycles=known_cycles)
            if starts.shape[1] == 1 and not self.detail:
                mlp = plan.phases.mlp(schedule, cases, plan.rule)
                counts = np.zeros((1, len(batches.replay), len(first)), np.int64)
                np.add.at(counts[0].T, same_as, rows.counts.T)
                begin = same_as[rows.row_of(0)][None]
                yield Visits("mlp", mlp, counts, self._first(begin, len(first)))
                continue
            used, index = renumber(same_as[rows.row_of()] + len(first) * start_of, len(start))
            mlp = plan.phases.mlp(schedule, cases.take(used), plan.rule)
            yield self._visits("mlp", mlp, index, layers)

    def _visits(
        self, name: str, outcome: Outcome, index: NDArray[np.intp], layers: Sequence[int]
    ) -> Visits:
        """Visits of some layers, given their outcomes, [D or 1, G or 1, s, l or 1]."""
        n, alike = len(outcome.cycles) // len(self.plan.hw.designs), len(layers) // index.shape[3]
        outcome_of = None
        if self.detail:
            outcome_of = np.full((index.shape[1], *self.batches.replay.shape[1:3]), -1, np.intp)
            outcome_of[:, self.where[:, None], np.asarray(layers)] = index[0]
        first = self._first(index[:, :, 0], n)
        return Visits(name, outcome, _counted(index, n) * alike, first * alike, outcome_of)

    def _first(self, index: NDArray[np.intp], n: int) -> Ints:
        """Visits of the run's first step, given its outcomes, [D or 1, G or 1, l]."""
        return _counted(index, n) * int(self.where[0] == 0)


def _counted(index: NDArray[np.intp], n: int) -> Ints:
    """Occurrences of each of n numbers, [D, G, ...] -> int64[D, G, n]."""
    counts = [[np.bincount(each.ravel(), minlength=n) for each in of_one] for of_one in index]
    return np.array(counts, np.int64)
