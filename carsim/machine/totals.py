"""Sums of phase results."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter, mul
from typing import Any

from carsim.machine.bench import PhaseResult
from carsim.workload.activity import Activity


@dataclass(frozen=True, slots=True)
class PhaseTotals:
    """What all phases of one kind took and did over all batches; fields as in ``PhaseResult``."""

    count: int
    cycles: int
    times: tuple[int, ...]
    compute_cycles: int
    busy_cycles: int
    macs: int
    vector_ops: int
    sram_bytes: int
    dram_bytes: tuple[int, ...]
    wasted_bytes: int
    peak_weight_buffer_bytes: int
    peak_kv_buffer_bytes: int
    bound_cycles: int
    bound_dram_bytes: tuple[int, ...]


def total_of(weighted: Iterable[tuple[PhaseResult, int]]) -> PhaseTotals:
    """Sum results, each with how often it occurs."""
    items = list(weighted)
    results = [result for result, _ in items]
    counts = [count for _, count in items]

    def column(name: str) -> Iterator[Any]:
        return map(attrgetter(name), results)

    def total(name: str) -> int:
        return sum(map(mul, column(name), counts))

    def vector(name: str) -> tuple[int, ...]:
        return tuple(sum(map(mul, part, counts)) for part in zip(*column(name), strict=True))

    return PhaseTotals(
        count=sum(counts),
        cycles=total("cycles"),
        times=vector("times"),
        compute_cycles=total("compute_cycles"),
        busy_cycles=total("busy_cycles"),
        macs=total("macs"),
        vector_ops=total("vector_ops"),
        sram_bytes=total("sram_bytes"),
        dram_bytes=vector("dram_bytes"),
        wasted_bytes=total("wasted_bytes"),
        peak_weight_buffer_bytes=max(column("peak_weight_buffer_bytes"), default=0),
        peak_kv_buffer_bytes=max(column("peak_kv_buffer_bytes"), default=0),
        bound_cycles=total("bound_cycles"),
        bound_dram_bytes=vector("bound_dram_bytes"),
    )


def activity_of(totals: Mapping[str, PhaseTotals], memories: Iterable[str]) -> Activity:
    """What a machine did over phases of all kinds, for the energy model."""
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
