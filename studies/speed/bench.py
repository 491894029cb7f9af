"""How fast carsim is: one command, one table, ratios from one run.

    python studies/speed/bench.py            # all of it; writes results.json, growth.csv, speed.png
    python studies/speed/bench.py --short    # under a minute, writes nothing
    python studies/speed/bench.py --draw     # measures nothing, prints and draws what was kept

Whole commands are measured as processes, start-up included: wall seconds, processor seconds (user
and system, children included) and peak resident memory. What happens after loading is measured by
``points.py`` in a process of its own. Machines are shared and clocks vary: compare the ratios,
which come from the same run, and processor seconds rather than wall seconds where the machine was
busy.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from report import draw, print_report, write_growth

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TRACE = "traces/vilau_8f.npz"
RUN = ["-m", "carsim", "run", "configs/zcu102.yaml", "--trace", TRACE]
POINTS, DECODER = str(HERE / "points.py"), str(HERE / "decoder.py")
GROWTH = {
    "frames": [64, 128, 256, 512],
    "batch": [8, 16, 32, 64],
    "layers": [4, 8, 16, 32],
    "cores": [1, 2, 4, 8, 16],
    "heads": [1, 2, 4, 8, 16, 32],
}
"""Sizes by axis; the rest of the point stays at 8 frames, 8 sequences, 32 layers, 4 cores."""

GROWTH_POINTS = [150, 300, 600, 1200]
"""Points of a sweep in one process."""

ROUNDS = 3
"""Every size is measured so often, once in each round."""

TILE_FRAMES = [8, 16, 32, 64]
"""Frames of the same point, played by the SimPy machine."""

SWEEPS: dict[str, dict[str, Any]] = {
    "policies": {
        "design": str(ROOT / "configs" / "u280_compute_bound.yaml"),
        "axes": {
            "machine.cores": [6, 8],
            "policy.tau": {"range": {"from": 0.06, "to": 6.0, "step": 0.06}},
            "policy.schedule": ["static", "drs"],
            "policy.decision_scope": ["row", "pair", "batch"],
        },
    },
    "cores and tau": {
        "design": str(ROOT / "configs" / "zcu102_16gb.yaml"),
        "axes": {
            "machine.cores": [1, 2, 3, 4, 5, 6],
            "policy.tau": {"range": {"from": 0.01, "to": 2.0, "step": 0.01}},
        },
        "allow_misfit": True,
    },
    "arrays": {
        "design": str(ROOT / "configs" / "zcu102_16gb.yaml"),
        "axes": {
            "machine.array.cols": {"range": {"from": 16, "to": 135, "step": 1}},
            "machine.vector.lanes": {"range": {"from": 8, "to": 17, "step": 1}},
        },
        "allow_misfit": True,
    },
}
"""Sweeps of 1,200 points: 600, 200 and one to a hardware."""

ROWS = (8, 16, 32)
"""Rows that the decoder takes at a time."""

Figures = dict[str, Any]


@dataclass(frozen=True)
class Process:
    """What a process took, and what it printed."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    output: str

    @property
    def figures(self) -> Figures:
        """All but the output."""
        return {"wall_s": self.wall_s, "cpu_s": self.cpu_s, "peak_mb": self.peak_mb}


