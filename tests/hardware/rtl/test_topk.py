"""Heap and sorter find the keys that the policy finds, in the cycles that are stated."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra carsim[rtl]")

from amaranth.sim import Simulator
from gates import mutant

from carsim.decisions.attention.search import best
from carsim.hardware.rtl.topk import Heap, Sorter

ROWS = st.lists(st.lists(st.integers(0, 15), min_size=1, max_size=40), min_size=1, max_size=3)


def chosen(scores: list[int], k: int) -> set[int]:
    return set(np.flatnonzero(best(np.array(scores, float), k)).tolist())


def run(unit: Any, bench: Any) -> None:
    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def by_heap(heap: Heap, rows: list[list[int]], ks: list[int]) -> list[tuple[set[int], int]]:
    """What is found of each row, and the cycles for which its scores were offered."""
    found: list[tuple[set[int], int]] = []

    async def bench(ctx: Any) -> None:
        for scores, k in zip(rows, ks, strict=True):
            ctx.set(heap.k, k)
            cycles = 0
            for index, score in enumerate(scores):
                ctx.set(heap.score, score)
                ctx.set(heap.index, index)
                ctx.set(heap.valid, 1)
                while True:
                    taken = ctx.get(heap.ready)
                    cycles += 1
                    await ctx.tick()
                    if taken:
                        break
            ctx.set(heap.valid, 0)
            for _ in range(50):
                if not ctx.get(heap.busy):
                    break
                await ctx.tick()
            assert not ctx.get(heap.busy)
            indices = []
            ctx.set(heap.read, 1)
            for at in range(k):
                ctx.set(heap.at, at)
                if ctx.get(heap.filled):
                    indices.append(ctx.get(heap.found))
                await ctx.tick()
            ctx.set(heap.read, 0)
            assert len({*indices}) == len(indices)
            found.append(({*indices}, cycles))

    run(heap, bench)
    return found


def replacements(scores: list[int], k: int) -> int:
    """Scores that are among the best k of those so far, the last one left out."""
    return sum(
        index in chosen(scores[: index + 1], min(k, index + 1)) for index in range(len(scores) - 1)
    )


@pytest.mark.parametrize("levels", [1, 2, 4])
@settings(max_examples=20)
@given(rows=ROWS, data=st.data())
def test_the_heap_finds_the_best_and_waits_a_cycle_for_each_that_it_takes(
    levels: int, rows: list[list[int]], data: st.DataObject
) -> None:
    ks = [data.draw(st.integers(1, min(len(row), 2**levels - 1))) for row in rows]
    heap = Heap(levels, score_bits=4, index_bits=6)
    for scores, k, (indices, cycles) in zip(rows, ks, by_heap(heap, rows, ks), strict=True):
        assert indices == chosen(scores, k)
        assert cycles == len(scores) + replacements(scores, k)


@settings(max_examples=20)
@given(rows=ROWS, entries=st.integers(1, 8))
def test_the_sorter_finds_the_best_in_order_with_one_score_a_cycle(
    rows: list[list[int]], entries: int
) -> None:
    sorter = Sorter(entries, score_bits=4, index_bits=6)

    async def bench(ctx: Any) -> None:
        for scores in rows:
            ctx.set(sorter.clear, 1)
            await ctx.tick()
            ctx.set(sorter.clear, 0)
            ctx.set(sorter.valid, 1)
            for index, score in enumerate(scores):
                ctx.set(sorter.score, score)
                ctx.set(sorter.index, index)
                await ctx.tick()
            ctx.set(sorter.valid, 0)
            order = sorted(range(len(scores)), key=lambda n: (scores[n], n), reverse=True)
            for at in range(min(entries, len(scores))):
                ctx.set(sorter.at, at)
                assert ctx.get(sorter.found) == order[at]
            assert {*order[:entries]} == chosen(scores, min(entries, len(scores)))

    run(sorter, bench)


MUTANTS = {
    "of equal keys the earlier wins": ("offered > root", "offered > (root | 63)"),
    "the key goes down the wrong side": ("right.data < left.data", "right.data > left.data"),
    "entries beyond k are filled": ("2 * number <= self.k", "2 * number <= 64"),
    "a key may follow at once": ("self.ready.eq(~sinks[0])", "self.ready.eq(1)"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_on_purpose_is_caught(name: str) -> None:
    changed = mutant("topk", *MUTANTS[name])
    draw = np.random.default_rng(0)
    rows = [draw.integers(0, 16, 30).tolist() for _ in range(6)]
    ks = [3, 5, 6, 7, 2, 4]
    heap = changed.Heap(3, score_bits=4, index_bits=6)
    try:
        found = [indices for indices, _ in by_heap(heap, rows, ks)]
    except AssertionError:
        return
    assert found != [chosen(scores, k) for scores, k in zip(rows, ks, strict=True)]
