"""Exact cycles of a memory whose bandwidth is shared between flows."""

from collections.abc import Generator
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from carsim.machine.clock import Clock
from carsim.machine.ddr import Flow, FluidMemory

RATE = Fraction(8)


class Flows:
    """Flows on one memory; ``ends`` in the order in which they were asked for."""

    def __init__(self, rate: Fraction = RATE) -> None:
        self.env = Clock()
        self.memory = FluidMemory(self.env, rate)
        self._asked: list[simpy.Event] = []

    def ask(self, nbytes: int, at: int = 0, **how: Any) -> None:
        self._asked.append(self.env.process(self._flow(nbytes, at, how)))

    def _flow(self, nbytes: int, at: int, how: dict[str, Any]) -> Generator[Any, Any, int]:
        yield self.env.timeout(at)
        yield self.memory.start(nbytes, **how).done
        return self.env.cycle

    def ends(self) -> list[int]:
        return [self.env.run(until=process) for process in self._asked]


def ends_of(*asked: tuple[int, dict[str, Any]], rate: Fraction = RATE) -> list[int]:
    flows = Flows(rate)
    for nbytes, how in asked:
        flows.ask(nbytes, **how)
    return flows.ends()


@pytest.mark.parametrize(
    ("nbytes", "rate", "cycles"),
    [
        (64, Fraction(8), 8),
        (65, Fraction(8), 9),  # a ninth cycle for one byte
        (1, Fraction(8), 1),
        (7, Fraction(7, 3), 3),
        (8, Fraction(7, 3), 4),  # 24/7 = 3.4
        (10, Fraction(1, 3), 30),
    ],
)
def test_a_flow_takes_its_bytes_over_the_rate(nbytes: int, rate: Fraction, cycles: int) -> None:
    assert ends_of((nbytes, {}), rate=rate) == [cycles]


def test_equal_flows_share_equally() -> None:
    # Two of 64 bytes at 4 bytes a cycle each.
    assert ends_of((64, {}), (64, {})) == [16, 16]
    assert ends_of(*[(64, {})] * 7) == [56] * 7


def test_the_longer_flow_has_the_memory_to_itself_in_the_end() -> None:
    # 4 bytes a cycle each until 32 are through after 8; then the other's 32 left at 8 a cycle.
    assert ends_of((32, {}), (64, {})) == [8, 12]


def test_a_latecomer_takes_half_from_then_on() -> None:
    # 64 bytes alone for 4 cycles leave 32, which take 8 more at half the rate; the latecomer has
    # 32 by cycle 12 and the other 32 by cycle 16.
    assert ends_of((64, {}), (64, {"at": 4})) == [12, 16]


def test_a_flow_that_cannot_take_its_share_leaves_the_rest() -> None:
    # 2 bytes a cycle for 10 cycles, beside which the other moves 6 a cycle.
    assert ends_of((20, {"cap": (2, 1)}), (60, {})) == [10, 10]
    # With 80 bytes the other has 20 left after 10 cycles, at 8 a cycle: 2.5 cycles more.
    assert ends_of((20, {"cap": (2, 1)}), (80, {})) == [10, 13]


def test_a_cap_above_the_share_does_not_bind() -> None:
    assert ends_of((64, {"cap": (5, 1)}), (64, {})) == [16, 16]


def test_what_a_capped_flow_leaves_is_shared_by_the_others() -> None:
    # 8 - 2 = 6 for two: 3 bytes a cycle each.
    assert ends_of((20, {"cap": (2, 1)}), (30, {}), (30, {})) == [10, 10, 10]


def test_a_cap_may_be_a_fraction() -> None:
    # A consumer that takes 5 bytes in 3 cycles takes 20 in 12.
    assert ends_of((20, {"cap": (5, 3)})) == [12]


