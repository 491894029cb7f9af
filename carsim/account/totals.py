"""Exact sums over phases: time and work by kind of phase, and bounds of blocks that rows skip.

Figures of phases are int64; sums over all phases of a run are Python's integers, which are right
whatever their size. D designs, P members of the batches (sets of decisions), n phases.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.groups import grouped
from carsim.machine.batches import Batches
from carsim.machine.lanes import Ints
from carsim.machine.phase import Outcome, by_design
from carsim.machine.plan import Plan
from carsim.machine.visits import Visits
from carsim.program.program import Program

FEW_PHASES = 1 << 12
"""As many phases are summed in one table: to sum their figures one by one takes longer."""

SUMMED_TOGETHER = 1 << 14
"""Phases that are summed together, unless a single design has more."""

Exact = NDArray[np.object_]
"""An array of Python's integers."""


@dataclass(frozen=True, slots=True)
class PhaseTotals:
    """Time and work of all phases of a kind; fields as in :class:`Outcome`.

    Attributes:
        count: Phases summed.
    """

    count: int
    cycles: int
    times: tuple[int, ...]
    compute_cycles: int
    busy_cycles: int
    macs: int
    vector_ops: int
    sram_bytes: int
    dram_bytes: tuple[int, ...]
    bound_cycles: int
    bound_dram_bytes: tuple[int, ...]
    booked: tuple[int, ...]
    buffer_traffic: tuple[int, ...]


class Sums(NamedTuple):
    """Sums over the phases of one kind.

    Attributes:
        by_design: Totals of each design and member; of one member, if all members have equal ones.
    """

    by_design: list[list[PhaseTotals]]

    def of(self, design: int, member: int) -> PhaseTotals:
        """The totals of one member on one design."""
        by_member = self.by_design[design]
        return by_member[member if len(by_member) > 1 else 0]


def sums_by_kind(plan: Plan, batches: Batches, visits: Sequence[Visits]) -> dict[str, Sums]:
    """Sums by kind of phase, with the bounds of blocks that rows skip.

    Args:
        plan: Policy and machine.
        batches: Decisions of one member or several.
        visits: All phases of the run.
    """
    sizes = np.array([len(member.replay) for member in batches.members])
    weighted = grouped((kind.name, (kind.outcome, kind.of_members(sizes))) for kind in visits)
    sums: dict[str, Sums] = {}
    for name, outcomes_and_counts in weighted.items():
        sums[name] = sum_outcomes(outcomes_and_counts, plan.machine.n_designs)
    program = plan.program(decided=plan.rule is not None)
    decisions = batches.by_name(program.decisions)
    for name, bounds in bounds_of_skipped(plan, program, decisions).items():
        sums[name] = _with_bounds(sums[name], bounds)
    if plan.reuses_forwards:
        _add_bounds_of_forwards(sums, plan, batches)
    return sums


def _add_bounds_of_forwards(sums: dict[str, Sums], plan: Plan, batches: Batches) -> None:
    """Add the bounds of forwards that reuse the last one as a whole, to the sums by kind."""
    whole_plan = plan.of_whole_forwards
    program = whole_plan.program(decided=True)
    steps = np.flatnonzero(batches.whole_forwards(len(plan.steps)))
    by_rows = batches.by_rows
    members = tuple(member.at_steps(steps) for member in by_rows.members)
    decisions = {
        name: replace(of_rows, joined_from=tuple(each.by_name([name])[name] for each in members))
        for name, of_rows in by_rows.by_name(program.decisions).items()
    }
    for name, bounds in bounds_of_skipped(whole_plan, program, decisions).items():
        sums[name] = _with_bounds(sums[name], bounds)


def sum_outcomes(weighted: Sequence[tuple[Outcome, Ints]], designs: int = 1) -> Sums:
    """Sum outcomes of one kind of phase on each of D designs, for each of P members.

    Args:
        weighted: Outcomes, and how often their phases occur in each member, [D or 1, P or 1, n].
        designs: D.
    """
    columns = _Columns.of(weighted[0][0])
    sums: Exact = np.zeros((1, 1, 1), object)
    for outcome, counts in weighted:
        figures = [np.ones_like(outcome.cycles)]  # for the count
        figures += [getattr(outcome, field.name) for field in fields(Outcome)]
        sums = sums + _sums_of_figures(counts, [by_design(figure, designs) for figure in figures])
    return Sums([[columns.totals(figures) for figures in by_member] for by_member in sums.tolist()])


