"""Exact cycles of one core: when tiles arrive, when steps start, what overlaps with what.

Everywhere: 8 bytes a cycle, 10 cycles from request to first byte, tiles of 64 bytes (8 cycles) in a
buffer of two of them unless said otherwise. ``step(512, 8)`` streams 512 bytes and computes for 8
cycles, so it is bound by memory; ``step(512, 640)`` by compute: 0.8 bytes a cycle.
"""

from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any

import simpy

from carsim.machine.clock import Clock
from carsim.machine.core import Core
from carsim.machine.ddr import FluidMemory
from carsim.machine.lane import Lead, Step
from carsim.workload.ops import Category


def step(
    stream_bytes: int,
    cycles: int,
    *,
    pre: int = 0,
    tile: int = 64,
    buffer: int = 128,
    is_kv: bool = False,
    sides: tuple[tuple[int, int], ...] = (),
    balanced: int | None = None,
    path: int = 0,
) -> Step:
    return Step(
        category=Category.MLP,
        pre_cycles=pre,
        exchange_cycles=0,
        cycles=cycles,
        balanced_cycles=pre + cycles if balanced is None else balanced,
        path=path if stream_bytes else -1,
        stream_bytes=stream_bytes,
        tile_bytes=tile,
        buffer_bytes=buffer,
        is_kv=is_kv,
        sides=sides,
        busy_cycles=0,
        macs=0,
        vector_ops=0,
        sram_bytes=0,
    )


class Rig:
    """One lane (or more) on two memories of 8 bytes a cycle and 10 cycles of latency."""

    def __init__(self) -> None:
        self.env = Clock()
        self.memories = [FluidMemory(self.env, Fraction(8)) for _ in range(2)]
        self.fetches: list[tuple[int, int]] = []

    def lane(self, *steps: Step, cores: int = 1, **how: Any) -> Core:
        def watch(track: str, name: str, begin: int, end: int) -> None:
            if track.endswith("fetch"):
                self.fetches.append((begin, end))

        return Core(self.env, "lane", steps, cores, self.memories, [10, 10], emit=watch, **how)

    def after(self, cycles: int) -> simpy.Event:
        def wait() -> Generator[simpy.Event, Any, None]:
            yield self.env.timeout(cycles)

        return self.env.process(wait())

    def run(self, *steps: Step, **how: Any) -> Core:
        core = self.lane(*steps, **how)
        self.env.run(until=core.done)
        return core


def ends(*steps: Step, **how: Any) -> list[int]:
    return Rig().run(*steps, **how).step_ends


# ------------------------------------------------------------------ one step


def test_a_memory_bound_step_ends_one_tile_after_its_last_byte() -> None:
    # Bytes arrive from 10 to 10 + 512 / 8 = 74; the last of 8 tiles then takes 1 of the 8 cycles.
    assert ends(step(512, 8)) == [74 + 1]


def test_a_compute_bound_step_starts_with_its_first_tile() -> None:
    # First tile at 10 + 8 = 18; from there 640 cycles of compute.
    assert ends(step(512, 640)) == [18 + 640]


def test_an_operand_smaller_than_a_tile_is_waited_for_whole() -> None:
    # 40 bytes at 15, then all of the compute.
    assert ends(step(40, 100)) == [15 + 100]


def test_at_balance_neither_bytes_nor_compute_wait() -> None:
    # 64 cycles of compute on 64 cycles of bytes: the last byte at 74, and 8 cycles for its tile.
    assert ends(step(512, 64)) == [74 + 8] == [18 + 64]


def test_a_last_tile_that_is_cut_off_still_takes_the_time_of_a_tile() -> None:
    # 80 bytes at 20; a tile of 64 is 64 / 80 of 50 cycles.
    assert ends(step(80, 5)) == [20 + 4]


def test_an_op_without_an_operand_takes_its_cycles() -> None:
    assert ends(step(0, 7), step(0, 0), step(0, 5, pre=2)) == [7, 7, 14]


def test_norms_run_while_the_first_tile_is_on_its_way() -> None:
    # 5 cycles of norm end long before the tile comes at 18; 30 do not.
    assert ends(step(512, 640, pre=5)) == [18 + 640]
    assert ends(step(512, 640, pre=30)) == [30 + 640]


# ----------------------------------------------------------------- two steps


def test_memory_bound_steps_stream_without_a_gap_and_pay_one_latency() -> None:
    # 1024 bytes in a row end at 10 + 128 = 138.
    assert ends(step(512, 8), step(512, 8)) == [75, 138 + 1]


