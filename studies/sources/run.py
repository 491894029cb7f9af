"""Which conclusions of the design space hang on the twin? The same points on published ratios.

    python -m studies.sources.run

Takes every study of the design space that ``studies/run.py`` serves, and of it the points with
replay, dense attention, rows that decide alone, and eight rows or more in a batch (with fewer, the
rows of one guidance pair decide nearly everything). Each is evaluated again with the synthetic
trace whose published ratio (20, 50, 80, 87 %) is nearest to the ratio that it has on the captured
trace, and put beside the captured result in the study's ``points.csv``.

A *choice* is a set of points that differ in one axis only: which of its values is fastest? It is
*changed* where the sources name different values, and following the one costs more than
0.5 % on the other. Writes ``sources.csv``, a row for each study file.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from carsim import load_trace
from carsim.decisions.trace import Trace
from carsim.explore.points import Point, field_of, make_points
from carsim.explore.study import Study
from studies.run import STUDIES, Folder, evaluated, folders

HERE = Path(__file__).parent
CAPTURED = "../../traces/vilau_8f.npz"
PUBLISHED = {0.20: "published_20", 0.50: "published_50", 0.80: "published_80", 0.87: "published_87"}
LEAST_ROWS = 8
MATTERS = 0.005
"""As in studies/regimes: faster by less than this share is no difference."""

METRICS = ("latency_s", "seconds_per_video")
"""The first of them that a study keeps is compared."""


def published() -> dict[float, Trace]:
    """The synthetic traces by their ratio."""
    return {
        ratio: load_trace(STUDIES.parent / "traces" / f"{name}.npz")
        for ratio, name in PUBLISHED.items()
    }


def is_of_both(study: Study, point: Point) -> bool:
    """Whether a point means the same on either source."""
    if "trace" in point.changes or field_of(study, point, "policy.attention.kind") != "dense":
        return False
    alone = field_of(study, point, "policy.decision_scope") in (None, "row")
    replays = point.changes.get("replay", True)
    return bool(alone and replays and field_of(study, point, "policy.batch") >= LEAST_ROWS)


def beside(folder: Folder, stem: str, traces: dict[float, Trace]) -> pd.DataFrame:
    """Points of a study file on both sources: its axes, ``captured`` and ``published``.

    Args:
        folder: The study.
        stem: Its file.
        traces: Of :func:`published`.
    """
    study, kept = folder.studies[stem], folder.kept()
    metric = next((each for each in METRICS if each in kept), None)
    if metric is None or CAPTURED not in study.traces:
        return pd.DataFrame()
    own = kept[kept["study"] == stem].set_index("point")
    captured_ratio = float(study.traces[CAPTURED].replay[traces[0.5].tokens_per_frame :].mean())
    found = []
    wanted = [each for each in make_points(study) if is_of_both(study, each)]
    by_ratio: dict[float, list[Point]] = {}
    for point in wanted:
        ratio = own.get("replay_eligible", pd.Series(captured_ratio, own.index))[point.ordinal]
        if own.loc[point.ordinal, "status"] != "failed" and ratio > 0:
            nearest = min(traces, key=lambda each: abs(each - ratio))
            by_ratio.setdefault(nearest, []).append(_without_tau(point))
    for ratio, points in by_ratio.items():
        other = replace(study, traces={**study.traces, CAPTURED: traces[ratio]})
        frame = evaluated(other, points).set_index("point")
        axes = [axis.name for axis in study.axes]
        part = own.loc[frame.index, axes].assign(captured=own[metric], published=frame[metric])
        found.append(part)
    return pd.concat(found).dropna(subset=["captured", "published"]) if found else pd.DataFrame()


def _without_tau(point: Point) -> Point:
    """A synthetic trace has no scores to compare with a tau; its decisions stand."""
    changes = {path: value for path, value in point.changes.items() if path != "policy.tau"}
    return replace(point, changes=changes)


def choices(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Each choice along one axis: what either source names, and what following the other costs.

    Args:
        table: Of :func:`beside`.
    """
    axes = [name for name in table if name not in ("captured", "published")]
    for axis in axes:
        others = [name for name in axes if name != axis]
        groups = table.groupby(others, dropna=False) if others else [((), table)]
        for at, group in groups:
            if len(group) < 2:
                continue
            by_value = group.set_index(axis)[["captured", "published"]]
            best = by_value.idxmin()
            costs = [
                by_value.loc[best[other], source] / by_value.loc[best[source], source] - 1
                for source, other in (("captured", "published"), ("published", "captured"))
            ]
            yield {
                "axis": axis,
                "at": ", ".join(map(str, at)) if isinstance(at, tuple) else str(at),
                "captured": best["captured"],
                "published": best["published"],
                "cost": max(costs),
            }


def compared(table: pd.DataFrame) -> dict[str, Any]:
    """The row of a study file."""
    off = table["published"] / table["captured"] - 1
    decided = pd.DataFrame(choices(table), columns=["axis", "at", "captured", "published", "cost"])
    worst = decided.loc[decided["cost"].idxmax()] if len(decided) else None
    return {
        "points": len(table),
        "published_less_captured_median": off.median(),
        "least": off.min(),
        "most": off.max(),
        "rank_correlation": table["published"].corr(table["captured"], method="spearman")
        if len(table) > 2
        else np.nan,
        "choices": len(decided),
        "changed": int((decided["cost"] > MATTERS).sum()),
        "dearest": 0.0 if worst is None else worst["cost"],
        "dearest_is": ""
        if worst is None or worst["cost"] <= MATTERS
        else f"{worst['axis']} at {worst['at']}: {worst['captured']} or {worst['published']}",
    }


def main() -> None:
    """Evaluate, write and print."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    traces, rows = published(), []
    for folder in folders():
        for stem in folder.studies:
            table = beside(folder, stem, traces)
            if len(table):
                rows.append({"study": folder.name, "file": stem, **compared(table)})
    found = pd.DataFrame(rows)
    found.round(4).to_csv(HERE / "sources.csv", index=False)
    print(found.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
