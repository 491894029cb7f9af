"""Evaluate drawn designs in one process; prints one JSON line: is any point much slower?

    python studies/speed/drawn.py [--points 1200] [--seed 1]

Designs are drawn from seven shipped ones and from the fields in :data:`AXES`, buffers of 4 MiB in
tiles of 16 KiB and private weights on 16 cores among them. A point is what a sweep evaluates: the
own policy and dense decoding, on ``traces/vilau_8f.npz``. Points that are refused are left out.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from carsim.explore.evaluate import Evaluator
from carsim.explore.points import make_points
from carsim.explore.study import load_study

ROOT = Path(__file__).resolve().parents[2]
DESIGNS = (
    "zcu102_16gb",
    "u280_compute_bound",
    "zcu102",
    "kv260",
    "u280",
    "vck190",
    "u280_fastcar",
)
AXES: dict[str, list[Any]] = {
    "design": [str(ROOT / "configs" / f"{name}.yaml") for name in DESIGNS],
    "machine.cores": [1, 2, 3, 4, 6, 8, 16],
    "machine.array.cols": [4, 8, 16, 32, 64],
    "machine.array.rows": [8, 16, 32],
    "machine.array.dataflow": ["dot_product", "weight_stationary", "output_stationary"],
    "machine.weight_buffer_kib": [128, 256, 512, 1024, 4096],
    "machine.kv_buffer_kib": [128, 256, 1024, 4096],
    "machine.tile_kib": [16, 32, 64],
    "machine.weight_sharing": ["broadcast", "private", "private_per_sequence"],
    "machine.mapping": ["batch", "tensor", "heads", "hybrid"],
    "machine.decision_at": ["q", "attention", "residual"],
    "machine.kernel_fusion": [True, False],
    "policy.batch": [2, 4, 8, 16, 32],
    "policy.tau": [0.1, 0.5, 1.0, 2.0, 3.0, 5.0],
    "policy.schedule": ["static", "drs", "pack"],
    "policy.decision_scope": ["row", "pair", "batch"],
    "policy.attention": [{"kind": "dense"}, {"kind": "streaming"}],
}


def main() -> None:
    """Draw, evaluate, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    study = {
        "design": AXES["design"][0],
        "traces": [str(ROOT / "traces" / "vilau_8f.npz")],
        "axes": AXES,
        "allow_misfit": True,
        "sampling": {"method": "random", "points": options.points, "seed": options.seed},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.yaml"
        path.write_text(json.dumps(study), encoding="utf-8")
        loaded = load_study(path)
    evaluator, taken = Evaluator(loaded), []
    for point in make_points(loaded):
        begun = time.process_time()
        row = evaluator.evaluate(point)
        if row["status"] != "invalid":
            taken.append(1e3 * (time.process_time() - begun))
    found = {
        "drawn": options.points,
        "evaluated": len(taken),
        "median_ms": float(np.median(taken)),
        "p99_ms": float(np.quantile(taken, 0.99)),
        "slowest_ms": max(taken),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
