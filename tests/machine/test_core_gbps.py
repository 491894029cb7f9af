"""Bandwidth of one core: a lone core does not get the whole memory."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from strategies import Case, small_design

from carsim.design import Design, override
from carsim.workload.geometry import Video

VIDEO = Video(2, 4, 1)
DESIGN = override(small_design(), {"machine.weight_sharing": "private"})
LAYERS = DESIGN.model.body.n_layers
BATCH = DESIGN.policy.batch
CLOCK_MHZ = DESIGN.board.fabric_clock_mhz


def design(core_gbps: float | None, **changes: Any) -> Design:
    return override(DESIGN, {"machine.core_gbps": core_gbps, **changes})


def totals(of: Design, replay: np.ndarray, fidelity: str = "fluid") -> Any:
    """Totals by phase of the design under static schedules."""
    case = Case(of, VIDEO, schedule="static", replay=replay, fidelity=fidelity)
    return case.simulate().totals


def both_cores() -> np.ndarray:
    """Decisions under which nothing replays."""
    return np.zeros((1, VIDEO.n_steps, LAYERS, BATCH), np.bool_)


def alone() -> np.ndarray:
    """Decisions under which, after the first frame, the first core computes alone."""
    replay = both_cores()
    replay[:, VIDEO.tokens_per_frame :, :, 1::2] = True
    return replay


@pytest.mark.parametrize("fidelity", ["fluid", "tile"])
def test_a_lone_core_takes_its_bytes_at_its_own_rate(fidelity: str) -> None:
    free = totals(design(None), alone(), fidelity)["mlp"]
    slow = totals(design(0.02), alone(), fidelity)["mlp"]
    weights = 3 * DESIGN.model.body.hidden_size * DESIGN.model.body.ffn_size
    nbytes = int(DESIGN.model.weights.bytes_of(weights))
    # Rates are 4096ths of a byte per cycle, and each of the operands begins a new cycle.
    rate = Fraction(round(4096 * 0.02 * 1000 / CLOCK_MHZ), 4096)
    least = VIDEO.n_steps * LAYERS * int(nbytes / rate)
    assert least <= slow.cycles <= 1.05 * least + free.cycles
    for work in ("macs", "vector_ops", "sram_bytes", "dram_bytes"):
        assert getattr(slow, work) == getattr(free, work)
    assert slow.bound_cycles <= slow.cycles


def test_a_fast_core_changes_nothing() -> None:
    free = totals(design(None), alone())
    fast = totals(design(1e4), alone())
    assert fast.keys() == free.keys()
    for phase, total in fast.items():
        assert total.cycles == free[phase].cycles, phase


@pytest.mark.parametrize("sharing", ["private", "broadcast"])
@pytest.mark.parametrize("core_gbps", [0.02, 0.3, 1.0])
def test_both_fidelity_levels_agree_and_bounds_hold(sharing: str, core_gbps: float) -> None:
    of = design(core_gbps, **{"machine.weight_sharing": sharing})
    tile = totals(of, alone(), "tile")
    for phase, fluid in totals(of, alone(), "fluid").items():
        # Cores that share a memory keep their turns in the fluid solution: 1 % at most here.
        assert fluid.cycles == pytest.approx(tile[phase].cycles, rel=1e-2)
        assert fluid.bound_cycles <= min(fluid.cycles, tile[phase].cycles)


def test_packing_rows_on_one_core_no_longer_gets_all_of_the_bandwidth() -> None:
    """Half the bandwidth for each core: one that computes alone saves no time."""

    def gain_of_packing(of: Design) -> float:
        """Time of the MLP on both cores over that on one."""
        return totals(of, both_cores())["mlp"].cycles / totals(of, alone())["mlp"].cycles

    on_both = totals(design(None), both_cores())["mlp"]
    memory_gbps = sum(on_both.dram_bytes) / on_both.cycles * CLOCK_MHZ / 1000
    gain_with_all = gain_of_packing(design(None))
    gain_with_half = gain_of_packing(design(memory_gbps / 2))
    assert gain_with_all > 1.15
    assert 1 <= gain_with_half < 1 + 0.3 * (gain_with_all - 1)
