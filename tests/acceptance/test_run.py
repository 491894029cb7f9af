"""The main job on the captured trace, ``carsim run zcu102 --trace traces/vilau_8f.npz``.

What comes out is held against calculations by hand that share no code with the simulator.
"""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from carsim import load_trace

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT / "traces" / "vilau_8f.npz"

MLP_WEIGHTS = 32 * 3 * 4096 * 11008
WEIGHT_BYTES = (4 + (16 + 4) / 128) / 8


@cache
def command_line():
    """JSON of the main job from a process of its own, and the modules that it imported."""
    done = subprocess.run(
        [
            *(sys.executable, "-X", "importtime", "-m", "carsim", "run", "configs/zcu102.yaml"),
            *("--trace", "traces/vilau_8f.npz", "--json"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.split("\n")}
    return json.loads(done.stdout), modules


def policies():
    return {row["key"]: row for row in command_line()[0]["policies"]}


def test_six_rows_on_a_stock_zcu102_that_fits():
    document = command_line()[0]
    assert document["fits"]
    keys = "dense/static streaming/static replay/static replay/drs replay+streaming/drs bound"
    assert list(policies()) == keys.split()
    assert (document["batches"], document["videos_per_batch"]) == (16, 1)


def test_without_out_neither_figures_nor_frames_nor_simpy_are_imported():
    assert {"numpy", "pydantic"} <= command_line()[1]
    unused = {"matplotlib", "pandas", "pyarrow", "simpy"}
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":  # before, NumPy itself imports them
        unused |= {"numpy.ma", "numpy.polynomial"}
    assert not unused & command_line()[1]


def test_broadcast_weights_are_saved_only_where_both_rows_of_the_pair_replay():
    # Correlation of the two rows sets the gain, not the replay ratio; DRS has nothing to balance.
    document = command_line()[0]
    rate = next(m["sustained_gbps"] for m in document["memories"] if m["name"] == "ps_ddr") * 1e9
    trace = load_trace(TRACE)
    both = np.mean(
        [trace.replay[..., list(pair)].all(-1).mean() for pair in trace.meta.guidance_pairs]
    )
    saved_ms = 1e3 * both * MLP_WEIGHTS * WEIGHT_BYTES / rate
    dense, static, drs = (
        policies()[name]["ms_per_token"] for name in ("dense/static", "replay/static", "replay/drs")
    )
    assert dense - static == pytest.approx(saved_ms, rel=0.02)
    assert drs == pytest.approx(static, rel=0.001)
    assert any("u280_compute_bound" in note for note in document["notes"])
