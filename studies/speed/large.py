"""Sweep 100,000 points, kill it twice on the way, and use the result; writes large.json.

    python studies/speed/large.py [--taus 250] [--folder FOLDER]

Points are cores, columns and buffers of ``configs/u280_compute_bound.yaml``, 200 hardwares, each
with so many tau and two schedules. The sweep is killed (SIGKILL) when a third is stored, and
interrupted (Ctrl-C) at two thirds; the same command goes on. Measured are seconds from each start
to the first new point in the store, points a minute while it works, memory of all its processes,
and what users do with the store: front, page, export, search.
"""

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from bench import HERE, ROOT, TRACE, Figures, machine, process

STUDY: dict[str, Any] = {
    "name": "one hundred thousand",
    "design": str(ROOT / "configs" / "u280_compute_bound.yaml"),
    "traces": [str(ROOT / TRACE)],
    "objectives": ["seconds_per_video", "dsp", "energy_per_video_j"],
    "axes": {
        "machine.cores": [4, 5, 6, 8],
        "machine.array.cols": [16, 24, 32, 40, 48],
        "machine.kv_buffer_kib": [256, 512, 768, 1024, 2048],
        "machine.weight_buffer_kib": [256, 512],
        "policy.schedule": ["static", "drs"],
    },
}

ENDS = [(1 / 3, signal.SIGKILL), (2 / 3, signal.SIGINT), (1, None)]
"""Shares of the points at which a run of the sweep gets a signal."""


def stored(folder: Path) -> int:
    """Points in a store."""
    try:
        with closing(sqlite3.connect(f"file:{folder}/store.sqlite?mode=ro", uri=True)) as store:
            (count,) = store.execute("SELECT count(*) FROM points").fetchone()
            return int(count)
    except sqlite3.OperationalError:  # none yet, or it is being written
        return 0


def memory_mb(session: int) -> float:
    """Resident memory of all processes of a session, shared pages once for each of them."""
    listed = subprocess.run(
        ["ps", "-o", "rss=", "-s", str(session)], capture_output=True, text=True, check=False
    )
    return sum(map(int, listed.stdout.split())) / 1024


def run(command: list[str], folder: Path, until: int, how: signal.Signals | None) -> Figures:
    """The sweep from where it is, until so many points are stored."""
    before = first = stored(folder)
    begun, first_s, peak = time.perf_counter(), 0.0, 0.0
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as child:
        while child.poll() is None:
            time.sleep(2 if first_s else 0.1)
            now = stored(folder)
            if now > before and not first_s:
                first_s, first = time.perf_counter() - begun, now
            peak = max(peak, memory_mb(child.pid)) if first_s else peak
            if how is not None and now >= until:
                child.send_signal(how)
                break
    ended, seconds = stored(folder), time.perf_counter() - begun
    return {
        "from": before,
        "to": ended,
        "signal": how.name if how else "",
        "exit_status": child.returncode,
        "first_new_point_s": first_s,
        "points_per_minute": 60 * (ended - first) / (seconds - first_s),
        "peak_mb": peak,
    }


def main() -> None:
    """Sweep, kill, use, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--taus", type=int, default=250, help="points are 400 times as many")
    parser.add_argument("--folder", type=Path, help="keep the store here")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        work = options.folder or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        step = 4 / options.taus
        axes = STUDY["axes"] | {"policy.tau": {"range": {"from": step, "to": 4.0, "step": step}}}
        study, out = work / "large.yaml", work / "out"
        study.write_text(json.dumps(STUDY | {"axes": axes}), encoding="utf-8")
        points = 400 * options.taus
        command = [sys.executable, "-m", "carsim", "sweep", str(study), "--out", str(out)]
        found: Figures = {"machine": machine(), "points": points}
        found["sweep"] = [run(command, out, int(share * points), how) for share, how in ENDS]
        found["store_mb"] = (out / "store.sqlite").stat().st_size / 1e6
        uses = {
            "front": ["report", out, "--front"],
            "page": ["report", out],
            "export": ["sweep", study, "--out", out, "--export"],
            "nothing left to do": ["sweep", study, "--out", out],
            "search of 100 points": ["search", study, "--out", work / "search", "--points", 100],
        }
        found["use"] = {
            name: process(["-m", "carsim", *map(str, arguments)]).figures
            for name, arguments in uses.items()
        }
        found["page_mb"] = (out / "report.html").stat().st_size / 1e6
    (HERE / "large.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
