"""How much of a grid's front does a search find with a tenth of its points?

    carsim sweep studies/search/study.yaml --out DIR      # evaluates the whole grid, once
    python studies/search/measure.py DIR [--seeds 10]     # searches look their points up in it

Writes ``shares.csv`` beside this file, a line per sampler and seed: hypervolume found over that of
the whole grid. Objectives are scaled to 0 (best of the grid) to 1 (worst of the grid) and measured
against 1.01 in each. Each different point counts once, whether it fits the board or not.
"""

import argparse
import csv
import json
import os
import statistics
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from carsim.explore.evaluate import Row
from carsim.explore.pareto import directions, hypervolume
from carsim.explore.searcher import Searcher, open_trials
from carsim.explore.store import open_store
from carsim.explore.study import Study, load_study

HERE = Path(__file__).parent
SAMPLERS = ("tpe", "random", "nsga2")
REFERENCE = 1.01


def objectives(study: Study, rows: Iterable[Row]) -> np.ndarray:
    """Objectives of the points that fit, less being better, float[P, M]."""
    signs = directions(study.objectives)
    return np.array(
        [
            [row[name] * sign for name, sign in signs.items()]
            for row in rows
            if row["status"] == "ok"
        ]
    )


def key_of(values: Mapping[str, Any]) -> str:
    """What a point of the grid is found by."""
    return json.dumps(values, sort_keys=True)


def searched(study: Study, grid: dict[str, Row], sampler: str, seed: int, points: int) -> list[Row]:
    """Results of the points that a search asks for."""
    searcher = Searcher(study, open_trials(study, "memory", sampler, seed), seed)
    for _ in range(points):
        proposal = searcher.propose()
        if proposal is None:
            break
        searcher.tell(proposal, grid[key_of(proposal.point.values)])
    return [row for _, row in searcher.known.values()]


def share_found(folder: str, sampler: str, seed: int) -> tuple[int, int, float]:
    """Points that one search evaluated, points of the grid, and the share that it found."""
    study = load_study(HERE / "study.yaml")
    with open_store(folder) as store:
        grid = {key_of(values): row for _, values, row in store.rows()}
    everything = objectives(study, grid.values())
    low, span = everything.min(axis=0), np.ptp(everything, axis=0)
    reference = np.full(len(low), REFERENCE)
    rows = searched(study, grid, sampler, seed, len(grid) // 10)
    whole, found = (
        hypervolume((values - low) / span, reference)
        for values in (everything, objectives(study, rows))
    )
    return len(rows), len(grid), found / whole


def main() -> None:
    """Search with every sampler and seed, and write what each has found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("grid", help="folder of the swept grid")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    tasks = [(sampler, seed) for sampler in SAMPLERS for seed in range(arguments.seeds)]
    shares: dict[str, list[float]] = {}
    with (
        (HERE / "shares.csv").open("w", encoding="utf-8", newline="") as file,
        ProcessPoolExecutor(arguments.workers) as pool,
    ):
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["sampler", "seed", "points", "of", "hypervolume_share"])
        found = pool.map(share_found, repeat(arguments.grid), *zip(*tasks, strict=True))
        for (sampler, seed), (points, of, share) in zip(tasks, found, strict=True):
            shares.setdefault(sampler, []).append(share)
            table.writerow([sampler, seed, points, of, f"{share:.4f}"])
            file.flush()
    for sampler, each in shares.items():
        print(
            f"{sampler:7} median {statistics.median(each):.1%}, "
            f"least {min(each):.1%}, most {max(each):.1%}"
        )


if __name__ == "__main__":
    main()
