"""The sorter finds the keys that the policy finds, best first, and takes a score every cycle."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra carsim[rtl]")

from gates_bench import simulate

from carsim.decisions.attention.search import best
from carsim.hardware.rtl import topk
from carsim.hardware.rtl.topk import Sorter

Rows = list[list[int]]


def run(sorter: Any, rows: Rows, pace: float = 1.0) -> tuple[Rows, int]:
    """Indices of each row in the order in which they come, and the cycles to offer all scores."""
    feed = [(score, n, n == len(row) - 1) for row in rows for n, score in enumerate(row)]
    found: Rows = [[]]
    offered = [0]
    draw = np.random.default_rng(0)

    async def bench(ctx: Any) -> None:
        taken = 0
        for cycle in range(200 + 20 * len(feed)):
            valid = taken < len(feed) and (offered[0] == cycle > 0 or draw.random() <= pace)
            ready = draw.random() <= pace
            ctx.set(sorter.valid, valid)
            ctx.set(sorter.best_ready, ready)
            if valid:
                for port, value in zip(("score", "index", "last"), feed[taken], strict=True):
                    ctx.set(getattr(sorter, port), value)
            if ready and ctx.get(sorter.best_valid):
                found[-1].append(ctx.get(sorter.best))
                if ctx.get(sorter.best_last):
                    found.append([])
            if valid:
                taken += ctx.get(sorter.ready)
                offered[0] = cycle + 1
            await ctx.tick()
            if len(found) > len(rows):
                return
        raise AssertionError("rows are missing")

    simulate(sorter, bench)
    return found[:-1], offered[0]


def ranked(row: list[int]) -> list[int]:
    return sorted(range(len(row)), key=lambda n: (row[n], n), reverse=True)


@pytest.mark.parametrize("entries", [2, 8, 32])
@settings(max_examples=15)
@given(data=st.data(), pace=st.sampled_from([1.0, 0.7]))
def test_rows_come_best_first_and_a_score_is_taken_every_cycle(entries, data, pace):
    row = st.lists(st.integers(0, 15), min_size=1, max_size=entries)
    rows = data.draw(st.lists(row, min_size=1, max_size=9)) + [[n % 16 for n in range(entries)]] * 2
    found, cycles = run(Sorter(entries, score_bits=4, index_bits=6), rows, pace)
    assert found == [ranked(row) for row in rows]
    if pace == 1.0:
        assert cycles == sum(map(len, rows))
    for scores, indices in zip(rows, found, strict=True):
        k = data.draw(st.integers(1, len(scores)))
        assert {*indices[:k]} == {*np.flatnonzero(best(np.array(scores, float), k)).tolist()}


def test_a_long_run_costs_one_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk, "LONG_RUN", 32)
    rows = [[*range(64)]] * 8
    found, cycles = run(Sorter(64), rows)
    assert found == [ranked(row) for row in rows]
    assert 0 < cycles - 8 * 64 <= 2 * 8