def process(arguments: list[str]) -> Process:
    """Run Python with arguments in the checkout.

    Raises:
        SystemExit: It failed.
    """
    begun = time.perf_counter()
    # Modules are compiled once, as where carsim is installed.
    keeps = {name: it for name, it in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, env=keeps, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{arguments} ended with {child.returncode}")
    return Process(
        time.perf_counter() - begun,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss / 1024,
        output,
    )


def command(arguments: list[str], repeat: int) -> Figures:
    """Of several runs of one command, the one that took least processor time."""
    return min((process(arguments) for _ in range(repeat)), key=lambda run: run.cpu_s).figures


def point(*arguments: object) -> Figures:
    """One design point, by ``points.py``, with its rates."""
    found: Figures = json.loads(process([POINTS, *map(str, arguments)]).output)
    found["layer_steps_per_s"] = found["layer_steps"] / found["cpu_s"]
    found["phases_per_s"] = found["phases_taken"] / found["cpu_s"]
    return found


def study_file(path: Path, study: dict[str, Any]) -> Path:
    """A study of the trace, written to a file."""
    path.write_text(json.dumps({"traces": [str(ROOT / TRACE)]} | study), encoding="utf-8")
    return path


def swept(study: Path, folder: Path, *arguments: str) -> Figures:
    """``carsim sweep`` of a study of which nothing is stored yet."""
    run = process(["-m", "carsim", "sweep", str(study), "--out", str(folder), "--json", *arguments])
    points = json.loads(run.output)["points"]
    return run.figures | {
        "points": points,
        "points_per_minute": 60 * points / run.wall_s,
        "points_per_cpu_minute": 60 * points / run.cpu_s,
    }


def sweep(folder: Path) -> Figures:
    """Sweeps that share much, some and nothing of their hardware, with dense baselines.

    On all cores, and once more in one process, where processor time tells what a point takes
    however busy the machine is.
    """
    files = {name: study_file(folder / f"{name}.yaml", study) for name, study in SWEEPS.items()}
    return {
        how: {name: swept(file, folder / name / how, *options) for name, file in files.items()}
        for how, options in (("on all cores", ()), ("in one process", ("--workers", "0")))
    }


def cluster(folder: Path) -> list[Figures]:
    """A sweep on a Dask cluster of this machine, by its workers, once the cluster has started."""
    from distributed import LocalCluster

    study = study_file(folder / "study.yaml", SWEEPS["cores and tau"])
    rows = []
    for workers in range(1, len(os.sched_getaffinity(0)) + 1):
        with LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None
        ) as running:
            options = ("--scheduler", running.scheduler_address)
            found = swept(study, folder / str(workers), *options)
        rows.append({"workers": workers} | found)
    return rows


