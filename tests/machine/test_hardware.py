"""From a design to rates and shares: where operands come from, who is at home where."""

from fractions import Fraction

import pytest
from strategies import small_design
from tiny import tiny_report

from carsim.base.errors import InputError
from carsim.design import override
from carsim.machine.hardware import Hardware
from carsim.report.notes import notes_of


@pytest.mark.parametrize("factor", [Fraction(11, 10), Fraction(10**9 + 7, 10**9 + 9)])
def test_more_bandwidth_is_more_of_every_path_and_nothing_else(factor: Fraction) -> None:
    """Rates stay small fractions: their products with bytes have to fit 64 bits."""
    plain, more = (
        Hardware(small_design(), bandwidth_factor=each) for each in (Fraction(1), factor)
    )
    for before, after in zip(plain.paths, more.paths, strict=True):
        assert after.rate.denominator <= 4096
        assert abs(after.rate - before.rate * factor) <= Fraction(1, 8192)
        assert after.latency_cycles == before.latency_cycles


def test_cores_that_share_a_stream_need_room_for_all_their_instructions() -> None:
    changes = {"machine.drs.core_queue_instructions": 127}
    with pytest.raises(InputError, match=r"127 are fewer than the 128 of .*; give 128"):
        override(small_design(), changes)  # four sequences on two cores, 64 instructions each
    assert override(small_design(weight_sharing="private"), changes)
    assert override(small_design(batch=2), changes)


def test_queues_take_luts_and_a_shallow_one_says_what_it_costs() -> None:
    private = ("machine.weight_sharing=private", "machine.array.rows=1", "machine.cores=4")
    plain, shallow = (
        tiny_report(*private, f"machine.drs.core_queue_instructions={depth}")
        for depth in ("null", 4)
    )
    luts = [each.fit.resources.totals["lut"] for each in (plain, shallow)]
    assert luts[1] - luts[0] == pytest.approx(1.2 * 4 * 4 * 1.3, abs=1)  # shares of control, too
    lost = shallow.chosen.latency_s - plain.chosen.latency_s
    assert lost > 0.1 * plain.chosen.latency_s
    said = [[n for n in notes_of(each) if "each queue holds 4" in n] for each in (plain, shallow)]
    assert [len(notes) for notes in said] == [0, 1]
    assert f" in {lost / shallow.chosen.latency_s:.1%} of the time" in said[1][0]


def test_a_descriptor_that_is_fetched_with_each_tile_takes_its_cycles() -> None:
    plain = Hardware(small_design())
    slow = Hardware(small_design(overheads={"descriptor_cycles": 45}))
    for before, after in zip(plain.paths, slow.paths, strict=True):
        cycles = 1024 / before.rate + 45  # of a tile of 1 KiB
        assert after.rate == pytest.approx(1024 / cycles, abs=1 / 4096)


def test_what_others_move_is_missing() -> None:
    raw = {"board.memories.ddr.other_gbps": 0.5}
    plain, shared = Hardware(small_design()), Hardware(override(small_design(), raw))
    # 0.5e9 bytes a second at 200 MHz are 2.5 a cycle.
    assert shared.paths[0].rate == pytest.approx(plain.paths[0].rate - 2.5, abs=1 / 4096)
    assert shared.paths[1].rate == plain.paths[1].rate
    with pytest.raises(InputError, match=r"memories\.ddr\.other_gbps: 9 GB/s leave nothing"):
        _ = Hardware(override(small_design(), {"board.memories.ddr.other_gbps": 9.0})).paths
