"""Exact cycles of whole layer-steps: what crosses phases, and when decisions are known.

The machine of :mod:`ideal`; a prompt of 7, so that the first token reads 8 and the second 9.
"""

from typing import Any

import numpy as np
import pytest
from ideal import ideal_hardware

from carsim.design import DenseAttention
from carsim.machine.batches import Batches
from carsim.machine.bench import Ahead
from carsim.machine.hardware import Hardware
from carsim.machine.memo import PhaseMemo
from carsim.machine.plan import Plan
from carsim.machine.simulate import LAYER_PHASES, Simulation, simulate
from carsim.workload.geometry import Video

VIDEO = Video(n_frames=2, tokens_per_frame=1, prompt_tokens=7)
# To check and send the instructions of a layer, 64 of 4 cycles per sequence: the dispatcher latches
# (8), and per sequence scans (1) and checks; without one, each core checks those of its own two.
DRS_CYCLES = 8 + 4 * (1 + 64 * 4)
STATIC_CYCLES = 2 * 64 * 4


def simulated(hw: Hardware, schedule: str, replay_layers: tuple[bool, bool] | None) -> Simulation:
    """Two steps of two layers; in the second, layers of which all sequences replay or none does."""
    replay = np.zeros((1, 2, 2, hw.batch), bool)
    if replay_layers is not None:
        replay[0, 1] = np.array(replay_layers)[:, None]
    memo = PhaseMemo(hw)
    plan = Plan(
        memo.phases,
        VIDEO,
        DenseAttention(),
        schedule,  # type: ignore[arg-type]
        replay_layers is not None,
        range(2),
    )
    return simulate(plan, Batches(replay, 1, 0, "", ""), memo, detail=True)


def phases(simulation: Simulation, step: int, layer: int) -> tuple[int, ...]:
    return tuple(int(simulation.phase_cycles[name][0, step, layer]) for name in LAYER_PHASES)


def test_a_dense_step_streams_without_a_gap() -> None:
    simulation = simulated(ideal_hardware(), "static", None)
    # QKV: cold, 10 + 384 and 2 for its last tile. While that is computed, keys and values are on
    # their way, so attention pays no latency: (2048 + 256) / 8 and 15. Output: 128 and 2; MLP:
    # 4864 / 8 and 3. Each leaves a few bytes too few to keep, and requests in flight.
    assert phases(simulation, 0, 0) == (396, 288 + 15, 128 + 2, 608 + 3)
    assert phases(simulation, 0, 1) == (386, 303, 130, 611)
    # One token more, 4 x 64 bytes: 320 for the bytes, 2 x 8 cycles, of which 2048 / 2560.
    assert phases(simulation, 1, 0) == (396, 320 + 13, 130, 611)


def test_a_batch_takes_its_steps_its_heads_and_its_prompt() -> None:
    simulation = simulated(ideal_hardware(), "static", None)
    layers = 396 + 386 + 2 * (130 + 611)
    steps = (layers + 2 * 303) + (layers + 2 * 333)
    # Head: 32 x 40 bytes, 10 + 160, and the last tile of 1024 / 1280 of 2 cycles.
    heads = 2 * (170 + 2)
    # Prompt: 7 tokens of 4 rows. Weights 8704 bytes; K and V of 7 tokens, read and written, 28 x 64
    # each: 10 + (8704 + 3584) / 8, and for the last tile of down (14 rows x 2 tiles = 28 cycles)
    # 1024 / 1536.
    prompt = 2 * (10 + 1536 + 19)
    assert int(simulation.batch_cycles[0]) == steps + heads + prompt
    assert simulation.cycles == steps + heads + prompt


def with_decision_at(
    where: str, schedule: str, prefetch: str = "none", sharing: str = "broadcast"
) -> tuple[int, ...]:
    hw = ideal_hardware(decision_at=where, prefetch=prefetch, weight_sharing=sharing)
    return phases(simulated(hw, schedule, (False, False)), 1, 0)


@pytest.mark.parametrize(
    ("schedule", "takes"), [("static", STATIC_CYCLES), ("drs", DRS_CYCLES), ("pack", DRS_CYCLES)]
)
def test_dispatch_holds_the_mlp_up_as_far_as_the_decision_comes_late(
    schedule: str, takes: int
) -> None:
    # Without prefetch the MLP takes 621 from the last instruction on. Known at the residual, the
    # decision leaves dispatch no time; known after attention, that of the output projection.
    assert with_decision_at("residual", schedule)[3] == takes + 621
    projected = with_decision_at("attention", schedule)
    assert projected[:3] == (396, 333, 130)
    assert projected[3] == takes - 130 + 621
    # Known after QKV, that of attention too. It costs an early key per row: 4 x 32 bytes with QKV,
    # whose last of 3200 bytes then come at 10 + 400.
    early = with_decision_at("q", schedule)
    assert early[:3] == (410 + 2, 333, 130)
    assert early[3] == max(0, takes - 333 - 130) + 621


def test_dispatch_is_hidden_where_there_is_time_for_it() -> None:
    # Checked by each core in 512, with 463 to spare: 49 remain. With half as many instructions,
    # nothing does.
    hw = ideal_hardware(decision_at="q", prefetch="none", drs={"instructions_per_sequence": 32})
    assert phases(simulated(hw, "static", (False, False)), 1, 0)[3] == 621


def test_nothing_is_dispatched_where_nothing_may_replay() -> None:
    hw = ideal_hardware(decision_at="residual", prefetch="none")
    assert phases(simulated(hw, "drs", (False, False)), 0, 0)[3] == 621


