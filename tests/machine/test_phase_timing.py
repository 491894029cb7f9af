"""Exact cycles of phases, one at a time, on the machine of :mod:`ideal`."""

from typing import Any

import pytest
from ideal import ideal_hardware

from carsim.machine.bench import Ahead, PhaseResult
from carsim.machine.phase import AttendCase, MlpCase, OutputCase, Phases, QkvCase
from carsim.workload.ops import Category

COLD = Ahead()
STREAMING = Ahead(0, streaming=True)
ONE_BY_ONE = {"rows": 1, "cols": 1, "pipeline_cycles": 0}


def mlp(
    loads: tuple[int, ...] = (2, 2),
    replaying: int = 0,
    *,
    exposed: int = 0,
    early: bool = False,
    handed_over: bool = False,
    next_lead: bool = False,
    before: Ahead = COLD,
    **machine: Any,
) -> PhaseResult:
    case = MlpCase(loads, replaying, exposed, early, handed_over, next_lead, before)
    return Phases(ideal_hardware(**machine)).simulate(case)


def times(result: PhaseResult) -> dict[str, int]:
    return {Category(i).name: n for i, n in enumerate(result.times) if n}


# ------------------------------------------------------ the four phases of a layer


def test_qkv_projection() -> None:
    # 10 + 3072 / 8 = 394; the last of three tiles takes 4 / 3 cycles, rounded up.
    result = Phases(ideal_hardware()).simulate(QkvCase(False, 8, COLD))
    assert result.cycles == 394 + 2
    assert times(result) == {"QKV": 5, "WAIT_DDR": 391}


def test_attention_waits_for_a_tile_per_core() -> None:
    # 8 cached tokens of 4 rows: 4 x 2 x 8 x 32 = 2048 bytes, and 4 x 64 written. Each core has 2
    # rows of 4 heads, scores and sums of a cycle each: 16 cycles. Both cores have their tile of
    # 1024 at 10 + 256 = 266; the other 256 bytes come until 298; the last tiles take 2048 / 2304
    # of 16 cycles.
    result = Phases(ideal_hardware()).simulate(AttendCase(False, 8, False, COLD))
    assert result.cycles == 298 + 15
    assert result.dram_bytes == (2304, 0)


def test_attention_waits_for_the_cores_at_work_only() -> None:
    # One sequence, one core: 64 tokens are 4096 bytes and 64 written, there at 10 + 520; its 12
    # cycles (4 heads, 64 of the reduction are two tiles of 32) end one tile later, 1024 / 4160 of
    # them.
    result = Phases(ideal_hardware(batch=1)).simulate(AttendCase(False, 64, False, COLD))
    assert result.cycles == 530 + 3


def test_output_projection() -> None:
    # One tile at 10 + 128, and 2 cycles.
    result = Phases(ideal_hardware()).simulate(OutputCase(False, COLD))
    assert result.cycles == 138 + 2


def test_mlp() -> None:
    # 3072 bytes until 394, then 1536 and 4 x 64 of replay cache until 394 + 224 = 618, and
    # 1024 / 1792 of 4 cycles.
    result = mlp()
    assert result.cycles == 618 + 3
    assert result.dram_bytes == (3072 + 1536 + 256, 0)
    assert times(result) == {"MLP": 1 + 2 + 4, "WAIT_DDR": 614}


# ------------------------------------------------------------------ fetching ahead


def test_what_is_on_its_way_saves_the_latency() -> None:
    assert Phases(ideal_hardware()).simulate(OutputCase(False, STREAMING)).cycles == 128 + 2
    assert mlp(before=STREAMING, early=True).cycles == 621 - 10


def test_what_is_there_saves_its_transfer() -> None:
    # Gate and up are whole: 1 + 2 cycles. Down is asked for when they start, at 1.
    assert mlp(before=Ahead(3072), early=True).cycles == 1 + 10 + 224 + 3


def test_a_fast_array_leaves_no_time_to_fetch_ahead() -> None:
    # Output weights are in at 138 and used by 140: 16 bytes, less than is worth keeping.
    result = Phases(ideal_hardware()).simulate(OutputCase(True, COLD))
    assert result.ahead == Ahead(0, streaming=True)
    assert result.dram_bytes == (1024, 0)


def test_a_slow_array_makes_room_as_it_reads() -> None:
    # One multiplier: 2 x 32 x 32 cycles from 138 on, in which the kilobyte that it reads makes room
    # for the first of gate and up.
    result = Phases(ideal_hardware(array=ONE_BY_ONE)).simulate(OutputCase(True, COLD))
    assert result.cycles == 138 + 2048
    assert result.ahead == Ahead(1024, streaming=True)
    assert result.dram_bytes == (2048, 0)


