"""What points share must not change any of them."""

import pandas as pd
import pytest
from explore_study import make_study

from carsim.explore.sweep import sweep

SHARED = {
    "batches": {"policy.batch": [2, 4], "policy.decision_scope": ["row", "batch"]},
    "thresholds": {"policy.tau": [-0.3, 0.3], "policy.schedule": ["static", "drs"]},
    "structures": {
        "machine.cores": [1, 2],
        "machine.array.rows": [4, 8],
        "policy.tau": [-0.3, 0.3],
    },
    "boards": {
        "board.fabric_clock_mhz": [100.0, 250.0],
        "board.memories.ps_ddr.ports.count": [1, 4],
        "model.weights.bits": [3, 8],
    },
    "registers": {"machine.drs.index_register_bits": [1, 32], "policy.schedule": ["static", "drs"]},
}


@pytest.mark.parametrize("what", SHARED)
def test_points_evaluated_together_are_what_each_is_alone(tmp_path, what):
    together = sweep(make_study(tmp_path, axes=SHARED[what]), workers=0)
    assert (together.status == "ok").all()
    for number, point in together.iterrows():
        axes = {name: [point[name]] for name in SHARED[what]}
        axes = {k: [v[0].item() if hasattr(v[0], "item") else v[0]] for k, v in axes.items()}
        alone = sweep(make_study(tmp_path, axes=axes), workers=0)
        pd.testing.assert_frame_equal(
            alone.drop(columns=["seconds", "point"]),
            together.loc[[number]].reset_index(drop=True).drop(columns=["seconds", "point"]),
            check_dtype=False,
        )
    assert together.latency_s.nunique() > 1


def test_resampling_follows_its_seed(tmp_path):
    """Batches of eight from a trace of four rows: which are drawn again depends on the seed."""
    axes = {"policy.batch": [8]}

    def latency(seed):
        study = make_study(tmp_path, axes=axes, resample=seed)
        return sweep(study, workers=0).latency_s.item()

    latencies = [latency(seed) for seed in range(6)]
    assert latencies == [latency(seed) for seed in range(6)]
    assert len(set(latencies)) > 1
