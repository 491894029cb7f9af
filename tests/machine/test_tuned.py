"""The schedule that looks up how many cores to use, against all assignments of whole sequences."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from ideal import mlp
from numpy.typing import NDArray
from strategies import raw_design

from carsim.design import build_design
from carsim.hardware.schedule import REPLAYS, SCHEDULES, Schedule, slots_per_core
from carsim.hardware.schedule.drs import Drs
from carsim.machine.cases import RowCases
from carsim.machine.hardware import Hardware
from carsim.machine.numbering import distinct_rows
from carsim.machine.phases import Phases

KNOWN = 10**7
"""Cycles that hide any dispatch."""


class Listed(Drs):
    """Assignments that are given, row by row."""

    kind = label = "listed"

    def __init__(self, assigned: NDArray[np.int64]) -> None:
        self._assigned = assigned

    def assign(self, computing: Any, cores: int) -> Any:
        return self._assigned


def optimum(phases: Phases, computing: NDArray[np.bool_]) -> int:
    """Least cycles over all assignments that give no core more than it has room for."""
    cores, n = phases.machine.cores, int(computing.sum())
    chosen = np.array([*product(range(cores), repeat=n)])
    loads = (chosen[:, :, None] == np.arange(cores)).sum(axis=1)
    chosen = chosen[(loads <= slots_per_core(len(computing), cores)).all(axis=1)]
    assigned = np.full((len(chosen), len(computing)), REPLAYS)
    assigned[:, computing] = chosen
    cases = RowCases(np.tile(computing, (len(chosen), 1)), np.full(len(chosen), KNOWN))
    first, _ = distinct_rows(
        cases.load_figures(phases.machine, Listed(assigned), split=False), len(computing) + 1
    )
    return int(mlp(phases, Listed(assigned[first]), cases.take(first)).cycles.min())


def excess(phases: Phases, schedule: Schedule, drawn: np.random.Generator) -> float:
    """Worst time of four layer-steps over the optimum, less 1."""
    worst, batch = 0.0, phases.hw.batch
    for share in (0.3, 0.5, 0.8, 1.0):
        computing = drawn.random(batch) < share
        computing[drawn.integers(batch)] = True
        found = mlp(phases, schedule, RowCases(computing[None], np.array([KNOWN]))).cycles[0]
        worst = max(worst, found / optimum(phases, computing) - 1)
    return worst


@pytest.mark.parametrize(
    ("sharing", "others"), [("broadcast", 0.4), ("private", 0.4), ("private_per_sequence", 0)]
)
def test_the_table_finds_the_optimum(sharing: str, others: float) -> None:
    """Within 0.5 %, what sequences that change cores take; other schedules are far off."""
    drawn, worst = np.random.default_rng(4), dict.fromkeys(SCHEDULES, 0.0)
    for cores, batch, size, bits in product((2, 3, 4), (4, 6), (4, 16, 64), (8, 64)):
        array = {"rows": size, "cols": size, "pipeline_cycles": 0}
        raw = raw_design(cores=cores, weight_sharing=sharing, array=array, vector={"lanes": 64})
        raw["policy"]["batch"] = batch
        raw["model"]["body"] |= {"hidden_size": 128, "ffn_size": 344}
        raw["board"]["memories"]["ddr"] = raw["board"]["memories"]["ddr"] | {"channel_bits": bits}
        phases = Phases(Hardware(build_design(raw, "small")))
        for kind in SCHEDULES:
            worst[kind] = max(worst[kind], excess(phases, phases.schedule(kind), drawn))
    assert worst["tuned"] < 0.005
    assert max(worst.values()) > others


def test_a_table_of_another_batch_leaves_room_on_every_core() -> None:
    # Found for 64 sequences on four cores; groups of three have room for one on each core.
    fitted = SCHEDULES["tuned"].fitted(lambda schedule, computing: 1, 64, 4)
    assert fitted.assign(np.ones((1, 64), bool), 4).tolist() == [[0, 1, 2, 3] * 16]
    assert fitted.assign(np.array([[True, True, False]]), 4).tolist() == [[0, 1, REPLAYS]]
