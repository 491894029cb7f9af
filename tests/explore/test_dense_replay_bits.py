"""A machine that replays nothing neither stores nor moves a replay cache, in any command."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explore_study import make_study
from tiny import tiny_design, tiny_trace

from carsim.explore.bounds import bounds_of
from carsim.explore.grid import GridStudy
from carsim.explore.sweep import sweep
from carsim.metrics import METRICS, figures
from carsim.runs.decode import decode
from carsim.runs.first import Wish, first_design
from carsim.runs.pipeline import run
from carsim.workload.workload import workload_of

FEW, MANY = "model.replay.bits=0.1", "model.replay.bits=16"
MACHINES = [
    "machine.mapping=batch",
    "machine.mapping=tensor",
    "machine.mapping=hybrid",
    "machine.weight_sharing=private",
]


def all_figures(workload: str, *overrides: str) -> Mapping[str, Mapping[str, Any]]:
    """All metrics of all policies of a run."""
    report = run(tiny_design(*overrides), workload=workload, allow_misfit=True)
    return {row.variant.key: figures(row, report) for row in report.rows}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("workload", ["video:2", "video:2,prompt=5", "text:9+5"])
def test_no_metric_of_dense_decoding_depends_on_the_replay_cache(
    workload: str, machine: str
) -> None:
    few = all_figures(workload, FEW, machine)
    assert few == all_figures(workload, MANY, machine)
    assert all(set(METRICS) == set(row) for row in few.values())


def test_the_dense_rows_beside_replay_do_not_depend_on_it_either() -> None:
    few, many = (
        {row.variant.key: row for row in run(tiny_design(bits), [tiny_trace()]).rows}
        for bits in (FEW, MANY)
    )
    for key, row in few.items():
        assert (row.cycles == many[key].cycles) != row.variant.replays, key


@pytest.mark.parametrize("workload", ["video:2", "text:9+5"])
def test_no_point_bound_or_fit_of_a_dense_study_depends_on_it(
    tmp_path: Path, workload: str
) -> None:
    axes = {
        "model.replay.bits": [0.1, 16],
        "machine.cores": [1, 2],
        "machine.mapping": ["batch", "tensor"],
    }
    objectives = ["seconds_per_video", "energy_per_token_j", "memory_used_gb", "fill"]
    study = make_study(tmp_path, axes=axes, objectives=objectives, traces=None, workload=workload)
    rows = sweep(study, workers=0)
    left_out = {"model.replay.bits", "id", "ordinal", "point", "seconds", "checksum", "knee"}
    names = [name for name in rows.columns if name not in left_out]
    few, many = (rows[rows["model.replay.bits"] == bits][names] for bits in (0.1, 16))
    assert len(few) == len(many) == 4
    assert few.astype(str).to_numpy().tolist() == many.astype(str).to_numpy().tolist()
    bounds, lacks = bounds_of(GridStudy(study))
    np.testing.assert_array_equal(bounds[:4], bounds[4:])
    for of_part in lacks.values():
        np.testing.assert_array_equal(of_part[:4], of_part[4:])


def test_neither_a_step_nor_a_design_that_is_chosen_depends_on_it() -> None:
    few, many = (tiny_design(bits) for bits in (FEW, MANY))
    assert decode(few, 10).cycles_per_step == decode(many, 10).cycles_per_step
    best = [
        first_design(Wish.of("zcu102", "tiny", workload=workload_of("video:2"), overrides=(bits,)))
        for bits in (FEW, MANY)
    ]
    assert best[0][0].choice == best[1][0].choice
    assert best[0][0].fit.rows == best[1][0].fit.rows
