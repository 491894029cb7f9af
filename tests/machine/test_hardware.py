"""From a design to rates, latencies and shares: what ports carry, who is at home where."""

from fractions import Fraction

import pytest
from strategies import small_design

from carsim.design import Board, Memory, Ports, load_design, override
from carsim.machine.hardware import Hardware, memory_path, port_gbps
from carsim.schedule import SCHEDULES
from carsim.units import bytes_per_cycle, ns_to_cycles
from carsim.workload.ops import Stream


def memory(**ports: object) -> Memory:
    fields = {"count": 4, "bits": 128, "clock_mhz": 200.0, "burst_overhead_beats": 0} | ports
    return Memory(
        standard="DDR4-2133",
        capacity_gib=4.0,
        interconnect_ns=120.0,
        ports=Ports.model_validate(fields),
    )


def test_four_ports_of_128_bits_at_200_mhz_carry_12_8_gbps() -> None:
    assert port_gbps(memory(), 100.0) == pytest.approx(12.8)
    path = memory_path("ps_ddr", memory(), 1, 250.0)
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


def test_bursts_in_flight_cover_the_latency_or_do_not() -> None:
    # 2 bursts of 256 bytes per port in 400 ns: 1.28 GB/s a port.
    few = memory(outstanding=2, max_burst_bytes=256)
    assert port_gbps(few, 400.0) == pytest.approx(4 * 1.28)
    assert port_gbps(few, 100.0) == pytest.approx(4 * 3.2)  # no more than the wires carry


def test_wide_ports_leave_the_memory_as_the_limit() -> None:
    path = memory_path("ps_ddr", memory(clock_mhz=333.0), 1, 250.0)
    assert path.limited_by == "memory"
    assert path.sustained_gbps == path.dram_gbps < 17.07


def test_latency_is_that_of_device_and_interconnect_in_fabric_cycles() -> None:
    slow = memory_path("m", memory(), 1, 250.0)
    without = memory().model_copy(update={"interconnect_ns": 0.0})
    assert slow.latency_cycles - memory_path("m", without, 1, 250.0).latency_cycles == 30  # 120 ns


def test_clock_domains_have_a_rational_ratio() -> None:
    assert bytes_per_cycle(14.5, 250.0) == 58
    # To a 4096th of a byte per cycle.
    assert abs(bytes_per_cycle(14.4321, 333.0) - Fraction(14_432_100, 333_000)) <= Fraction(1, 8192)
    assert [ns_to_cycles(ns, 300.0) for ns in (0.0, 1.0, 10.0, 10.1)] == [0, 1, 3, 4]


def test_every_operand_comes_from_where_it_is_placed() -> None:
    placement = {"weights": "second", "kv": "ddr", "replay": "second", "head": "ddr"}
    hw = Hardware(small_design(placement=placement))
    assert [path.name for path in hw.paths] == ["ddr", "second"]
    assert hw.path_of == {Stream.WEIGHTS: 1, Stream.KV: 0, Stream.HEAD: 0}
    assert hw.replay_path == 1


def test_more_bandwidth_is_more_of_every_path_and_nothing_else() -> None:
    plain = Hardware(small_design())
    more = Hardware(small_design(), bandwidth_factor=Fraction(11, 10))
    for before, after in zip(plain.paths, more.paths, strict=True):
        assert after.rate == before.rate * Fraction(11, 10)
        assert after.latency_cycles == before.latency_cycles


def test_cores_that_stream_for_themselves_make_more_streams() -> None:
    # DDR4 pays for every stream that it has to alternate between.
    board: Board = load_design("zcu102").board
    one, many = (
        memory_path("ps_ddr", board.memories["ps_ddr"], streams, 250.0).dram_gbps
        for streams in (1, 64)
    )
    assert many <= one


@pytest.mark.parametrize(
    ("mapping", "sharing", "attention", "mlp"),
    [
        ("batch", "broadcast", True, True),
        ("batch", "private", False, False),
        ("batch", "private_per_sequence", False, False),
        ("tensor", "broadcast", True, True),
        ("heads", "broadcast", True, True),
    ],
)
def test_who_is_in_lockstep(mapping: str, sharing: str, attention: bool, mlp: bool) -> None:
    hw = Hardware(small_design(mapping=mapping, weight_sharing=sharing))
    assert hw.is_lockstep(hw.mapping.splits_attention) == attention
    assert hw.is_lockstep(hw.mapping.splits_mlp) == mlp


def test_sequences_are_spread_over_cores() -> None:
    assert Hardware(small_design(batch=7, cores=3)).home_loads.tolist() == [3, 2, 2]


def test_dispatch_takes_what_its_registers_and_instructions_say() -> None:
    registers = {
        "index_register_bits": 4,
        "latch_cycles": 5,
        "scan_cycles_per_sequence": 2,
        "instructions_per_sequence": 10,
        "cycles_per_instruction": 3,
    }
    hw = Hardware(small_design(batch=6, cores=2, drs=registers))
    # A group of four of the six: 5 + 4 x (2 + 10 x 3).
    assert (
        hw.dispatch_cycles(SCHEDULES["drs"]) == hw.dispatch_cycles(SCHEDULES["pack"]) == 5 + 4 * 32
    )
    # Each core checks those of its own three, and static knows no groups.
    assert hw.dispatch_cycles(SCHEDULES["static"]) == 3 * 30
    wide = Hardware(override(hw.design, {"machine.drs.index_register_bits": 32}))
    assert wide.dispatch_cycles(SCHEDULES["drs"]) == 5 + 6 * 32