def test_odd_sizes_stream_without_a_gap_too() -> None:
    # 100 + 101 + 103 = 304 bytes are 38 cycles; tiles of the last: 64 / 103 of 8 cycles are 5.
    assert ends(step(100, 8), step(101, 8), step(103, 8))[-1] == 10 + 38 + 5


def test_compute_bound_steps_follow_each_other_without_a_bubble() -> None:
    # The tiles of the second step come in as the first one makes room.
    assert ends(step(512, 640), step(512, 640)) == [658, 658 + 640]


def test_a_bubble_is_used_to_fetch_as_much_as_the_buffer_holds() -> None:
    # The first step takes 18 to 26, the norm of the second until 126. Its first 128 bytes are there
    # long before; the other 384 are asked for at 126, pay the latency and end at 136 + 48 = 184.
    rig = Rig()
    core = rig.run(step(64, 8), step(512, 8, pre=100))
    assert core.step_ends == [26, 184 + 1]
    assert rig.fetches == [(10, 18), (18, 26), (26, 34), (136, 184)]
    # A buffer that holds all of it has it all at 18 + 64 = 82.
    assert ends(step(64, 8), step(512, 8, pre=100, buffer=512)) == [26, 126 + 8]


def test_room_appears_as_fast_as_the_core_reads() -> None:
    # The first step reads its only tile at 64 / 640 = 0.1 bytes a cycle from 18 to 658. The second
    # gets 64 bytes into the room that makes, by 658; with the array free, its second tile comes at
    # the full rate while the norm runs until 758.
    rig = Rig()
    core = rig.run(step(64, 640), step(128, 8, pre=100))
    assert rig.fetches == [(10, 18), (18, 658), (658, 666)]
    assert core.step_ends == [658, 758 + 8]


def test_keys_and_values_do_not_wait_for_room_among_weights() -> None:
    # The bytes of the first step are in at 18 + 448 / 0.8 = 578. In the same buffer, the first tile
    # of the next has room when the first step ends, 658, and the rest takes 56 cycles at full rate.
    same = step(512, 8, buffer=512)
    assert ends(step(512, 640), same) == [658, 658 + 56 + 1]
    # In a buffer of its own it streams at once, from 578 to 642.
    assert ends(step(512, 640), same._replace(is_kv=True)) == [658, 658 + 8]


def test_another_memory_is_asked_anew() -> None:
    # Bytes from memory 0 until 74; memory 1 has seen no request: 10 more before its 64 bytes.
    assert ends(step(512, 8), step(64, 8, path=1)) == [75, 74 + 10 + 8 + 8]
    assert ends(step(512, 8), step(64, 8)) == [75, 74 + 8 + 8]


# ------------------------------------------------------- phases before and after


def test_what_was_fetched_ahead_need_not_come_again() -> None:
    # One tile is there: 448 bytes come from 10 to 66.
    assert ends(step(512, 8), lead_in_bytes=64) == [66 + 1]
    # Half a tile is no tile: 32 bytes at 14.
    assert ends(step(512, 640), lead_in_bytes=32) == [14 + 640]
    # All is there.
    assert ends(step(128, 640), lead_in_bytes=128) == [640]


def test_a_rest_asked_for_late_stays_late_by_its_latency() -> None:
    # The array starts at once, the rest is asked for then: from 10 on, no faster than it is read,
    # 448 / 0.8 = 560, and 80 for the last tile. A buffer would hide these 10 cycles; the model does
    # not let a flow catch up.
    assert ends(step(512, 640), lead_in_bytes=64) == [10 + 560 + 80]


def test_requests_in_flight_pay_no_latency() -> None:
    assert ends(step(512, 8), is_streaming=True) == [64 + 1]
    assert ends(step(512, 8), lead_in_bytes=64, is_streaming=True) == [56 + 1]
    # Only the first request is in flight: the one after an idle time pays as ever.
    rig = Rig()
    rig.run(step(64, 8), step(512, 8, pre=100), is_streaming=True)
    assert rig.fetches == [(0, 8), (8, 16), (16, 24), (126, 174)]


def test_the_lead_of_the_next_phase_follows_the_own_operands() -> None:
    # In at 74, and the array reads on until 75: 8 of 128 bytes by then.
    lead = Lead(0, 128, False, 64, 128)
    rig = Rig()
    core = rig.run(step(512, 8), lead_out=lead)
    assert core.lead_out_bytes() == (8, 128)
    assert rig.memories[0].moved_bytes == 512 + 128
    assert core.unfetched_lead(kept_bytes=0) == [(0, 128)]  # booked, but not kept
    # While a compute-bound step reads, room for it appears at 0.8 bytes a cycle: from 578 to 658.
    core = rig.run(step(512, 640), lead_out=lead)
    assert core.lead_out_bytes() == (64, 128)
    # The KV buffer is empty all the while.
    core = rig.run(step(512, 640), lead_out=Lead(0, 128, True, 64, 128))
    assert core.lead_out_bytes() == (128, 128)


