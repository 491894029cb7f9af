"""From a memory and its ports to rates: what ports carry, what patterns reach the memory."""

from fractions import Fraction

import pytest

from carsim.base.units import bytes_per_cycle, ns_to_cycles
from carsim.design import load_design
from carsim.hardware.memory import AccessPattern
from carsim.hardware.memory.path import MemoryPath, memory_path, port_gbps
from carsim.hardware.memory.section import Memory, Ports
from carsim.hardware.memory.sustained import sustained

ONE = AccessPattern(chunk_bytes=4096)


def memory(more: dict[str, object] | None = None, **ports: object) -> Memory:
    fields = {"count": 4, "bits": 128, "clock_mhz": 200.0, "burst_overhead_beats": 0} | ports
    return Memory(
        standard="DDR4-2133",
        capacity_gib=4.0,
        interconnect_ns=120.0,
        ports=Ports.model_validate(fields),
        **(more or {}),
    )


def test_four_ports_of_128_bits_at_200_mhz_carry_12_8_gbps() -> None:
    assert port_gbps(memory(), 100.0) == pytest.approx(12.8)
    path = memory_path("ps_ddr", memory(), 250.0).at(ONE)
    assert path.peak_gbps == pytest.approx(17.07, abs=0.01)
    assert path.sustained_gbps == path.port_gbps == pytest.approx(12.8)
    assert path.limited_by == "port"
    # 12.8 GB/s over 250 MHz.
    assert abs(path.rate - Fraction(512, 10)) <= Fraction(1, 8192)


def test_beats_lost_per_burst_come_off_the_width() -> None:
    # 4096 bytes are 256 beats of 16; 6 more are lost.
    assert port_gbps(memory(burst_overhead_beats=6), 100.0) == pytest.approx(12.8 * 256 / 262)
    # A burst of one beat with one lost: half.
    one_beat = memory(max_burst_bytes=16, burst_overhead_beats=1, outstanding=1000)
    assert port_gbps(one_beat, 100.0) == pytest.approx(6.4)
    # Short requests are short bursts, with the same loss each and whole beats.
    assert port_gbps(memory(burst_overhead_beats=6), 10.0, 40) == pytest.approx(12.8 * 2.5 / 9)
    assert port_gbps(memory(burst_overhead_beats=6), 100.0, 8192) == pytest.approx(
        port_gbps(memory(burst_overhead_beats=6), 100.0, 4096)
    )


def test_bursts_in_flight_cover_the_latency_or_do_not() -> None:
    # 2 bursts of 256 bytes per port in 400 ns: 1.28 GB/s a port.
    few = memory(outstanding=2, max_burst_bytes=256)
    assert port_gbps(few, 400.0) == pytest.approx(4 * 1.28)
    assert port_gbps(few, 100.0) == pytest.approx(4 * 3.2)  # no more than the wires carry
    # A run of several bursts has no more of them in flight.
    assert port_gbps(few, 400.0, 1024) == pytest.approx(4 * 1.28)


def test_ports_that_share_one_of_the_controller_halve_it() -> None:
    shared = memory(controller_gbps=4.0, ports_per_controller=2)
    assert port_gbps(shared, 100.0) == pytest.approx(4 * 2.0)
    alone = memory(count=1, controller_gbps=4.0, ports_per_controller=2)
    assert port_gbps(alone, 100.0) == pytest.approx(3.2)


def test_latency_is_that_of_device_and_interconnect_in_fabric_cycles() -> None:
    slow = memory_path("m", memory(), 250.0)
    without = memory_path("m", memory().model_copy(update={"interconnect_ns": 0.0}), 250.0)
    assert slow.latency_cycles - without.latency_cycles == 30  # 120 ns


def test_clock_domains_have_a_rational_ratio() -> None:
    assert bytes_per_cycle(14.5, 250.0) == 58
    # To a 4096th of a byte per cycle.
    assert abs(bytes_per_cycle(14.4321, 333.0) - Fraction(14_432_100, 333_000)) <= Fraction(1, 8192)
    assert [ns_to_cycles(ns, 300.0) for ns in (0.0, 1.0, 10.0, 10.1)] == [0, 1, 3, 4]


def test_streams_reach_the_memory_in_the_pieces_that_bursts_are_cut_to() -> None:
    wide = {"clock_mhz": 333.0}
    whole, cut = memory(**wide), memory(**wide, memory_burst_bytes=256)
    many = AccessPattern(4, 1 << 20)
    for each, piece in ((whole, 4096), (cut, 256)):
        path = memory_path("m", each, 250.0)
        expected = sustained(path.standard, AccessPattern(4, piece))
        assert path.at(many).dram_gbps == expected.sustained_gbps
        assert path.rate(many) == path.at(many).rate < path.rate(AccessPattern())
        assert path.rate(AccessPattern(chunk_bytes=1 << 20)) == path.rate(ONE)