def test_prefetch_decides_what_waits_for_dispatch() -> None:
    # Without it, all of the MLP. Gated, its weights may come as soon as the decision is known, and
    # here one stream serves whoever computes: they come behind the output weights and on through
    # the 1036 - 130 cycles of dispatch, as far as the buffer goes. Down has room when gate and up
    # are read: hand-over 8 and norm 1, then 10 + 224 and 3.
    assert with_decision_at("attention", "drs", "none")[3] == 906 + 621
    gated = with_decision_at("attention", "drs", "gated")
    assert gated[3] == 906 + 8 + 1 + 10 + 224 + 3
    # Speculation asks for them before: no difference where the decision is known as early.
    assert with_decision_at("attention", "drs", "speculative") == gated
    # Where it is known at the residual, both fetch while it is dispatched (1036), and only
    # speculation before that.
    late = with_decision_at("residual", "drs", "gated")
    assert late[3] == 1036 + 8 + 1 + 10 + 224 + 3
    assert with_decision_at("residual", "drs", "speculative")[3] == late[3]


def test_a_core_that_streams_for_itself_knows_its_sequences_only_under_static() -> None:
    # Two cores stream 3072 + 1536 + 128 each, all in at 10 + 1184, and 1024 / 1664 of 4 cycles.
    # Output weights are streamed twice as well, which gives dispatch 2 x 128 + 2 cycles.
    streams = 10 + 2 * 4736 // 8 + 3
    mapped = with_decision_at("attention", "drs", "gated", "private")
    assert mapped[2:] == (258, 1036 - 258 + streams)
    # Under static it may fetch as soon as it has decided, and all of dispatch hides behind that.
    assert with_decision_at("attention", "static", "gated", "private")[3] == streams


@pytest.mark.parametrize("sharing", ["broadcast", "private"])
@pytest.mark.parametrize(("prefetch", "wasted"), [("none", 0), ("gated", 0), ("speculative", 1024)])
def test_only_speculation_fetches_what_nobody_uses(
    prefetch: str, wasted: int, sharing: str
) -> None:
    # One multiplier per core, so that a kilobyte of gate and up finds room during output; in the
    # second layer of the second step all sequences replay.
    array = {"rows": 1, "cols": 1, "pipeline_cycles": 0}
    hw = ideal_hardware(latency=0, prefetch=prefetch, array=array, weight_sharing=sharing)
    totals = simulated(hw, "static", (False, True)).totals
    buffers = 1 if sharing == "broadcast" else 2
    assert totals["mlp"].wasted_bytes == buffers * wasted


def test_a_layer_in_which_all_replay_is_short() -> None:
    hw = ideal_hardware(prefetch="none")
    simulation = simulated(hw, "drs", (True, True))
    # 906 of dispatch are left; replay as in a phase of its own, 75 with the next layer's weights
    # beside it and 43 without.
    assert phases(simulation, 1, 0)[3] == 906 + 75
    assert phases(simulation, 1, 1)[3] == 906 + 43


def test_a_batch_beyond_the_register_goes_in_groups() -> None:
    # 3 bits for 4 sequences: three, then one, each dispatched (8 + 3 x 257 = 779) and computed.
    # Both fetch from cold. The last 1024 of 1536 + 192 bytes of down take that share of 4 cycles,
    # those of 1536 + 64 of 2. Hand-over hides behind the first tile.
    hw = ideal_hardware(
        decision_at="residual",
        prefetch="none",
        drs={"index_register_bits": 3},
        exchange_bytes_per_cycle=1024,
    )
    first = 10 + (3072 + 1536 + 192) // 8 + 3
    second = 10 + (3072 + 1536 + 64) // 8 + 2
    taken = phases(simulated(hw, "drs", (False, False)), 1, 1)
    assert taken[3] == 779 + first + 779 + second
    # Static needs no register.
    taken = phases(simulated(hw, "static", (False, False)), 1, 1)
    assert taken[3] == STATIC_CYCLES + 621


def test_thirty_four_sequences_are_two_groups_of_32_and_2() -> None:
    memo = PhaseMemo(ideal_hardware(batch=34))
    plan = Plan(memo.phases, VIDEO, DenseAttention(), "drs", True, range(2))
    assert plan.register_groups(True) == [slice(0, 32), slice(32, 34)]
    assert plan.register_groups(False) == [slice(0, 34)]  # nothing to decide
    assert plan.dispatch_cycles(True) == 8 + 32 * 257
    assert plan.dispatch_cycles(False) == 0


def test_what_a_phase_leaves_is_what_the_next_one_finds() -> None:
    # With one multiplier there is time: QKV leaves all of K and V, attention all output weights.
    # While these are read, at half a byte a cycle, they make room for gate and up, asked for from
    # the start and 10 cycles later there: 1019 bytes by 2048, just too few to keep.
    hw = ideal_hardware(array={"rows": 1, "cols": 1, "pipeline_cycles": 0})
    memo = PhaseMemo(hw)
    plan = Plan(memo.phases, VIDEO, DenseAttention(), "static", False, range(2))
    ahead: Any = Ahead()
    left = []
    for case in (
        lambda before: plan.qkv_case(0, before),
        lambda before: plan.attend_case(0, before),
        lambda before: plan.output_case(False, True, before),
    ):
        ahead = memo.layer_phase(case(ahead)).ahead
        left.append(ahead)
    assert left == [Ahead(2304), Ahead(1024), Ahead(0, streaming=True)]
