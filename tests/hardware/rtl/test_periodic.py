"""Counters decide as the rule does, layer by layer and token by token."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra carsim[rtl]")

from gates_bench import simulate

from carsim.decisions.replay import Seen
from carsim.decisions.replay.periodic import Periodic
from carsim.hardware.rtl.periodic import PeriodicUnit


@pytest.mark.parametrize(("layers", "tokens", "period"), [(1, 1, 2), (5, 3, 2), (3, 2, 7)])
def test_gates_replay_where_the_rule_does(layers: int, tokens: int, period: int) -> None:
    unit, frames, rule = PeriodicUnit(), 2 * period + 1, Periodic(period=period)
    told: list[bool] = []

    async def bench(ctx: Any) -> None:
        for name, most in (("layer", layers), ("token", tokens), ("turn", period)):
            ctx.set(getattr(unit, f"last_{name}"), most - 1)
        for video in range(2):
            ctx.set(unit.clear, 1)
            await ctx.tick()
            ctx.set(unit.clear, 0)
            for step in range(frames * tokens * layers // (2 - video)):  # the first is cut off
                told.append(bool(ctx.get(unit.replays)))
                ctx.set(unit.step, 0)
                for _ in range(step % 3):
                    await ctx.tick()
                ctx.set(unit.step, 1)
                await ctx.tick()
            ctx.set(unit.step, 0)

    simulate(unit, bench)
    expected = [
        frame > 0 and rule.score(None, layer, 0, seen_at(frame))[0] > 0.5
        for frame in range(frames)
        for _ in range(tokens)
        for layer in range(layers)
    ]
    assert told == [*expected[: len(expected) // 2], *expected]


def seen_at(frame: int) -> Seen:
    """A layer of one row; the rule looks at the number of the frame alone."""
    none = np.zeros((1, 1, 1))
    return Seen(none, none, lambda _: none, none[0], tokens_per_frame=1, frame=frame)
