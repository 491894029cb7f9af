"""Speculation on a machine: passes of m rows, and how many tokens pay for them."""

import numpy as np
import pytest
from tiny import tiny_design, tiny_trace

from carsim.base.errors import InputError
from carsim.cost.fit import check_fit, head_kv_bytes
from carsim.machine.simulate import simulate
from carsim.runs.pipeline import run
from carsim.workload.geometry import Video
from studies.speculation.machine import Speculation, speculate

FRAME, STEPS = 16, 48
LATER = STEPS - FRAME


def speculation(proposed: int, *changes: str, replays: bool = True) -> Speculation:
    return speculate(tiny_design(*changes), [tiny_trace()], proposed, replays=replays)


@pytest.mark.parametrize("replays", [True, False])
def test_passes_of_one_row_are_plain_decoding(replays: bool) -> None:
    found = speculation(1, replays=replays)
    report = run(tiny_design(), [tiny_trace()])
    plain = report.chosen if replays else report.baseline
    assert found.plain.latency_s == plain.latency_s
    assert found.seconds(LATER) == pytest.approx(plain.latency_s, rel=1e-12)
    assert found.tokens_to_break_even == pytest.approx(1)
    assert found.speedup(LATER) == pytest.approx(1)


@pytest.mark.parametrize("proposed", [2, 8])
def test_a_pass_fetches_weights_and_caches_once(proposed: int) -> None:
    found = speculation(proposed)
    model, layers, rows = found.design.model, 4, 4
    sets = LATER // proposed
    output = sum(found.later.totals["output"].dram_bytes)
    assert output == sets * layers * model.weights.bytes_of(model.body.hidden_size**2)
    prompt, kv = tiny_trace().prompt_tokens, model.kv
    contexts = prompt + np.arange(FRAME + proposed, STEPS + 1, proposed)
    reads = sum(kv.bytes_of(2 * int(each) * model.body.kv_size) for each in contexts)
    writes = sets * kv.bytes_of(2 * proposed * model.body.kv_size)
    assert sum(found.later.totals["attention"].dram_bytes) == rows * layers * (reads + writes)
    assert found.later.totals["head"].count == sets
    assert found.first.totals["head"].count == FRAME


def test_time_is_the_first_frame_and_the_passes() -> None:
    found = speculation(4)
    assert found.seconds(0) == found.first_seconds
    assert found.seconds(10) - found.seconds(7) == pytest.approx(3 * found.pass_seconds)
    row = run(tiny_design(), [tiny_trace()]).chosen
    alone = simulate(row.simulation.plan, row.batches, detail=True)
    layers = sum(int(cycles[:, :FRAME].sum()) for cycles in alone.phase_cycles.values())
    outside = alone.totals["prefill"].cycles + alone.totals["head"].cycles * FRAME // STEPS
    assert found.first.cycles == layers + outside


def test_break_even_is_where_both_take_as_long() -> None:
    found = speculation(4, "machine.array.rows=16", "machine.array.cols=16")
    tokens = found.tokens_to_break_even
    assert found.speedup(LATER / tokens) == pytest.approx(1)
    acceptance = found.acceptance_to_break_even
    assert acceptance is not None
    assert 0 < acceptance < 1
    assert found.speedup(found.passes_at(acceptance)) == pytest.approx(1, abs=1e-3)
    gains = [found.speedup(found.passes_at(a)) for a in np.linspace(0, 1, 9)]
    assert gains == sorted(gains)
    assert gains[0] < 1 < gains[-1]


def test_passes_pay_where_memory_is_the_limit() -> None:
    """A small array is busy with one row already; there, all accepted is not enough."""
    small, large = ((f"machine.array.rows={n}", f"machine.array.cols={n}") for n in (2, 16))
    slow, fast = (
        speculation(4, *size, "machine.vector.lanes=64", replays=False) for size in (small, large)
    )
    every = LATER / 4
    assert slow.speedup(every) < fast.speedup(every)
    assert slow.tokens_to_break_even > fast.tokens_to_break_even
    busy = speculation(4, "machine.array.rows=1", "machine.array.cols=1", replays=False)
    assert busy.tokens_to_break_even > 3.5


def test_a_design_without_room_for_the_rows_says_so() -> None:
    assert speculation(1).fit.fits
    tight = speculation(16)
    assert not tight.fit.fits
    assert any("activation" in misfit for misfit in tight.fit.misfits)


def test_what_cannot_be_speculated_on_is_refused() -> None:
    with pytest.raises(InputError, match="2 tokens a step leave nothing to speculate on"):
        speculation(2, "policy.tokens_per_step=2")
    with pytest.raises(InputError, match="5 tokens do not divide a frame of 16"):
        speculation(5)
    with pytest.raises(InputError, match="tokens_per_step"):
        speculation(0)


def test_the_head_keeps_keys_and_values_of_every_row() -> None:
    """All rows of a step go through the head together."""
    what = "the head's keys and values in the KV buffer"
    video = Video(3, FRAME, 4)

    def needed(sets: int) -> float:
        design = tiny_design("model.preset=vila_u_7b", f"policy.tokens_per_step={sets}")
        rows = {row.what: row for row in check_fit(design, video).rows}
        assert rows[what].needed == 2 * sets * head_kv_bytes(design.model)  # 4 rows on 2 cores
        return rows[what].needed

    assert needed(4) == 4 * needed(1)
