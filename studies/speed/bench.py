"""How fast carsim is: one command, one table of processor time, in under three minutes.

    python studies/speed/bench.py [--short]

Processor seconds are user and system, children included; other work on the machine changes them
less than seconds by the clock. Compare ratios of one run. Grids are fixed, so that two commits can
be compared. Rates are written to ``rates.csv`` and ``rates.png``, unless the form is short.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from points import ROOT, make_point, run_point

from carsim.explore.certified import CertifiedFront
from carsim.explore.evaluate import Evaluator
from carsim.explore.frame import frame_of
from carsim.explore.grid import GridStudy
from carsim.explore.pareto import pareto
from carsim.explore.points import make_points
from carsim.explore.store import Store, open_folder, open_store
from carsim.explore.study import Study, load_study
from carsim.explore.sweep import fill
from carsim.report.figures import style as plots

HERE = Path(__file__).parent
RUN = ["run", str(ROOT / "configs/zcu102.yaml"), "--trace", str(ROOT / "traces/vilau_8f.npz")]
OBJECTIVES = ["seconds_per_video", "energy_per_video_j", "dsp"]
SHARED = {
    "machine.cores": [2, 4],
    "policy.tau": [1.9, 2.7, 4.25, 5.6, 100.0],
    "policy.schedule": ["static", "drs"],
    "machine.mapping": ["batch", "tensor"],
}
OWN = {
    "machine.array.rows": [8, 16, 32],
    "machine.array.cols": [8, 16, 32],
    "machine.vector.lanes": [8, 16, 32],
    "board.fabric_clock_mhz": [150.0, 200.0, 250.0, 300.0],
}
PRIVATE = {
    "machine.weight_sharing": ["private"],
    "machine.cores": [1, 2, 4, 8],
    "machine.array.rows": [8, 16, 32],
    "machine.vector.lanes": [8, 16, 32],
    "policy.tau": [1.9, 4.25],
}
ATTENTION_TOO = {"policy.skip.kind": ["attention_too"], "machine.decision_at": ["q"]}
"""Rows that replay skip attention as well, so that its phases depend on who computes."""

GRIDS = {
    "shared hardware (tau x schedule)": ("zcu102_16gb", SHARED, False),
    "own hardware and dense baseline": ("zcu102_16gb", OWN, True),
    "private weights, 1 to 8 cores": ("u280_compute_bound", PRIVATE, False),
    "shared hardware, attention skipped": ("zcu102_16gb", SHARED | ATTENTION_TOO, False),
    "own hardware, attention skipped": ("zcu102_16gb", OWN | ATTENTION_TOO, True),
}
AIMS = dict(zip(GRIDS, (20_000, 10_000, 5_000, 8_000, 8_000), strict=True))
"""Points per minute of a processor."""

SEARCHED = tuple(GRIDS)[:3]
"""Grids that are searched, too."""

MANY = {
    **OWN,
    "machine.cores": [1, 2, 3, 4],
    "machine.weight_buffer_kib": [128, 256, 512],
    "policy.tau": [1.9, 2.7, 4.25, 5.6, 100.0],
    "policy.schedule": ["static", "drs"],
}
STORED = 100_000


def cpu_s(work: Callable[[], object], repeat: int = 1) -> float:
    """Processor seconds of this process, the least of several runs."""
    found = []
    for _ in range(repeat):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def command(*arguments: str) -> float:
    """Processor seconds of a command, start-up included, once its bytecode has been written."""
    with tempfile.TemporaryDirectory() as folder:
        bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
        for _ in range(2):
            before = os.times()
            line = [sys.executable, "-m", "carsim", *arguments]
            subprocess.run(line, check=True, capture_output=True, env=os.environ | bytecode)
            after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def grid(design: str, axes: dict[str, Any], baseline: bool = False) -> Study:
    """A study of the eight frames of the shipped trace."""
    fields = {"design": design, "traces": ["vilau_8f"], "axes": axes, "baseline": baseline}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grid.yaml"
        text = yaml.safe_dump({**fields, "objectives": OBJECTIVES, "allow_misfit": True})
        path.write_text(text, encoding="utf-8")
        return load_study(path)


def measured(short: bool) -> dict[str, str]:
    """Figures by what was measured."""
    point = make_point()
    found = {
        "carsim --help, s": f"{command('--help'):.2f}",
        "carsim run, six rows, s": f"{command(*RUN):.2f}",
        "first design point, s": f"{cpu_s(lambda: run_point(point)):.3f}",
        "one design point, s": f"{cpu_s(lambda: run_point(point), 5):.4f}",
    }
    if short:
        return found
    rates: list[dict[str, Any]] = []
    for name, given in GRIDS.items():
        study = grid(*given)
        with Store() as store:
            seconds = cpu_s(lambda store=store, study=study: fill(store, study, workers=0))
        if name in SEARCHED:
            found |= searched(name, study)
        rate = 60 * len(make_points(study)) / seconds
        found[f"{name}, points per CPU minute"] = f"{rate:,.0f}"
        rates.append({"grid": name, "points_per_minute": round(rate), "aim": AIMS[name]})
    draw(rates)
    many = grid("zcu102_16gb", MANY)
    chooser: list[CertifiedFront] = []
    seconds = cpu_s(lambda: chooser.append(CertifiedFront(GridStudy(many))))
    found[f"bounds of {chooser[0].total:,} designs, s"] = f"{seconds:.2f}"
    return found | stored()


def searched(name: str, study: Study) -> dict[str, str]:
    """A search over evaluating its points: one by one, as it has to, and side by side."""
    with Store() as store:
        search_s = cpu_s(lambda: fill(store, study, points=40, workers=0, seed=0))
        values = [values for _, values, _ in store.rows()]
    points = [each for each in make_points(study) if each.values in values]
    evaluator = Evaluator(study)
    each_s = cpu_s(lambda: [evaluator.evaluate([point]) for point in points])
    side_s = cpu_s(lambda: Evaluator(study).evaluate(points))
    ratios = f"{search_s / each_s:.2f} and {search_s / side_s:.2f}"
    return {f"search of 40 points over the same one by one, and side by side: {name}": ratios}


def stored() -> dict[str, str]:
    """Reading a store of many points, all with the figures of one of them."""
    taus = {"range": {"from": 0.0, "to": 9.0, "points": STORED}}
    study = grid("zcu102_16gb", {"policy.tau": taus})
    points = make_points(study)
    (row,) = Evaluator(study).evaluate(points[:1])
    with tempfile.TemporaryDirectory() as folder:
        with open_folder(folder) as store:
            store.claim(study, "sweep")
            store.add((each, row) for each in points)

        def front() -> None:
            with open_store(folder) as store:
                pareto(frame_of(store), OBJECTIVES)

        def nothing() -> None:
            with open_folder(folder) as store:
                fill(store, study, workers=0)

        seconds = {"front": cpu_s(front), "nothing left": cpu_s(nothing)}
    return {f"{name} of {STORED:,} stored points, s": f"{s:.2f}" for name, s in seconds.items()}


def draw(rates: list[dict[str, Any]]) -> None:
    """Write rates beside their aims, as a table and a figure."""
    table = pd.DataFrame(rates)
    table.to_csv(HERE / "rates.csv", index=False)
    with plots.style():
        figure = plots.new_figure(7, 2.2, "Design points per minute of a processor", misfit=False)
        axes = figure.subplots()
        lines = range(len(table))[::-1]
        axes.barh(lines, table["points_per_minute"], 0.5, color=plots.BLUE, label="measured")
        axes.plot(table["aim"], lines, "|", color=plots.BLACK, markersize=18, label="aim")
        axes.set_yticks(lines, table["grid"])
        axes.set(xlabel="points per minute")
        axes.legend(loc="lower right")
        figure.savefig(HERE / "rates.png", metadata={"Software": None})


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="commands and one point alone")
    os.environ["OMP_NUM_THREADS"] = "1"
    for name, figure in measured(parser.parse_args().short).items():
        print(f"{name:60} {figure:>10}")


if __name__ == "__main__":
    main()
