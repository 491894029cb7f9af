"""Sums of phases."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from carsim.machine.lanes import Ints
from carsim.machine.phase import Outcome
from carsim.workload.activity import Activity


@dataclass(frozen=True, slots=True)
class PhaseTotals:
    """Time and work of all phases of a kind; fields as in :class:`~carsim.machine.phase.Outcome`.

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


def exactly(counts: Ints, figures: Ints) -> Any:
    """Sums of figures [n] or [n, k], each so often: Python's integers, whatever their size."""
    if int(counts.sum()) * int(figures.max(initial=0)) < 1 << 62:
        return (counts @ figures).tolist()
    return np.asarray(counts.astype(object) @ figures).tolist()


def total_of(weighted: Sequence[tuple[Outcome, Ints]]) -> PhaseTotals:
    """Sum outcomes, each of their phases with how often it occurs, [n]."""

    def total(name: str) -> int:
        return sum(exactly(counts, getattr(outcome, name)) for outcome, counts in weighted)

    def vector(name: str) -> tuple[int, ...]:
        parts = [exactly(counts, getattr(outcome, name)) for outcome, counts in weighted]
        return tuple(map(sum, zip(*parts, strict=True)))

    return PhaseTotals(
        count=sum(int(counts.sum()) for _, counts in weighted),
        cycles=total("cycles"),
        times=vector("times"),
        compute_cycles=total("compute_cycles"),
        busy_cycles=total("busy_cycles"),
        macs=total("macs"),
        vector_ops=total("vector_ops"),
        sram_bytes=total("sram_bytes"),
        dram_bytes=vector("dram_bytes"),
        bound_cycles=total("bound_cycles"),
        bound_dram_bytes=vector("bound_dram_bytes"),
    )


def activity_of(totals: Mapping[str, PhaseTotals], memories: Iterable[str]) -> Activity:
    """Work of a machine over phases of all kinds, for the energy model."""
    names = list(memories)
    return Activity(
        cycles=sum(total.cycles for total in totals.values()),
        macs=sum(total.macs for total in totals.values()),
        vector_ops=sum(total.vector_ops for total in totals.values()),
        sram_bytes=sum(total.sram_bytes for total in totals.values()),
        dram_bytes={
            name: sum(total.dram_bytes[index] for total in totals.values() if total.dram_bytes)
            for index, name in enumerate(names)
        },
    )