def _sums_of_figures(counts: Ints, figures: Sequence[Ints]) -> Exact:
    """Sums of several figures side by side: Python's integers, [D, P, columns of all figures].

    Figures of many phases are summed one by one, and those of few designs at a time, so that they
    stay in the caches of the processor: one table of all figures takes four times as long.

    Args:
        counts: How often each phase occurs in each member, [D or 1, P or 1, n].
        figures: Figures of n phases on each of D designs, [D, n] or [D, n, k] each.
    """
    n_designs, n_phases = figures[0].shape[:2]
    tables = [figure.reshape(n_designs, n_phases, -1) for figure in figures if figure.size]
    if n_designs * n_phases <= FEW_PHASES:
        return exact_sums(counts, np.concatenate(tables, axis=2))
    at_once = max(1, SUMMED_TOGETHER // n_phases)
    sums_of_portions = []
    for first in range(0, n_designs, at_once):
        portion = slice(first, first + at_once)
        counts_of_portion = counts if len(counts) == 1 else counts[portion]
        sums_of_tables = [exact_sums(counts_of_portion, table[portion]) for table in tables]
        sums_of_portions.append(np.concatenate(sums_of_tables, axis=2))
    return np.concatenate(sums_of_portions)


class _Columns(NamedTuple):
    """The columns of each figure of outcomes that lie side by side in one table.

    Attributes:
        first: First column of a figure, by name.
        end: Column behind its last, by name.
    """

    first: Mapping[str, int]
    end: Mapping[str, int]

    @classmethod
    def of(cls, outcome: Outcome) -> "_Columns":
        """The columns of ``count``, then of all figures of an outcome."""
        widths = {"count": 1}
        for field in fields(Outcome):
            figure = getattr(outcome, field.name)
            widths[field.name] = 1 if figure.ndim == 1 else figure.shape[1]
        ends = np.cumsum(list(widths.values())).tolist()
        end = dict(zip(widths, ends, strict=True))
        return cls(first={name: end[name] - widths[name] for name in widths}, end=end)

    def totals(self, sums: Sequence[int]) -> PhaseTotals:
        """The totals in one row of the table."""

        def figure(name: str) -> int:
            return sums[self.first[name]]

        def figures(name: str) -> tuple[int, ...]:
            return tuple(sums[self.first[name] : self.end[name]])

        return PhaseTotals(
            count=figure("count"),
            cycles=figure("cycles"),
            times=figures("times"),
            compute_cycles=figure("compute_cycles"),
            busy_cycles=figure("busy_cycles"),
            macs=figure("macs"),
            vector_ops=figure("vector_ops"),
            sram_bytes=figure("sram_bytes"),
            dram_bytes=figures("dram_bytes"),
            bound_cycles=figure("bound_cycles"),
            bound_dram_bytes=figures("bound_dram_bytes"),
            booked=figures("booked"),
            buffer_traffic=figures("buffer_traffic"),
        )


def exact_sums(counts: Ints, figures: Ints) -> Exact:
    """Sums of figures [D, n, k], each so often, [D or 1, P, n]: Python's integers, [D, P, k].

    They are right whatever their size.
    """
    most = int(counts.sum(axis=-1).max()) * int(figures.max(initial=0))
    if most < 1 << 53:
        # All sums are whole numbers that float64 holds exactly. NumPy multiplies such matrices by
        # BLAS, in a fifth of the time of whole numbers.
        sums = counts.astype(np.float64) @ figures.astype(np.float64)
        return sums.astype(np.int64).astype(object)
    if most >= 1 << 62:
        counts = counts.astype(object)
    return (counts @ figures).astype(object)


def bounds_of_skipped(
    plan: Plan, program: Program, decisions: Mapping[str, Batches]
) -> dict[str, Exact]:
    """Lower bounds of the blocks that rows skip, by kind: Python's integers, [D, P, 1 + memories].

    A block that reads a cache has a bound in each of its phases instead, and so has one whose
    tokens decide by ranges.

    Args:
        plan: Policy and machine.
        program: The blocks of the layers.
        decisions: Decisions by name.
    """
    bounds: dict[str, Exact] = {}
    for block, layers in program.skipped.items():
        if block.reads_tokens:
            continue
        assert block.follows is not None
        if decisions[block.follows].tokens is not None:
            continue
        bound = plan.phases.bound(block, plan.machine.rows)
        members = decisions[block.follows].members
        counts = np.array([member.of_layers(layers).computing_counts for member in members])
        figures = np.concatenate([bound.cycles[..., None], bound.nbytes], axis=2)
        sums = exact_sums(counts[None], figures)
        bounds[block.name] = bounds[block.name] + sums if block.name in bounds else sums
    return bounds


def _with_bounds(sums: Sums, bounds: Exact) -> Sums:
    """Add the bounds of the layers in which rows skip a block to those of the other layers.

    Args:
        sums: Sums over phases of one kind. Phases of blocks that rows skip have a bound of zero.
        bounds: Bound in cycles, then in bytes of each memory, [D, P, 1 + memories].
    """
    by_design = []
    for design, bounds_of_design in enumerate(bounds.tolist()):
        by_member = []
        for member, (cycles, *dram_bytes) in enumerate(bounds_of_design):
            total = sums.of(design, member)
            bound_dram_bytes = tuple(
                of_other_layers + of_skipped
                for of_other_layers, of_skipped in zip(
                    total.bound_dram_bytes, dram_bytes, strict=True
                )
            )
            bounded_total = replace(
                total,
                bound_cycles=total.bound_cycles + cycles,
                bound_dram_bytes=bound_dram_bytes,
            )
            by_member.append(bounded_total)
        by_design.append(by_member)
    return Sums(by_design)
