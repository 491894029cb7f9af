"""The SimPy machine plays some of many phases, and interpolates between them."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ideal import built, ideal_hardware
from strategies import hardware

from carsim.decisions.replay import FASTCAR
from carsim.hardware.schedule import BASELINE
from carsim.machine import play
from carsim.machine.cases import RowCases
from carsim.machine.hardware import Hardware
from carsim.machine.phase import Phase, ReplayWork, Timing, outcome
from carsim.program.reads import Reads


def attention(hw: Hardware, attended: Any) -> Phase:
    return built(hw, "attention", FASTCAR, reads=Reads.of_tokens(attended))


def played(phase: Phase, most: int) -> Timing:
    """The timing, if at most so many phases of a kind are played."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(play.player, "MOST_PLAYED", most)
        return play.play_phases(phase)


def test_phases_in_between_take_what_they_would_if_played():
    # Played are contexts 16 tokens apart, whose last tiles of 8 tokens are equally full. In between
    # they are not: what is left of the array's work once the last byte is there differs by less
    # than the 16 cycles of a tile, at most 0.2 % in all. Where the array sets the pace, nothing is
    # waited for, and all is equal.
    slow = {"rows": 1, "cols": 3, "pipeline_cycles": 0}
    for hw, cycles, share in (
        (ideal_hardware(), 16, 0.002),
        (ideal_hardware(latency=0), 16, 0.002),
        (ideal_hardware(rate=64), 16, 0.002),
        (ideal_hardware(rate=64, array=slow), 0, 0),
        (ideal_hardware(batch=3, rate=64, array=slow, weight_sharing="private"), 0, 0),
    ):
        phase = attention(hw, np.arange(100, 501))
        every = outcome(phase, played(phase, 401))
        found = outcome(phase, played(phase, 26))
        assert (abs(found.cycles - every.cycles) <= cycles).all()
        assert (found.cycles >= found.bound_cycles).all()
        assert found.cycles.sum() == pytest.approx(every.cycles.sum(), rel=share)
        assert found.times.sum() == found.cycles.sum()
        for name in ("busy_cycles", "macs", "vector_ops", "sram_bytes", "dram_bytes"):
            assert (getattr(found, name) == getattr(every, name)).all()


@given(hw=hardware(), most=st.integers(2, 9), seed=st.integers(0, 99))
def test_phases_in_between_keep_their_books(hw: Hardware, most: int, seed: int) -> None:
    attended = np.random.default_rng(seed).permutation(np.arange(1, 300, 20))
    phase = attention(hw, attended)
    timing = played(phase, most)
    found, every = outcome(phase, timing), outcome(phase, played(phase, phase.n))
    assert timing.interpolated
    assert (found.times.sum(axis=1) == found.cycles).all()
    assert (found.times >= 0).all()
    assert (found.cycles >= found.bound_cycles).all()
    same = found.cycles == every.cycles
    assert same[attended.argmin()]
    assert same[attended.argmax()]
    assert same.sum() >= most


def test_phases_with_replays_or_dispatch_are_all_played():
    hw = ideal_hardware()
    phase = attention(hw, np.arange(10, 30))
    assert played(phase, 5).interpolated
    assert not played(phase, 20).interpolated
    twenty = np.full(20, 64)
    replay = ReplayWork(
        path=0,
        rate=Fraction(8),
        nbytes=twenty,
        add_cycles=twenty,
        busy_cycles=twenty,
        vector_ops=twenty,
    )
    computing = np.arange(16)[:, None] >> np.arange(4) & 1 == 1
    rows = RowCases(computing, np.zeros(16, np.int64))
    mlp = built(hw, "mlp", FASTCAR, rows=rows, schedule=BASELINE)
    for other in (replace(phase, replay=replay), replace(mlp, replay=None)):
        assert not played(other, 5).interpolated
