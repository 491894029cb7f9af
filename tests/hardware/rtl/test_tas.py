"""The TAS unit decides as exact arithmetic does, and as the rule of the simulator."""

from fractions import Fraction
from math import floor, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as drawn
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra carsim[rtl]")

from gates_bench import simulate

from carsim.decisions.replay.tas import temporal_attention_score
from carsim.hardware.rtl.tas import LATENCY_CYCLES, TasUnit


def decide(unit: TasUnit, rows: list[dict[str, Any]], lanes: int, gap: int = 0) -> list[Any]:
    """(cycle, replay, total) of each row; rows follow each other, with gaps between elements."""
    found: list[Any] = []
    feed = [
        (row, h, first)
        for row in rows
        for h in range(len(row["q"]))
        for first in range(0, row["q"].shape[1], lanes)
    ]

    async def bench(ctx: Any) -> None:
        for cycle in range((len(feed)) * (1 + gap) + LATENCY_CYCLES + 1):
            row, h, first = feed[min(cycle // (1 + gap), len(feed) - 1)]
            there = cycle % (1 + gap) == 0 and cycle // (1 + gap) < len(feed)
            ctx.set(unit.valid, there)
            for lane in range(lanes):
                ctx.set(unit.q[lane], int(row["q"][h, first + lane]) if there else 1)
                ctx.set(unit.k[lane], int(row["k"][h, first + lane]) if there else 1)
            ctx.set(unit.step, int(row["step"][h]))
            ctx.set(unit.zero, int(row["zero"][h]))
            ctx.set(unit.limit, rows[min(len(found), len(rows) - 1)]["limit"])
            if ctx.get(unit.decided):
                found.append((cycle, ctx.get(unit.replay), ctx.get(unit.total)))
            await ctx.tick()

    simulate(unit, bench)
    return found


def exact(row: dict[str, Any]) -> int:
    dots = (row["q"] * (row["k"] - row["zero"][:, None])).sum(axis=1)
    return sum(int(dot) * int(step) for dot, step in zip(dots, row["step"], strict=True))


def draw_rows(seed: int, heads: int, head_dim: int, q_bits: int, k_bits: int) -> list[Any]:
    draw = np.random.default_rng(seed)
    edge = draw.random() < 0.3  # the largest numbers that there are
    top = 2 ** (q_bits - 1)
    rows = []
    for _ in range(3):
        q = draw.integers(-top, top, (heads, head_dim))
        row = {
            "q": np.where(q < 0, -top, top - 1) if edge else q,
            "k": draw.integers(0, 2**k_bits, q.shape),
            "step": draw.integers(0, 2**16, heads),
            "zero": draw.integers(-(2**15), 2**15, heads),
        }
        # On the limit itself, a hair below and above: the comparison is strict.
        row["limit"] = exact(row) + int(draw.integers(-1, 2))
        rows.append(row)
    return rows


SHAPES = [(1, 4, 2), (3, 4, 4), (2, 8, 1)]


@pytest.mark.parametrize(("heads", "head_dim", "lanes"), SHAPES)
@drawn(max_examples=10)
@given(seed=st.integers(0, 2**32), gap=st.integers(0, 2))
def test_sums_are_exact_and_the_comparison_is_strict(heads, head_dim, lanes, seed, gap):
    rows = draw_rows(seed, heads, head_dim, 8, 4)
    unit = TasUnit(heads=heads, head_dim=head_dim, lanes=lanes, q_bits=8, k_bits=4)
    beats = heads * head_dim // lanes
    assert decide(unit, rows, lanes, gap) == [
        ((number * beats - 1) * (1 + gap) + LATENCY_CYCLES, exact(row) > row["limit"], exact(row))
        for number, row in enumerate(rows, start=1)
    ]


def test_it_decides_as_the_rule_of_the_simulator() -> None:
    heads, head_dim, lanes, tau = 4, 8, 4, 0.25
    draw = np.random.default_rng(0)
    rows, scores = [], []
    q_step, lsb = Fraction(1, 64), Fraction(1, 2**14)
    for _ in range(12):
        row = {
            "q": draw.integers(-127, 128, (heads, head_dim)),
            "k": draw.integers(0, 16, (heads, head_dim)),
            "step": draw.integers(1, 2**12, heads),
            "zero": draw.integers(4, 12, heads),
        }
        row["limit"] = floor(tau * heads * sqrt(head_dim) / float(q_step * lsb))
        rows.append(row)
        query = row["q"] * float(q_step)
        key = (row["k"] - row["zero"][:, None]) * row["step"][:, None] * float(lsb)
        scores.append(float(temporal_attention_score(query[None], key[None])[0]))
    unit = TasUnit(heads=heads, head_dim=head_dim, lanes=lanes, q_bits=8, k_bits=4)
    decided = [bool(replay) for _, replay, _ in decide(unit, rows, lanes)]
    assert decided == [score > tau for score in scores]
    assert len({*decided}) == 2


def test_lanes_must_divide_a_head() -> None:
    with pytest.raises(ValueError, match="3 lanes do not divide a head of 8 elements"):
        TasUnit.check(8, 3)
