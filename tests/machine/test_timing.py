"""Exact cycles of phases, derived by hand, on both rungs: the solver and the SimPy machine.

The machine of :mod:`ideal`: two cores, 8 bytes a cycle, 10 cycles from request to first byte, tiles
of 1 KiB in double buffers of four. ``COLD`` is that latency.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
import simpy
from ideal import (
    APART,
    TWO_CODES,
    attend,
    block_of,
    compute,
    ideal_hardware,
    mlp_bound,
    output,
    qkv,
)

from carsim.decisions.attention import PLAIN, SideWork
from carsim.machine.cases import Cases
from carsim.machine.phase import Outcome
from carsim.machine.phases import FIDELITIES, Phases
from carsim.machine.play.port import MemoryPort
from carsim.program.reads import Reads
from carsim.workload.ops import Category

RUNGS = pytest.mark.parametrize("rung", FIDELITIES)
ONE_BY_ONE = {"rows": 1, "cols": 1, "pipeline_cycles": 0}


def times(outcome: Outcome) -> dict[str, int]:
    return {Category(i).name: n for i, n in enumerate(outcome.times[0].tolist()) if n}


def mlp(rung: str, computing: str = "1111", known: int | None = None, **given: Any) -> Outcome:
    schedule = given.pop("schedule", "static")
    return compute(Phases(ideal_hardware(**given), rung), computing, known, schedule=schedule)


# Dispatch: 64 instructions of 4 cycles a sequence. DRS latches (8), scans (1 a sequence) and checks
# those of all four; under static each core checks those of its own two.
DRS_CYCLES = 8 + 4 * (1 + 64 * 4)
STATIC_CYCLES = 2 * 64 * 4

SLOW_CACHE = {"second_rate": 1, "placement": APART}
CYCLES: dict[str, tuple[Callable[[Phases], Outcome], dict[str, Any], int, list[int]]] = {
    # 10 + 3072 / 8 = 394; the last of three tiles takes 4 / 3 cycles, rounded up.
    "QKV projection": (qkv, {}, 394 + 1, [3072, 0]),
    # One tile at 10 + 128, and 2 cycles.
    "output projection": (output, {}, 138 + 2, [1024, 0]),
    # One sequence, one core: 64 tokens are 4096 bytes and 64 written, there at 10 + 520. Its 12
    # cycles are spent tile by tile; none is left for the last 64 bytes, as 4096 / 4160 of 12 are
    # rounded up.
    "attention on one core": (lambda on: attend(on, 64), {"batch": 1}, 530, [4096 + 64, 0]),
    # 8 cached tokens of 4 rows: 4 x 2 x 8 x 32 = 2048 bytes, and 4 x 64 written. Each core has 2
    # rows of 4 heads, scores and sums of a cycle each: 16 cycles. Both cores have their tile of
    # 1024 at 10 + 256 = 266 and read it in 2048 / 2304 of 16 cycles, rounded up, 15; the other 256
    # bytes come until 298 and take the last cycle.
    "attention waits for a tile per core": (lambda on: attend(on, 8), {}, 298 + 1, [2304, 0]),
    # 3072 bytes until 394, then 1536 and 4 x 64 of replay cache until 394 + 224 = 618; 768 of the
    # 1792 are the last tile, 4 cycles less ceil(4 x 1024 / 1792) = 3.
    "MLP": (compute, {}, 618 + 1, [4608 + 256, 0]),
    # One multiplier: first tile at 10 + 128 = 138, then 2 rows x 3072 and 2 x 1536 cycles, norm
    # before the first tile is in.
    "MLP of a slow array": (compute, {"array": ONE_BY_ONE}, 138 + 6144 + 3072, [4608 + 256, 0]),
    # As long as without a decision.
    "decided early": (lambda on: compute(on, known=STATIC_CYCLES), {}, 619, [4608 + 256, 0]),
    # The replay cache lies in a memory of a byte a cycle. Its 256 bytes are on their way from the
    # start of down: gate and up end with their last byte, at 394, as the first two of
    # three tiles have taken both cycles.
    "over with its last write": (compute, SLOW_CACHE, 394 + 256, [4608, 256]),
    # 1036 cycles of dispatch, in which all weights come in; 7 of compute; the replay takes 10 of
    # latency, 8 of its 64 bytes and 1 to add.
    "weights that are fetched during dispatch": (
        lambda on: compute(on, "1110", 0, schedule="drs"),
        {"weight_buffer_kib": 16},
        1036 + max(7, 10 + 8 + 1),
        [4608 + 256, 0],
    ),
    # Each core has a stream of its own; the last tile, core 1's, finds both cycles of down done.
    "weights that wait for dispatch": (
        lambda on: compute(on, "1110", 0, schedule="drs"),
        {"weight_sharing": "private"},
        1036 + 10 + (2 * 4608 + 256) // 8,
        [2 * 4608 + 256, 0],
    ),
    # 32 x 16 = 512 bytes, then per code 768 + 256 + 1024 + 1024 + 160 = 3232: 6976 bytes take 872
    # cycles. Each of five phases (input, and a layer and a classifier per code) begins with the
    # latency of 10, and ends with its last product: 2 rows of one tile, for a layer's of two.
    "head": (lambda on: on.head, {"head": TWO_CODES}, 50 + 872 + 2 + 2 * (4 + 2), [6976, 0]),
}


@RUNGS
@pytest.mark.parametrize("what", CYCLES)
def test_cycles_and_bytes_by_hand(rung: str, what: str) -> None:
    phase, machine, cycles, moved = CYCLES[what]
    outcome = phase(Phases(ideal_hardware(**machine), rung))
    assert outcome.cycles == cycles
    assert outcome.dram_bytes.tolist() == [moved]


def test_a_narrow_attention_unit_takes_longer() -> None:
    # 8 x 8 multipliers: scores of 8 keys are one tile for each of 2 rows and 4 heads, 8 cycles, and
    # so are sums of 8 x 8; with 4 x 8, the reduction over 8 takes two tiles, 32 cycles in all.
    for unit, cycles in (({"rows": 4, "cols": 8}, 32), (None, 16)):
        assert attend(Phases(ideal_hardware(attention_unit=unit)), 8).compute_cycles == cycles


@RUNGS
def test_a_layer_in_which_all_replay(rung: str) -> None:
    # 10 + 4 x 64 / 8 = 42, and one cycle to add 2 x 32 elements on each core.
    outcome = mlp(rung, "0000", known=10_000)
    assert outcome.cycles == 43
    assert times(outcome) == {"REPLAY": 43}
    assert outcome.dram_bytes.tolist() == [[256, 0]]
    # 4 x 32 sums on two cores for a cycle each; 256 bytes into a buffer and out of it.
    assert (outcome.macs, outcome.vector_ops, outcome.busy_cycles) == (0, 128, 2)
    assert outcome.sram_bytes == 512
    # With 32 lanes the sums of two sequences take two cycles on each core.
    slow = mlp(rung, "0000", known=10_000, vector={"lanes": 32, "pipeline_cycles": 0})
    assert slow.cycles == 42 + 2
    assert mlp(rung, "00", known=10_000, batch=2, cores=4).busy_cycles == 2, "two cores are idle"


@RUNGS
def test_replay_is_read_first_and_the_mlp_streams_behind_it(rung: str) -> None:
    # 2 x 64 bytes of replay, 3072 + 1536 + 128: all through at 10 + 608; the last tile, 640 of
    # 1664 bytes, takes what is left of 2 cycles after ceil(2 x 1024 / 1664) = 2.
    outcome = mlp(rung, "1100", known=10_000)
    assert outcome.cycles == 618
    assert "REPLAY" not in times(outcome)
    assert times(mlp(rung)) == {"MLP": 1 + 2 + 4, "WAIT_DDR": 612}


@RUNGS
@pytest.mark.parametrize(
    ("schedule", "takes"), [("static", STATIC_CYCLES), ("drs", DRS_CYCLES), ("pack", DRS_CYCLES)]
)
def test_dispatch_holds_the_mlp_up_as_far_as_the_decision_comes_late(rung, schedule, takes):
    # With broadcast weights any core uses what comes: the first four tiles are fetched meanwhile,
    # so that from the last instruction on there are norm (1), gate and up (2), under a central
    # schedule the way to the mapped core (2 x 32 x 2 bytes there and back, 4 cycles, where pack has
    # sequences 1 and 2 change cores), and down.
    handed_over = 4 if schedule == "pack" else 0
    for known in (0, 130):
        outcome = mlp(rung, schedule=schedule, known=known)
        exposed = takes - known
        assert times(outcome)["DRS"] == exposed
        # The fifth tile, 768 bytes of down, finds a slot when the first is read, 1 + ceil(2 / 3)
        # cycles later, and comes 10 later, but not before the fourth is through.
        freed = exposed + handed_over + 1 + 1
        assert outcome.cycles == max(freed + 10, 10 + 512) + 768 // 8 + 1


@RUNGS
def test_private_weights_are_streamed_once_per_core_at_work(rung: str) -> None:
    # Cores with two and one sequences stream 3072 + 1536 each; 4 x 64 of replay cache.
    outcome = mlp(rung, "1110", known=10_000, weight_sharing="private")
    assert outcome.dram_bytes.sum() == 2 * 4608 + 256
    # All share the memory, which idles after its latency no more; the last tile of the core that
    # ends last takes a cycle or two.
    through = 10 + (2 * 4608 + 256) // 8
    assert through <= outcome.cycles <= through + 4
    # Per sequence, the core with two streams twice.
    outcome = mlp(rung, "1110", known=10_000, weight_sharing="private_per_sequence")
    assert outcome.dram_bytes.sum() == 3 * 4608 + 256


@RUNGS
def test_time_spent_queueing_for_the_fullest_core(rung: str) -> None:
    # Both sequences on core 0, where an even share would be one on each: half of the products.
    machine = {"weight_sharing": "private", "array": ONE_BY_ONE, "rate": 100_000}
    assert times(mlp(rung, "1010", known=10_000, **machine))["WAIT_CORE"] == 3072 + 1536
    assert "WAIT_CORE" not in times(mlp(rung, "1100", known=10_000, **machine))
    # Where memory sets the pace, an even share would gain nothing.
    starved = times(mlp(rung, "1010", known=10_000, weight_sharing="private"))
    assert starved["WAIT_DDR"] > 500
    assert "WAIT_CORE" not in starved


def test_the_bound_is_the_later_of_compute_and_all_bytes() -> None:
    (cycles,), (nbytes,) = mlp_bound(Phases(ideal_hardware()), 4)
    # All compute: 3072 + 1536 and 256 of replay cache; none: 256 bytes of replays.
    assert cycles.tolist()[0::4] == [32, (4608 + 256) // 8]
    assert nbytes[4].tolist() == [4608 + 256, 0]
    # With one multiplier, the compute of two sequences: 2 x 32 x 96 and 2 x 48 x 32, and a norm.
    (slow,), _ = mlp_bound(Phases(ideal_hardware(array=ONE_BY_ONE)), 4)
    assert slow[4] == 1 + 6144 + 3072


def test_the_bound_takes_the_best_assignment() -> None:
    # Two computing sequences. Bound by memory, one core streams once; bound by compute, two cores
    # take half as long as one.
    private = {"weight_sharing": "private"}
    (few,), _ = mlp_bound(Phases(ideal_hardware(**private)), 4)
    assert few[2] == (4608 + 256) // 8
    hw = ideal_hardware(**private, array=ONE_BY_ONE, rate=100_000)
    (many,), (nbytes,) = mlp_bound(Phases(hw), 4)
    assert many[2] == 1 + 3072 + 1536
    assert nbytes[2].tolist() == [2 * 4608 + 256, 0]


def test_a_step_costs_its_host() -> None:
    # 2.5 us at 200 MHz.
    assert times(
        Phases(ideal_hardware(overheads={"step_us": 2.5})).host(np.zeros(1, np.int64))
    ) == {"HOST": 500}


@RUNGS
def test_keys_that_a_policy_chooses_are_fetched_after_the_choice(rung: str) -> None:
    # Each core has two sequences. Their 4 x 20 bytes of the policy's data come at 10 + 10, and its
    # products, 8 keys of 8 numbers for each of 2 rows, take 2 cycles. The scan of 50 cycles a
    # sequence ends at 122, and attention, whose keys are asked for then, takes its 299 cycles, and
    # 3 more for the 4 x 6 bytes that are written.
    class Chooses(type(PLAIN)):  # type: ignore[misc]
        work: ClassVar[SideWork]

        def side_work(self, context, n_heads, n_kv_heads, head_dim):  # type: ignore[no-untyped-def]
            return self.work

    def phase(**work: int) -> Outcome:
        Chooses.work = SideWork(**work)
        reads = Reads.of_tokens(8)._replace(policy=Chooses())
        phases = Phases(ideal_hardware(), rung)
        return phases.of(block_of(phases, "attention"), Cases(reads))

    assert phase(scan_cycles=50).cycles == 2 * 50 + 299
    assert phase(scan_cycles=1000).cycles == 2 * 1000 + 299
    whole = phase(macs=64, bytes_read=20, bytes_written=6, scan_cycles=50)
    assert whole.cycles == 10 + 10 + 2 + 2 * 50 + 299 + 3
    assert whole.dram_bytes.tolist() == [[2304 + 4 * 26, 0]]
    assert whole.macs == phase(scan_cycles=50).macs + 4 * 64
    # Work without a scan runs beside: all bytes at 10 + 2408 / 8, and 2 of 18 cycles for the last.
    assert phase(macs=64, bytes_read=20, bytes_written=6).cycles == 10 + 301 + 2


def test_a_port_carries_fractions_of_a_cycle_and_begins_another_pattern_with_a_whole_one() -> None:
    env, ended = simpy.Environment(), []
    port = MemoryPort(env, latency_cycles=10)
    for nbytes, rate in ((3, 2), (3, 2), (3, 2), (4, 1)):
        port.read(0, nbytes, rate=Fraction(rate), then=lambda: ended.append(env.now))
    env.run()
    # The first bytes are there after 10 cycles; three requests take 4.5, the last begins at 15.
    assert ended == [12, 13, 15, 19]


LONG = {"array": ONE_BY_ONE, "body": {"ffn_size": 2752}, "rate": 10**6, "latency": 0, "cores": 4}
"""Four sequences on four cores: 32 x 96 x 86 products each, 64 instructions of 4,128 cycles."""


@RUNGS
@pytest.mark.parametrize(
    ("depth", "longer"), [(1, 3.9), (16, 3.2), (32, 2.5), (48, 1.7), (64, 1.0), (None, 1.0)]
)
def test_a_dispatcher_that_waits_for_a_queue_delays_other_cores(rung, depth, longer):
    """The last D + 1 instructions of core n wait in its queue or are executed when core n + 1 has
    its first one, which takes 4 cycles to check.
    """
    drs = {"core_queue_instructions": depth}
    sharing = {"weight_sharing": "private", "schedule": "drs", "known": 10**6}
    found = mlp(rung, **LONG, **sharing, drs=drs)
    alone = 1 + 64 * 4128
    assert found.cycles == pytest.approx(longer * alone, rel=0.025)
    waits = 63 - depth if depth and depth < 63 else 0
    assert found.cycles == alone + 3 * (4128 * waits + 4 * (waits > 0))
    assert times(found)["MLP"] == alone
    assert found.times.sum() == found.cycles


@RUNGS
def test_cores_begin_when_an_instruction_waits(rung: str) -> None:
    # Latch 8, scan 4 and 4 cycles a check: the second instruction of core 0 waits at cycle 20.
    drs = {"core_queue_instructions": 1}
    known = {"weight_sharing": "private", "schedule": "drs", "known": 0}
    waits, whole = (mlp(rung, **LONG, **known, drs=each) for each in (drs, {}))
    assert whole.cycles == 8 + 4 * (1 + 64 * 4) + 1 + 64 * 4128
    assert waits.cycles == pytest.approx(20 + (3 * 62 + 64) * 4128, abs=20)
    # On two cores, queues hold the first sequence of each; the next instruction waits.
    two = mlp(rung, **{**LONG, "cores": 2}, **known, drs={"core_queue_instructions": 64})
    assert times(two)["DRS"] == 8 + 4 + 2 * 64 * 4 + 4


@RUNGS
def test_a_memory_that_sets_the_pace_makes_up_for_waits(rung: str) -> None:
    drs = {"core_queue_instructions": 1}
    slow = {**LONG, "rate": 1, "weight_sharing": "private", "schedule": "drs", "known": 10**6}
    waits, whole = (mlp(rung, **slow, drs=each) for each in (drs, {}))
    assert waits.cycles == pytest.approx(whole.cycles, rel=0.001)