def test_keys_and_values_are_fetched_into_their_own_buffer() -> None:
    # With one multiplier QKV takes 2 x 32 x 96 = 6144 cycles from its first tile at 138 on, no
    # faster than it reads: in at 138 + 4096, it leaves 2048 cycles, plenty for all 2304 bytes.
    result = Phases(ideal_hardware(array=ONE_BY_ONE)).simulate(QkvCase(False, 8, COLD))
    assert result.cycles == 138 + 6144
    assert result.ahead == Ahead(2304)


def test_a_fetch_that_need_not_wait_hides_behind_dispatch() -> None:
    # Dispatch until 100. Who has to wait for it starts 100 later; who has not, loses nothing, as
    # the last byte comes at 618 either way.
    assert mlp(exposed=100).cycles == 621 + 100
    assert mlp(exposed=100, early=True).cycles == 621


def test_a_fetch_ahead_of_dispatch_stops_at_what_the_buffer_holds() -> None:
    # Gate and up (3072 of 4096 bytes) are in long before 1000. Down has room once they are read,
    # from 1001 on: 10 + 224 and 3 cycles.
    assert mlp(exposed=1000, early=True).cycles == 1001 + 10 + 224 + 3


def test_speculation_is_wasted_on_cores_without_work() -> None:
    # Each core streams for itself and both hold a kilobyte; only one computes.
    result = mlp((2, 0), 2, before=Ahead(1024), early=True, weight_sharing="private")
    assert result.wasted_bytes == 1024
    assert (
        mlp((1, 1), 2, before=Ahead(1024), early=True, weight_sharing="private").wasted_bytes == 0
    )
    # One stream feeds all: wasted only if nobody computes.
    assert mlp((2, 0), 2, before=Ahead(1024), early=True).wasted_bytes == 0
    assert mlp((0, 0), 4, before=Ahead(1024), early=True).wasted_bytes == 1024


def test_speculation_fetches_no_more_than_one_sequence_uses() -> None:
    # Weights once per sequence: a core with two streams 2 x 1024 for output, and could have both
    # its streams of gate and up (2 x 32 x 16) by its end. Only one of its sequences then computes.
    hw = ideal_hardware(
        body={"ffn_size": 8}, weight_sharing="private_per_sequence", array=ONE_BY_ONE
    )
    output = Phases(hw).simulate(OutputCase(True, COLD))
    assert output.ahead == Ahead(512)
    result = Phases(hw).simulate(MlpCase((1, 1), 2, 0, True, False, False, output.ahead))
    required = 2 * 2 * 1024 + 2 * (512 + 256) + 4 * 64
    assert output.dram_bytes[0] + result.dram_bytes[0] == required
    assert result.wasted_bytes == 0


# -------------------------------------------------------------- dispatch and replay


def test_dispatch_is_booked_as_such() -> None:
    result = mlp(exposed=100)
    assert times(result) == {"DRS": 100, "MLP": 7, "WAIT_DDR": 614}


def test_a_phase_is_over_when_its_last_write_is() -> None:
    # The replay cache lies in a memory of a byte a cycle. The cores are done at 394 + 192 + 3, but
    # the 256 bytes of replay cache are on their way from the start of down, 395, until 651.
    placement = {"weights": "ddr", "kv": "ddr", "replay": "second", "head": "ddr"}
    result = mlp(second_rate=1, placement=placement)
    assert result.cycles == 395 + 256
    assert result.dram_bytes == (4608, 256)
    assert mlp(placement=placement).cycles == 394 + 192 + 3


def test_a_layer_in_which_all_replay() -> None:
    # 10 + 4 x 64 / 8 = 42, and one cycle to add 2 x 32 elements on each core.
    result = mlp((0, 0), 4)
    assert result.cycles == 43
    assert times(result) == {"REPLAY": 43}
    assert result.dram_bytes == (256, 0)
    assert result.macs == 0
    # 4 x 32 sums on two cores for a cycle each; 256 bytes into a buffer and out of it.
    assert (result.vector_ops, result.busy_cycles, result.sram_bytes) == (128, 2, 512)
    # With 32 lanes the sums of two sequences take two cycles on each core.
    assert mlp((0, 0), 4, vector={"lanes": 32, "pipeline_cycles": 0}).cycles == 42 + 2
    # It, too, waits for its instructions.
    result = mlp((0, 0), 4, exposed=50)
    assert times(result) == {"DRS": 50, "REPLAY": 43}


