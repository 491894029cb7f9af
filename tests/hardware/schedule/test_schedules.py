"""The contract of a schedule, which every registered kind has to keep."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from carsim.hardware.schedule import BASELINE, REPLAYS, SCHEDULES, Schedule, slots_per_core
from carsim.hardware.schedule.base import Registers
from carsim.testing import CONTRACTS

MASKS = st.lists(st.booleans(), min_size=1, max_size=12)


def assign(schedule: Schedule, computing: Sequence[bool], cores: int) -> list[int]:
    return schedule.assign(np.array([computing]), cores)[0].tolist()


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize("check", CONTRACTS["schedule"], ids=lambda check: check.__name__)
def test_every_schedule_keeps_the_contract(schedule: Schedule, check: Any) -> None:
    check(schedule)


@given(computing=MASKS, cores=st.integers(1, 6))
def test_drs_balances_within_one_and_pack_uses_the_fewest_cores(computing: list[bool], cores: int):
    balanced, packed = (assign(SCHEDULES[kind], computing, cores) for kind in ("drs", "pack"))
    loads = [balanced.count(core) for core in range(cores)]
    assert max(loads) - min(loads) <= 1
    slots = slots_per_core(len(computing), cores)
    assert len({*packed} - {REPLAYS}) == -(-sum(computing) // slots)


def test_static_keeps_a_sequence_on_its_core_whoever_computes() -> None:
    assert assign(BASELINE, [True, False, True, True], 2) == [0, REPLAYS, 0, 1]


def test_half_computing_costs_3_45_streams_under_drs_and_3_00_under_static() -> None:
    # Mean over all 256 decisions of eight sequences on four cores, each as likely as the other:
    # static 4 * (1 - 1/4) = 3; DRS E[min(n, 4)] with n binomial(8, 1/2) = 3.453.
    every = np.array([[bool(code >> b & 1) for b in range(8)] for code in range(256)])

    def mean_streams(kind: str) -> float:
        assigned = SCHEDULES[kind].assign(every, 4)
        return float((assigned[:, :, None] == np.arange(4)).any(axis=1).sum() / 256)

    assert mean_streams("static") == 3.0
    assert mean_streams("drs") == pytest.approx(3.453, abs=5e-4)
    assert mean_streams("pack") < 3.0


def test_drs_latches_scans_and_checks_one_instruction_after_the_other() -> None:
    # Latch 8, scan 2 x 1, then 4 cycles an instruction: sequence 0 replays, its two are discarded.
    env = simpy.Environment()
    log: list[tuple[float, int, int, int]] = []
    registers = Registers(instructions_per_sequence=2)
    env.process(
        SCHEDULES["drs"].dispatch(
            env, registers, [False, True], 2, lambda *sent: log.append((env.now, *sent))
        )
    )
    env.run()
    assert log == [(10 + 12, 1, 0, 0), (10 + 16, 1, 1, 0)]
