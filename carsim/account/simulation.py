"""One policy simulated on one machine over all batches of a trace, as sums over its phases.

After the prompt, a video of T frames of N tokens is T * N steps of L layers, or fewer if a step
decodes several tokens (``policy.tokens_per_step``). A layer-step is one layer in one step. It has a
phase for each of its blocks, or several where groups of rows are dispatched one after the other. A
step ends with the head and the host.

Two equal layer-steps have equal phases. A run therefore lists the different ones, simulates each
once, and counts how often it occurs (:mod:`carsim.machine.run`); neither the solver nor SimPy ever
sees a layer or a video. A simulation is the sum over the phases, each times its count.
``tests/plainly.py`` takes the layer-steps one after the other instead: the reference of this way.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from carsim.account.ranges import check_plan
from carsim.account.totals import PhaseTotals, Sums, sums_by_kind
from carsim.hardware.schedule import SCHEDULES, Schedule
from carsim.machine.batches import Batches
from carsim.machine.lanes import Ints
from carsim.machine.plan import Plan
from carsim.machine.run import visit_phases
from carsim.machine.visits import Visits
from carsim.workload.activity import Activity


@dataclass(frozen=True, eq=False)
class Simulation:
    """One policy simulated over all batches of a trace. G batches, S steps, L layers.

    Attributes:
        plan: The policy and its machine.
        totals: Sums over all batches, by kind of phase: prefill, those of a layer, head.
        batch_cycles: Latency of each batch, prefill to last token, int64[G].
        first_cycles: Latency of prefill and first step of each batch, int64[G].
        visits: Outcome of each layer-step and step; empty without detail.
    """

    plan: Plan
    totals: Mapping[str, PhaseTotals]
    batch_cycles: Ints
    first_cycles: Ints
    visits: tuple[Visits, ...] = ()

    @cached_property
    def cycles(self) -> int:
        """Latencies of all batches, added up."""
        return sum(total.cycles for total in self.totals.values())

    @cached_property
    def bound_cycles(self) -> int:
        """Lower bound over all assignments of whole sequences to these cores, all batches."""
        return sum(total.bound_cycles for total in self.totals.values())

    @cached_property
    def activity(self) -> Activity:
        """Work of the machine over all batches, for the energy model."""
        return self._activity(self.totals.values())

    @cached_property
    def decode_activity(self) -> Activity:
        """Work of the machine over all batches without the prompt."""
        return self._activity(total for name, total in self.totals.items() if name != "prefill")

    def _activity(self, totals: Iterable[PhaseTotals]) -> Activity:
        """Work of all kinds of phase in ``totals``."""
        phase_totals = list(totals)
        dram_bytes = {}
        for memory, name in enumerate(self.plan.machine.memories):
            dram_bytes[name] = sum(total.dram_bytes[memory] for total in phase_totals)
        return Activity(
            cycles=sum(total.cycles for total in phase_totals),
            macs=sum(total.macs for total in phase_totals),
            vector_ops=sum(total.vector_ops for total in phase_totals),
            sram_bytes=sum(total.sram_bytes for total in phase_totals),
            dram_bytes=dram_bytes,
        )


def simulate_policy(plan: Plan, batches: Batches, *, detail: bool = False) -> Simulation:
    """Simulate a policy on one design: all batches of one set of decisions.

    Args:
        plan: Policy, machine of one design, video and the steps of it to simulate.
        batches: Decisions, bool[G, S, L, B]; S and L are those of plan and model.
        detail: Keep the outcome of each layer-step.
    """
    by_member = simulate_policy_on_designs(plan, batches, detail=detail)
    ((simulation,),) = by_member  # one set of decisions, one design
    return simulation


def simulate_policy_on_designs(
    plan: Plan, batches: Batches, *, detail: bool = False
) -> list[tuple[Simulation, ...]]:
    """Simulate a policy on every design, for every set of decisions among the batches.

    Args:
        plan: Policy, machine of D designs, video and the steps of it to simulate.
        batches: Decisions, bool[G, S, L, B], of one set of decisions or joined of several.
        detail: Keep the outcome of each layer-step; for one set of decisions and one design.

    Returns:
        One tuple of D simulations per member of ``batches``, in the order of the designs.
    """
    check_plan(plan)
    is_fitted = type(SCHEDULES[plan.schedule]).fitted is not Schedule.fitted
    if is_fitted and plan.machine.n_designs > 1:
        return _simulate_designs_in_turn(plan, batches)
    visits = list(visit_phases(plan, batches, detail=detail))
    return add_up(plan, batches, visits, detail=detail)


def _simulate_designs_in_turn(plan: Plan, batches: Batches) -> list[tuple[Simulation, ...]]:
    """Simulate one design after the other, as the schedule is fitted to each by itself.

    Returns:
        One tuple of D simulations per member of ``batches``, in the order of the designs.
    """
    by_design = [
        simulate_policy_on_designs(plan.of_design(design), batches)
        for design in range(plan.machine.n_designs)
    ]
    return [
        tuple(simulation for (simulation,) in simulations_of_member)
        for simulations_of_member in zip(*by_design, strict=True)
    ]


def add_up(
    plan: Plan, batches: Batches, visits: Sequence[Visits], *, detail: bool
) -> list[tuple[Simulation, ...]]:
    """Add up the visits of a run.

    Args:
        plan: Policy and machine of D designs.
        batches: Decisions of one member or several.
        visits: All phases of the run.
        detail: Keep the visits of layer-steps and steps.

    Returns:
        One tuple of D simulations per member of ``batches``, in the order of the designs.
    """
    n_designs = plan.machine.n_designs
    batch_cycles = np.zeros((n_designs, len(batches.replay)), np.int64)
    first_cycles = np.zeros_like(batch_cycles)
    for visited in visits:
        batch_cycles += visited.cycles(visited.counts, n_designs)
        first_cycles += visited.cycles(visited.counts_to_first_token, n_designs)
    sums = sums_by_kind(plan, batches, visits)
    detailed: tuple[Visits, ...] = ()
    if detail:
        detailed = tuple(visited for visited in visits if visited.outcome_of is not None)
    plans = [plan.of_design(design) for design in range(n_designs)]
    by_member = []
    first_batch = 0
    for member, batches_of_member in enumerate(batches.members):
        # The batches of the members lie one after the other.
        end_batch = first_batch + len(batches_of_member.replay)
        simulations = [
            Simulation(
                plan=plans[design],
                totals=_totals_of(sums, design, member),
                batch_cycles=batch_cycles[design, first_batch:end_batch],
                first_cycles=first_cycles[design, first_batch:end_batch],
                visits=detailed,
            )
            for design in range(n_designs)
        ]
        by_member.append(tuple(simulations))
        first_batch = end_batch
    return by_member


def _totals_of(sums: Mapping[str, Sums], design: int, member: int) -> dict[str, PhaseTotals]:
    """Sums of one member on one design; a host that takes no time there is left out."""
    totals_by_name = {}
    for name, sums_of_kind in sums.items():
        total = sums_of_kind.of(design, member)
        if name != "host" or total.cycles:
            totals_by_name[name] = total
    return totals_by_name