def test_replay_runs_beside_the_mlp() -> None:
    # Two compute on one core each: 3072 + 1536 + 128. Two replay: 128 bytes beside it, which share
    # the memory while they last; all of 4864 bytes are through at 10 + 608, and the last tile of
    # 1024 / 1664 of 2 cycles.
    result = mlp((1, 1), 2)
    assert result.cycles == 618 + 2
    assert "REPLAY" not in times(result)


def test_while_all_replay_the_next_layer_is_fetched() -> None:
    # Replay and QKV weights share from 10 on, 4 bytes a cycle: replay is through at 10 + 64 = 74
    # and added at 75, by when 264 bytes of weights have come; too few to keep.
    result = mlp((0, 0), 4, next_lead=True)
    assert result.cycles == 75
    assert result.ahead == Ahead(0, streaming=True)
    assert result.dram_bytes == (256, 0)


# ----------------------------------------------------------- who streams, who is handed


def test_private_weights_are_streamed_once_per_core_at_work() -> None:
    # Two cores at work stream 3072 + 1536 each, and 4 x 64 of replay cache go in or out. All share
    # the memory, which idles after its latency no more; the last byte is that of the core with two
    # sequences, whose last tile takes 1024 / 1664 of 4 cycles.
    result = mlp((2, 1), 1, weight_sharing="private")
    assert sum(result.dram_bytes) == 2 * 4608 + 256
    assert result.cycles == 10 + (2 * 4608 + 256) // 8 + 3
    # Its 7 cycles of compute are on the critical path, not the 4 of the other core.
    assert times(result) == {"MLP": 7, "WAIT_DDR": result.cycles - 7}
    assert result.compute_cycles == 7
    # All three on one core: one stream, and 1024 / 1728 of 6 cycles.
    result = mlp((3, 0), 1, weight_sharing="private")
    assert sum(result.dram_bytes) == 4608 + 256
    assert result.cycles == 10 + (4608 + 256) // 8 + 4