def test_a_gather_of_short_runs_is_slower_than_a_stream() -> None:
    path = memory_path("m", memory(clock_mhz=333.0), 250.0)
    rates = [path.rate(AccessPattern(chunk_bytes=n, random=True)) for n in (16, 64, 4096)]
    assert rates[1] < path.rate(ONE) * 7 / 10
    assert rates == sorted(rates)


def test_channels_take_turns_by_the_stripe_and_random_runs_leave_some_idle() -> None:
    spread = memory({"channels": 4, "interleave_bytes": 256}, clock_mhz=2000.0, outstanding=999)
    path = memory_path("m", spread, 250.0)
    random = AccessPattern(chunk_bytes=2048, random=True)
    piece = sustained(path.standard, AccessPattern(chunk_bytes=512, random=True))
    assert path.at(random).dram_gbps == pytest.approx(4 * piece.sustained_gbps, rel=1e-6)
    # Without a size, a stripe is a burst of the ports; a run shorter than that is on one channel.
    whole = memory_path("m", memory({"channels": 4}, clock_mhz=2000.0), 250.0)
    one = sustained(whole.standard, AccessPattern(chunk_bytes=512, random=True))
    short = whole.at(AccessPattern(chunk_bytes=512, random=True)).dram_gbps
    assert 0.6 < short / (4 * one.sustained_gbps) < 0.99


def efficiency(path: MemoryPath) -> float:
    """Share of the peak that long reads get."""
    return path.at(ONE).sustained_gbps / path.at(ONE).peak_gbps


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ({"efficiency_low": 0.46, "efficiency_high": 0.48}, 0.47),
        ({"efficiency_low": 0.3}, 0.3),
        ({"efficiency_high": 0.92}, 0.92),
        ({"efficiency_low": 0.6, "efficiency_high": 1.0}, 0.8),
        ({"efficiency_low": 0.99}, 0.99),
    ],
)
def test_a_measured_bandwidth_replaces_the_models(
    measured: dict[str, float], expected: float
) -> None:
    path = memory_path("m", memory(measured, clock_mhz=333.0), 250.0)
    assert efficiency(path) == pytest.approx(expected, rel=1e-6)
    low, high = (float(rate * path.clock_mhz / 1000) for rate in path.interval(ONE))
    ends = measured.get("efficiency_low", expected), measured.get("efficiency_high", expected)
    assert (low, high) == pytest.approx([end * path.at(ONE).peak_gbps for end in ends], rel=1e-3)


def test_other_patterns_lose_the_measured_share_as_well() -> None:
    gathered = AccessPattern(chunk_bytes=64, random=True)
    plain, slow = (
        memory_path("m", memory(ends, clock_mhz=333.0), 250.0)
        for ends in ({}, {"efficiency_low": 0.4})
    )
    lost = efficiency(slow) / efficiency(plain)
    assert slow.at(gathered).dram_gbps == pytest.approx(lost * plain.at(gathered).dram_gbps)


@pytest.mark.parametrize(
    ("measured", "ports_mhz", "words"),
    [
        (0.46, 333.0, "memory m: the measured 0.4600 of its peak replaces the model's 0.9"),
        (0.93, 333.0, ""),
        (0.9, 100.0, "memory m: the measured 0.9000 of its peak is more than its ports carry"),
        (None, 333.0, ""),
    ],
)
def test_a_measurement_beyond_the_models_error_is_said(
    measured: float | None, ports_mhz: float, words: str
) -> None:
    path = memory_path("m", memory({"efficiency_low": measured}, clock_mhz=ports_mhz), 250.0)
    assert path.remark.startswith(words)
    assert bool(path.remark) == bool(words)


def test_efficiencies_of_other_boards_are_an_interval_around_the_rate() -> None:
    ends = {"published_efficiency_low": 0.75, "published_efficiency_high": 0.92}
    path = memory_path("m", memory(ends, clock_mhz=333.0), 250.0)
    low, high = path.interval(ONE)
    assert float(low) == pytest.approx(0.75 * path.at(ONE).peak_gbps / 0.25, rel=1e-4)
    assert high == path.rate(ONE)  # the model's own is above what was measured
    plain = memory_path("m", memory(), 250.0)
    assert plain.interval(ONE) == (plain.rate(ONE), plain.rate(ONE))


def test_the_longest_burst_follows_from_protocol_and_width() -> None:
    assert [memory(bits=bits).ports.burst_bytes for bits in (64, 128, 512)] == [2048, 4096, 4096]
    hbm = load_design("u280").board.memories["hbm"].ports
    assert hbm.burst_bytes == hbm.piece_bytes == 512
