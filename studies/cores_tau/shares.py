"""How much of a grid's front does a search find with a tenth of its points?

    carsim sweep studies/cores_tau/search.yaml --out DIR      # evaluates the whole grid, once
    python studies/cores_tau/shares.py DIR [--seeds 10]     # searches look their points up in it

Writes ``shares.csv`` and ``shares.png`` beside this file. The table has a line per way, seed
and number of points: hypervolume found over that of the whole grid, and the share found of the
different results on the grid's front. Objectives are scaled to 0 (best of the grid) to 1 (worst of
the grid) and measured against 1.01 in each. Each different point counts once, whether it fits the
board or not.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from carsim.explore.evaluate import Row
from carsim.explore.pareto import directions, front
from carsim.explore.searcher import Searcher
from carsim.explore.store import open_store
from carsim.explore.study import Study, load_study
from carsim.report.figures import style as plots
from studies.drawing import drawing

HERE = Path(__file__).parent
WAYS = {"search": plots.BLUE, "random": plots.GREY}
REFERENCE = 1.01
LOOKS = 6
"""Numbers of points at which a search is looked at, the last a tenth of the grid."""

SHARES = {"hypervolume": "hypervolume found, %", "front": "results on the grid's front found, %"}


def objectives(study: Study, rows: Iterable[Row]) -> np.ndarray:
    """Objectives of the points that fit, less being better, float[P, M]."""
    signs = directions(study.objectives)
    found = [
        [row[name] * sign for name, sign in signs.items()] for row in rows if row["status"] == "ok"
    ]
    return np.array(found, np.float64).reshape(-1, len(signs))


def key_of(values: Mapping[str, Any]) -> str:
    """What a point of the grid is found by."""
    return json.dumps(values, sort_keys=True)


def searched(study: Study, grid: dict[str, Row], seed: int) -> Iterator[Row]:
    """Results of the points that a search asks for, in order."""
    searcher = Searcher(study, seed)
    while points := searcher.next():
        row = grid[key_of(points[0].values)]
        searcher.learn([(points[0], row)])
        yield row


def drawn(grid: dict[str, Row], seed: int) -> Iterator[Row]:
    """Results of randomly drawn points, each once."""
    rows = [*grid.values()]
    return (rows[place] for place in np.random.default_rng(seed).permutation(len(rows)))


def shares_found(folder: str, way: str, seed: int) -> list[dict[str, Any]]:
    """What one search has found after some numbers of points."""
    study = load_study(HERE / "search.yaml")
    with open_store(folder) as store:
        if store.facts["fingerprint"] != study.fingerprint:
            raise SystemExit(f"{folder} is of another study, design or trace; sweep again")
        grid = {key_of(values): row for _, values, row in store.rows()}
    everything = objectives(study, grid.values())
    low, span = everything.min(axis=0), np.ptp(everything, axis=0)
    reference = np.full(len(low), REFERENCE)
    whole = hypervolume((everything - low) / span, reference)
    best = np.unique(everything[front(everything)], axis=0)
    table: list[dict[str, Any]] = []
    rows: list[Row] = []
    points = len(grid) // 10
    found_rows = searched(study, grid, seed) if way == "search" else drawn(grid, seed)
    for row in islice(found_rows, points):
        rows.append(row)
        if len(rows) * LOOKS % points == 0:
            values = objectives(study, rows)
            found = (values[:, None] == best).all(axis=-1).any(axis=0)
            shares = (hypervolume((values - low) / span, reference) / whole, found.mean())
            place = {"way": way, "seed": seed, "points": len(rows), "of": len(grid)}
            table.append(place | dict(zip(SHARES, shares, strict=True)))
    return table


def hypervolume(values: np.ndarray, reference: np.ndarray) -> float:
    """Exact hypervolume that points dominate, up to a reference point.

    Args:
        values: float[P, M] of which less is better.
        reference: float[M]; points that are not better than it in every objective add nothing.

    >>> hypervolume(np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([3.0, 3.0]))
    3.0
    """
    better = values[(values < reference).all(axis=1)]
    return _volume(better[front(better)], reference) if len(better) else 0.0


def _volume(points: np.ndarray, reference: np.ndarray) -> float:
    """Slice along the last objective; each slice is a volume of one dimension less."""
    if points.shape[1] == 1:
        return float(reference[0] - points.min())
    points = points[np.argsort(points[:, -1], kind="stable")]
    heights = np.diff(np.append(points[:, -1], reference[-1]))
    return fsum(
        float(height) * _volume(below[front(below)], reference[:-1])
        for place, height in enumerate(heights, 1)
        if height > 0 and len(below := points[:place, :-1])
    )


def draw(table: pd.DataFrame, path: Path) -> None:
    """Both shares by points evaluated: the median over seeds in its range."""
    seeds, of = table["seed"].nunique(), table["of"].iloc[0]
    title = f"What searches find of a grid of {of:,} points: median and range of {seeds} seeds"
    with drawing(path, 7.2, 3.0, title) as figure:
        for axes, (share, what) in zip(figure.subplots(1, 2), SHARES.items(), strict=True):
            for way, colour in WAYS.items():
                own = table[table["way"] == way].groupby("points")[share]
                low, middle, high = (100 * own.quantile(q) for q in (0, 0.5, 1))
                axes.fill_between(low.index, low, high, color=colour, alpha=0.15, linewidth=0)
                axes.plot(middle, color=colour, marker="o", markersize=3, label=way)
            lowest = 60 if share == "hypervolume" else 0
            axes.set(xlabel="points evaluated", ylabel=what, xlim=(0, None), ylim=(lowest, 101))
            axes.grid(axis="y")
        axes.legend(loc="upper left")


def main() -> None:
    """Search and draw with every seed, and write what each has found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("grid", help="folder of the swept grid")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    tasks = product(WAYS, range(arguments.seeds))
    table = pd.DataFrame([row for task in tasks for row in shares_found(arguments.grid, *task)])
    table.to_csv(HERE / "shares.csv", index=False, float_format="%.4f", lineterminator="\n")
    draw(table, HERE / "shares.png")
    last = table[table["points"] == table["points"].max()]
    for share, what in SHARES.items():
        print(f"{what}, of {last['of'].iloc[0]} points after {last['points'].iloc[0]}")
        print((100 * last.groupby("way")[share].describe()[["50%", "min", "max"]]).round(1))


if __name__ == "__main__":
    main()