def test_what_happens_in_the_same_cycle_happens_in_the_order_of_the_cores() -> None:
    # Four cores with 4, 3, 2 and 1 sequences stream gate and up side by side: 3072 bytes each at a
    # quarter of the rate, in pieces of 1024 that all end together.
    log: list[tuple[str, str, int, int]] = []
    hw = ideal_hardware(cores=4, batch=16, weight_sharing="private")
    case = MlpCase((4, 3, 2, 1), 0, 0, True, False, False, COLD)
    Phases(hw, lambda *event: log.append(event)).simulate(case)
    fetched = [(track, end) for track, _, _, end in log if track.endswith("fetch")]
    lanes = [f"lane {lane} (x1) fetch" for lane in range(4)]
    # The first tile, the rest of gate and up, which the array is waiting for by then.
    ends = [10 + 1024 // 2, 10 + 3072 // 2]
    assert fetched[:8] == [(lane, end) for end in ends for lane in lanes]


def test_private_weights_per_sequence_are_streamed_for_each() -> None:
    result = mlp((2, 1), 0, weight_sharing="private_per_sequence")
    assert sum(result.dram_bytes) == 3 * 4608 + 192
    # The core with two has as much left as the other has had: 10 + (4672 + 4672) / 4 = 1178, then
    # 4672 at 8 bytes a cycle; 1024 / 3200 of 4 cycles.
    assert result.cycles == 1178 + 584 + 2


def test_activations_travel_to_the_mapped_core_and_back() -> None:
    # 4 sequences x 32 elements x 2 bytes, there and back, over 64 bytes a cycle: 8 cycles more
    # before gate and up may start, and down be asked for.
    there = Ahead(3072)
    plain = mlp(before=there, early=True)
    moved = mlp(before=there, early=True, handed_over=True)
    assert moved.cycles == plain.cycles + 8
    # On a single core there is nowhere to go.
    alone = [
        mlp((4,), before=there, early=True, handed_over=handed, cores=1).cycles
        for handed in (False, True)
    ]
    assert alone[0] == alone[1]


def test_cores_that_split_a_matrix_gather_what_each_computed() -> None:
    # Output weights are there. Split by columns, each core has 4 rows x 32 x 16: 4 cycles. Before
    # that, 4 x 32 elements of 2 bytes are gathered over 64 bytes a cycle: 4 cycles.
    there = Ahead(1024)
    split = Phases(ideal_hardware(mapping="tensor")).simulate(OutputCase(False, there))
    assert split.cycles == 4 + 4
    assert split.bound_cycles == 4  # a bound charges no exchange
    # Whole matrices on each core take 2 rows x 32 x 32 in 2 cycles and gather nothing.
    whole = Phases(ideal_hardware()).simulate(OutputCase(False, there))
    assert whole.cycles == 2


# ----------------------------------------------------------------------- the bound


def test_the_bound_is_the_later_of_compute_and_bytes_not_yet_fetched() -> None:
    # Gate and up, 3072 bytes, may be there already; 1536 of down and 256 of replay cache may not.
    assert mlp().bound_cycles == (1536 + 256) // 8
    # With one multiplier, the compute of two sequences: 2 x 32 x 96 and 2 x 48 x 32, and a norm.
    assert mlp(array=ONE_BY_ONE).bound_cycles == 1 + 6144 + 3072
    # A buffer of 2 KiB cannot hold the 1024 bytes that are then left of gate and up.
    assert mlp(weight_buffer_kib=2).bound_cycles == (1024 + 1536 + 256) // 8


def test_the_bound_takes_the_best_assignment() -> None:
    # Two computing sequences, 4 x 64 bytes in or out of the replay cache. Bound by memory, one core
    # streams 1536 bytes of down after what it may hold, two stream twice that.
    one, two = mlp((2, 0), 2, weight_sharing="private"), mlp((1, 1), 2, weight_sharing="private")
    assert one.bound_cycles == two.bound_cycles == (1536 + 256) // 8
    # Bound by compute, two cores take half as long as one: 32 x 96 + 48 x 32 each, and a norm.
    one, two = (
        mlp(loads, 2, weight_sharing="private", array=ONE_BY_ONE, rate=100_000)
        for loads in ((2, 0), (1, 1))
    )
    assert one.bound_cycles == two.bound_cycles == 1 + 3072 + 1536
    assert one.bound_dram_bytes == (2 * 4608 + 256, 0)


def test_time_spent_queueing_for_the_fullest_core() -> None:
    # Both sequences on one core, where an even share would be one on each: half of the products.
    # The first tile is waited for either way.
    result = mlp((2, 0), 2, weight_sharing="private", array=ONE_BY_ONE, rate=100_000)
    assert times(result)["WAIT_CORE"] == 3072 + 1536
    even = mlp((1, 1), 2, weight_sharing="private", array=ONE_BY_ONE, rate=100_000)
    assert "WAIT_CORE" not in times(even)


# -------------------------------------------------------------------- head, prompt


TWO_CODES = {
    "kind": "depth_transformer",
    "n_layers": 1,
    "hidden_size": 16,
    "n_heads": 2,
    "ffn_size": 64,
    "n_codes": 2,
    "codebook_size": 10,
}


def test_a_head_bound_by_memory_streams_all_its_passes() -> None:
    # 32 x 16 = 512 bytes, then per code 768 + 256 + 1024 + 1024 + 160 = 3232: 6976 bytes end at
    # 10 + 872; the classifier's own 2 rows take 2 cycles.
    result = Phases(ideal_hardware(head=TWO_CODES)).head()
    assert result.cycles == 10 + 872 + 2
    assert result.dram_bytes == (6976, 0)


@pytest.mark.parametrize(("codes", "passes"), [(1, [1]), (2, [1, 2]), (4, [1, 2, 3, 4])])
def test_a_head_bound_by_compute_runs_its_passes_one_after_the_other(
    codes: int, passes: list[int]
) -> None:
    # One multiplier, so that all of memory comes in the cycle after its latency. Projection 2 x 512
    # cycles; per code norm 1 + QKV 2 x 768, output 2 x 256, norm 1 + 2 x 1024, 2 x 1024, norm 1 +
    # classifier 2 x 160; attention 2 x 2 rows and heads x (8 + 8) per code so far.
    hw = ideal_hardware(rate=100_000, head=TWO_CODES | {"n_codes": codes}, array=ONE_BY_ONE)
    per_code = 3 + 2 * (768 + 256 + 1024 + 1024 + 160)
    attention = sum(2 * 2 * (8 + 8) * code for code in passes)
    assert Phases(hw).head().cycles == 11 + 2 * 512 + codes * per_code + attention


def test_a_prompt_streams_the_weights_once_per_pass() -> None:
    # 3 tokens of 2 sequences per core are 6 rows of 64 bytes: they fit, and weights come once;
    # keys and values of 3 tokens are read (4 x 192) and written (4 x 192).
    weights = 3072 + 1024 + 3072 + 1536
    fits = Phases(ideal_hardware()).prefill_layer(3)
    assert fits.dram_bytes == (weights + 2 * 768, 0)
    # With 1 KiB for activations, 16 rows at a time: 20 tokens of 2 sequences take 3 passes.
    tight = Phases(ideal_hardware(activation_buffer_kib=1)).prefill_layer(20)
    assert tight.dram_bytes == (3 * weights + 2 * 4 * 20 * 64, 0)
