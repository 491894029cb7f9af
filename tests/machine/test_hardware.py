"""From a design to rates and shares: where operands come from, who is at home where."""

from fractions import Fraction

import pytest
from strategies import small_design

from carsim.design import override
from carsim.hardware.schedule import SCHEDULES
from carsim.machine.hardware import Hardware
from carsim.workload.ops import Stream


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


def test_rates_stay_small_fractions_whatever_the_factor() -> None:
    """Products of rates and bytes have to fit 64 bits."""
    odd = Hardware(small_design(), bandwidth_factor=Fraction(10**9 + 7, 10**9 + 9))
    for before, after in zip(Hardware(small_design()).paths, odd.paths, strict=True):
        assert after.rate.denominator <= 4096
        assert abs(after.rate - before.rate) <= Fraction(1, 4096)


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