def test_without_a_lead_nothing_is_fetched_ahead() -> None:
    rig = Rig()
    core = rig.run(step(512, 8))
    assert core.lead_out_bytes() == (0, 0)
    assert core.unfetched_lead(0) == []
    assert rig.memories[0].moved_bytes == 512


# ----------------------------------------------------------------------- gates


def test_a_start_gate_holds_the_array_up_and_not_the_operands() -> None:
    rig = Rig()
    core = rig.lane(step(512, 640), start_gate=rig.after(100))
    rig.env.run(until=core.done)
    assert core.step_ends == [100 + 640]


def test_a_fetch_gate_holds_the_operands_up() -> None:
    rig = Rig()
    core = rig.lane(step(512, 8), fetch_gate=rig.after(100))
    rig.env.run(until=core.done)
    assert core.step_ends == [100 + 75]


# ------------------------------------------------------------- several consumers


def test_lanes_share_the_memory() -> None:
    # 4 bytes a cycle each: 10 + 128, and a tile.
    rig = Rig()
    lanes = [rig.lane(step(512, 8)) for _ in range(2)]
    for lane in lanes:
        rig.env.run(until=lane.done)
    assert [lane.step_ends for lane in lanes] == [[139], [139]]


def test_a_lane_of_two_cores_takes_what_two_lanes_take() -> None:
    assert ends(step(512, 8), cores=2) == [139]


def test_side_transfers_take_bandwidth_and_nobody_waits_for_them() -> None:
    # 256 bytes beside 512 from the start of the step: they begin at 0, ten cycles before the
    # stream's first byte, have 80 by then and share until they are through.
    rig = Rig()
    core = rig.run(step(512, 8, sides=((0, 256),)))
    # 176 left at 4 bytes a cycle end at 54; the stream has 176 by then and needs 336 / 8 = 42 more.
    assert core.step_ends == [54 + 42 + 1]
    assert ends(step(512, 8, sides=((1, 256),))) == [75]  # another memory is no matter
    assert ends(step(0, 5, sides=((0, 800),))) == [5]


# ------------------------------------------------------------------------ books


def times(core: Core) -> dict[str, int]:
    return {Category(i).name: n for i, n in enumerate(core.times) if n}


def test_waiting_is_booked_apart_from_work() -> None:
    # 75 cycles of which 8 were computed.
    assert times(Rig().run(step(512, 8))) == {"MLP": 8, "WAIT_DDR": 67}
    assert times(Rig().run(step(512, 640))) == {"MLP": 640, "WAIT_DDR": 18}
    # 30 of norm, in which two tiles come; the other 384 bytes from 40 to 88, and a tile.
    assert times(Rig().run(step(512, 8, pre=30))) == {"MLP": 38, "WAIT_DDR": 89 - 38}


def test_queueing_for_the_fullest_core_is_booked_where_nothing_else_was_waited_for() -> None:
    # An even share would take 60 of the 100 cycles.
    assert times(Rig().run(step(0, 100, balanced=60))) == {"MLP": 60, "WAIT_CORE": 40}
    # Where bytes set the pace, an even share would gain nothing.
    waited = times(Rig().run(step(512, 8, balanced=4)))
    assert waited == {"MLP": 8, "WAIT_DDR": 67}
    # The first tile is waited for either way; an even share would then gain all it is shorter by.
    queued = times(Rig().run(step(512, 640, balanced=320)))
    assert queued == {"MLP": 320, "WAIT_CORE": 320, "WAIT_DDR": 18}


def peaks(*steps: Step, **how: Any) -> tuple[int, int]:
    core = Rig().run(*steps, **how)
    assert (core.weight_buffer.level_bytes, core.kv_buffer.level_bytes) == (0, 0)
    return core.weight_buffer.peak_bytes, core.kv_buffer.peak_bytes


def test_buffers_hold_what_was_fetched_and_not_yet_read() -> None:
    # During the norm, two tiles wait.
    assert peaks(step(512, 8, pre=100)) == (128, 0)
    assert peaks(step(512, 8, pre=100, is_kv=True)) == (0, 128)
    # Both buffers at once: weights of the second step come while the first reads keys and values.
    both: Sequence[Step] = (step(64, 640, is_kv=True), step(512, 640))
    assert peaks(*both) == (128, 64)
