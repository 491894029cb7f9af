"""What points share must not change any of them."""

import pytest
from explore_study import make_study

from carsim.explore.evaluate import Evaluator
from carsim.explore.points import make_points
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
    "buffers": {"machine.weight_buffer_kib": [2, 3, 64], "machine.kv_buffer_kib": [2, 16]},
    "registers": {"machine.drs.index_register_bits": [1, 32], "policy.schedule": ["static", "drs"]},
}


@pytest.mark.parametrize("what", SHARED)
def test_points_evaluated_together_are_what_each_is_alone(tmp_path, what):
    study = make_study(tmp_path, axes=SHARED[what])
    points = make_points(study)
    together = Evaluator(study).evaluate(points)
    for point, row in zip(points, together, strict=True):
        (alone,) = Evaluator(study).evaluate([point])
        assert alone | {"seconds": row["seconds"]} == row
        assert row["status"] == "ok"
    assert len({row["latency_s"] for row in together}) > 1


def test_resampling_follows_its_seed(tmp_path):
    """Batches of eight from a trace of four rows: which are drawn again depends on the seed."""
    axes = {"policy.batch": [8]}

    def latency(seed):
        return sweep(make_study(tmp_path, axes=axes, resample=seed), workers=0).latency_s.item()

    latencies = [latency(seed) for seed in range(6)]
    assert latencies == [latency(seed) for seed in range(6)]
    assert len(set(latencies)) > 1