def capture(folder: Path, frames: int, clips: int) -> Figures:
    """``carsim capture`` of a part of the shipped recipe, real decoding of 32 layers."""
    import yaml

    recipe = yaml.safe_load((ROOT / "traces" / "vilau_8f.yaml").read_text())
    recipe |= {"n_frames": frames, "clips": recipe["clips"][:clips], "output": "part.npz"}
    del recipe["quality"]
    for field in ("codebook", "weights", "scenes"):
        source = ROOT / "traces" / recipe[field]
        recipe[field] = shutil.copy(source, folder / source.name).name
    (folder / "part.yaml").write_text(yaml.safe_dump(recipe))
    found = process(["-m", "carsim", "capture", str(folder / "part.yaml")]).figures
    layers = recipe["decoded"]["n_layers"]
    steps = frames * 256 * layers * -(-2 * clips // 8)
    return found | {"layer_steps": steps, "layer_steps_per_s": steps / found["wall_s"]}


def grow(axis: str, sizes: list[int], fidelity: str = "fluid") -> list[Figures]:
    """One axis of :data:`GROWTH`, which is named with the fidelity if that is another."""
    name = axis if fidelity == "fluid" else f"{axis} ({fidelity})"
    options = ("--fidelity", fidelity)
    return [{"axis": name, "size": size} | point(f"--{axis}", size, *options) for size in sizes]


def grow_sweep(folder: Path, sizes: list[int]) -> list[Figures]:
    """A sweep of more and more points in one process, less what one of six points takes."""
    study = SWEEPS["cores and tau"]
    rows: list[Figures] = []
    for size in [6, *sizes]:
        span = {"from": 12 / size, "to": 2.0, "step": 12 / size}
        axes = study["axes"] | {"policy.tau": {"range": span}}
        file = study_file(folder / f"{size}.yaml", study | {"axes": axes})
        out = Path(tempfile.mkdtemp(dir=folder))
        rows.append({"axis": "points"} | swept(file, out, "--workers", "0"))
    start, *others = rows
    return [row | {"size": row["points"], "cpu_s": row["cpu_s"] - start["cpu_s"]} for row in others]


def grow_all(folder: Path) -> list[Figures]:
    """All axes, and frames that the SimPy machine plays."""
    rows: list[Figures] = []
    for _ in range(ROUNDS):
        for axis, sizes in GROWTH.items():
            rows += grow(axis, sizes)
        rows += grow_sweep(folder, GROWTH_POINTS)
    return rows + grow("frames", TILE_FRAMES, "tile")


def slope(rows: list[Figures], of: str = "cpu_s") -> Figures:
    """Slope of log time over log size by least squares, with its 95 % interval."""
    from scipy.stats import linregress, t

    x, y = (np.log([row[key] for row in rows]) for key in ("size", of))
    fit = linregress(x, y)
    half = float(t.ppf(0.975, len(rows) - 2) * fit.stderr) if len(rows) > 2 else float("nan")
    return {"slope": float(fit.slope), "low": fit.slope - half, "high": fit.slope + half}


def decoder(*arguments: str) -> list[Figures]:
    """Steps of the reference decoder, by ``decoder.py``."""
    found: list[Figures] = json.loads(process([DECODER, *arguments]).output)
    return found


def drawn() -> Figures:
    """Points of drawn designs, by ``drawn.py``."""
    found: Figures = json.loads(process([str(HERE / "drawn.py")]).output)
    return found


def in_folder(measure: Callable[[Path], Any]) -> Callable[[], Any]:
    """Measure in a temporary folder."""

    def measured() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            return measure(Path(folder))

    return measured


SHORT: dict[str, Callable[[], Any]] = {
    "help": lambda: command(["-m", "carsim", "--help"], 1),
    "run": lambda: command(RUN, 1),
    "point": lambda: point("--repeat", 3),
    "point_plainly": lambda: point("--plainly", "--steps", 8),
    "tile_point": lambda: point("--fidelity", "tile", "--steps", 16),
    "decoder": lambda: decoder("--steps", "1024"),
    "growth": lambda: grow("frames", [2, 4, 8]),
}
"""What CI prints."""

LONG = SHORT | {
    "help": lambda: command(["-m", "carsim", "--help"], 2),
    "run": lambda: command(RUN, 2),
    "point": lambda: point("--repeat", 3),
    "point_plainly": lambda: point("--plainly", "--steps", 16),
    "decoder": decoder,
    "decoder_rows": lambda: {rows: decoder("--rows", str(rows)) for rows in ROWS},
    "growth": in_folder(grow_all),
    "large": lambda: point("--frames", 64, "--batch", 32),
    "capture": in_folder(lambda folder: capture(folder, frames=3, clips=1)),
    "sweep": in_folder(sweep),
    "cluster": in_folder(cluster),
    "drawn": drawn,
    "tile_point": lambda: point("--fidelity", "tile"),
}
"""What is kept."""


def machine() -> Figures:
    """Where it was measured, without names."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "processors": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def main() -> None:
    """Measure, print, and keep what the long form finds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="under a minute; keeps nothing")
    parser.add_argument("--only", help="measure these parts anew, comma-separated; keep the rest")
    parser.add_argument("--draw", action="store_true", help="measure nothing, draw and print again")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    kept = HERE / "results.json"
    found: Figures = {}
    if options.only or options.draw:
        found = json.loads(kept.read_text(encoding="utf-8"))
    parts = SHORT if options.short else LONG
    names = [] if options.draw else (options.only.split(",") if options.only else list(parts))
    for name in names:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        found |= {"machine": machine(), name: parts[name]()}
        if not options.short:
            kept.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if not options.short:
        found["slopes"] = {
            axis: slope([row for row in found["growth"] if row["axis"] == axis])
            for axis in dict.fromkeys(row["axis"] for row in found["growth"])
        }
        kept.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        write_growth(found["growth"], HERE / "growth.csv")
        draw(found, HERE / "peers.csv", HERE / "speed.png")
    print_report(found)


if __name__ == "__main__":
    main()
