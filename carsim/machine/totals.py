"""Sums of phases."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import numpy as np

from carsim.machine.lanes import Ints
from carsim.machine.phase import Outcome, by_design
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
    booked: tuple[int, ...]


def exactly(counts: Ints, figures: Ints) -> Any:
    """Sums of figures [D, n, k], each so often, [D or 1, n]: Python's integers, [D, k].

    They are right whatever their size.
    """
    if int(counts.sum(axis=1).max()) * int(figures.max(initial=0)) >= 1 << 62:
        counts = counts.astype(object)
    return (counts[:, None] @ figures)[:, 0].tolist()


def totals_of(weighted: Sequence[tuple[Outcome, Ints]], designs: int = 1) -> list[PhaseTotals]:
    """Sum outcomes of D designs, each of their phases with how often it occurs, [D or 1, n]."""
    names = [each.name for each in fields(Outcome)]
    count, sums = np.zeros(designs, np.int64), []
    widths: list[int | None] = [None] * len(names)
    for outcome, counts in weighted:
        every = [by_design(getattr(outcome, name), designs) for name in names]
        widths = [None if each.ndim == 2 else each.shape[2] for each in every]
        sums.append(exactly(counts, np.concatenate([*map(np.atleast_3d, every)], axis=2)))
        count += counts.sum(axis=1)
    totals = []
    for number, *parts in zip(count.tolist(), *sums, strict=True):
        total = map(sum, zip(*parts, strict=True))
        figures: Any = (next(total) if k is None else tuple(islice(total, k)) for k in widths)
        totals.append(PhaseTotals(number, *figures))
    return totals


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