def test_a_cap_changed_under_way_counts_from_then_on() -> None:
    flows = Flows()
    flow: list[Flow] = []

    def drive() -> Generator[Any, Any, int]:
        flow.append(flows.memory.start(80))
        yield flows.env.timeout(4)  # 32 bytes are through, 48 are left
        flows.memory.set_cap(flow[0], (1, 2))
        yield flows.env.timeout(16)  # 8 more at half a byte a cycle, 40 are left
        assert flows.memory.progress_bytes(flow[0], 80) == 40
        flows.memory.set_cap(flow[0], None)
        yield flow[0].done  # 5 cycles at 8
        return flows.env.cycle

    assert flows.env.run(until=flows.env.process(drive())) == 4 + 16 + 5


def test_progress_counts_whole_bytes_that_have_arrived() -> None:
    flows = Flows(Fraction(7, 3))
    flow = flows.memory.start(100)
    seen = []
    for until in (1, 2, 3, 4):
        flows.env.run(until=until)
        seen.append(flows.memory.progress_bytes(flow, 100))
    assert seen == [2, 4, 7, 9]  # floor of 7/3, 14/3, 7, 28/3


def test_a_flow_of_weight_n_is_n_flows() -> None:
    # Three consumers of 24 bytes beside one of 40: 2 bytes a cycle each until 12, when 16 of the 40
    # are left, which take 2 more.
    assert ends_of((24, {"weight": 3}), (40, {})) == [12, 14]
    assert ends_of(*[(24, {})] * 3, (40, {})) == [12, 12, 12, 14]
    # A cap is that of one consumer: 3 x 1 byte, which leaves 5 to the other.
    assert ends_of((24, {"weight": 3, "cap": (1, 1)}), (40, {})) == [24, 8]


def test_bytes_are_booked_for_every_consumer() -> None:
    flows = Flows()
    flows.ask(24, weight=3)
    flows.ask(40)
    flows.ends()
    assert flows.memory.moved_bytes == 3 * 24 + 40


rates = st.builds(Fraction, st.integers(1, 400), st.integers(1, 60))


@given(rates, st.lists(st.integers(1, 3000), min_size=1, max_size=12))
def test_back_to_back_transfers_take_the_time_of_their_sum(
    rate: Fraction, sizes: list[int]
) -> None:
    # The part of a cycle that one leaves over belongs to the next, whatever the ratio of clocks.
    env = Clock()
    memory = FluidMemory(env, rate)

    def drive() -> Generator[Any, Any, None]:
        spare = 0
        moved = 0
        for nbytes in sizes:
            flow = memory.start(nbytes, spare_credits=spare)
            yield flow.done
            spare = flow.spare_credits
            moved += nbytes
            assert env.cycle == ceil(moved / rate)

    env.run(until=env.process(drive()))


@given(rates, st.lists(st.integers(1, 3000), min_size=1, max_size=8))
def test_no_bandwidth_is_left_idle_but_in_the_cycles_in_which_flows_end(
    rate: Fraction, sizes: list[int]
) -> None:
    # Flows that start together are through when all their bytes are, give or take what is left
    # over of the last cycle of each; none is through before its own bytes could be.
    ends = ends_of(*((nbytes, {}) for nbytes in sizes), rate=rate)
    through = sum(sizes) / rate
    assert through <= max(ends) < through + len(sizes) + 1
    assert all(end >= nbytes / rate for end, nbytes in zip(ends, sizes, strict=True))
    # Who wants less is through earlier.
    assert sorted(ends) == [end for _, end in sorted(zip(sizes, ends, strict=True))]


@given(
    rates,
    st.integers(1, 6),
    st.integers(1, 500),
    st.integers(1, 500),
    st.sampled_from([None, (1, 1), (3, 2), (50, 3)]),
)
def test_identical_consumers_cannot_be_told_apart(
    rate: Fraction, n: int, nbytes: int, other: int, cap: tuple[int, int] | None
) -> None:
    together = ends_of((nbytes, {"weight": n, "cap": cap}), (other, {}), rate=rate)
    apart = ends_of(*[(nbytes, {"cap": cap})] * n, (other, {}), rate=rate)
    assert apart == [together[0]] * n + [together[1]]
