"""What every schedule owes, whatever the machine."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import masks

from carsim.machine import drs

computing = st.integers(1, 40).flatmap(masks)
cores = st.integers(1, 12)


@pytest.mark.parametrize("schedule", drs.SCHEDULES)
@given(computing=computing, cores=cores)
def test_each_computing_sequence_gets_one_core_and_no_replaying_one_any(
    schedule: str, computing: list[bool], cores: int
) -> None:
    # An MLP that nobody runs is lost; one that is run twice, or for nothing, is paid for twice.
    assignment = drs.SCHEDULES[schedule](computing, cores)
    assert len(assignment) == len(computing)
    for computes, core in zip(computing, assignment, strict=True):
        assert (core is not None) == computes
        assert core is None or 0 <= core < cores


@given(computing=computing, cores=cores)
def test_drs_balances_within_one(computing: list[bool], cores: int) -> None:
    # Round robin gives every core one sequence before any gets its next.
    loads = drs.loads_of(drs.drs(computing, cores), cores)
    assert max(loads) - min(loads) <= 1


@pytest.mark.parametrize("schedule", drs.SCHEDULES)
@given(computing=computing, cores=cores)
def test_no_core_gets_more_than_it_has_room_for(
    schedule: str, computing: list[bool], cores: int
) -> None:
    # Activation buffers are sized for an even share of the batch.
    loads = drs.loads_of(drs.SCHEDULES[schedule](computing, cores), cores)
    assert max(loads) <= drs.slots_per_core(len(computing), cores)


@given(computing=computing, cores=cores)
def test_pack_uses_the_fewest_cores_that_have_room(computing: list[bool], cores: int) -> None:
    # Each core at work is a stream of weights.
    loads = drs.loads_of(drs.pack(computing, cores), cores)
    slots = drs.slots_per_core(len(computing), cores)
    assert sum(load > 0 for load in loads) == -(-sum(computing) // slots)


@pytest.mark.parametrize("schedule", drs.SCHEDULES)
@given(computing=computing, cores=cores)
def test_loads_of_many_decisions_are_those_of_each(
    schedule: str, computing: list[bool], cores: int
) -> None:
    # The fast path may not schedule differently from the registers.
    many = drs.loads(schedule, np.array([[computing, [not c for c in computing]]]), cores)
    for found, mask in zip(many[0], (computing, [not c for c in computing]), strict=True):
        assert tuple(found.tolist()) == drs.loads_of(drs.SCHEDULES[schedule](mask, cores), cores)


def test_a_register_forgets_the_layer_before() -> None:
    register = drs.IndexRegister(4)
    register.latch([True, True, False, True])
    register.latch([False, True, False])
    assert [register.computes(b) for b in range(4)] == [False, True, False, False]


def test_a_register_refuses_more_sequences_than_it_has_bits() -> None:
    with pytest.raises(ValueError, match="5 sequences in a register of 4 bits"):
        drs.IndexRegister(4).latch([True] * 5)
