"""Results of other code or of other folders: when a sweep may take them over.

Code that differs may give other results. Before a store of other code is gone on with, its front
and :data:`DRAWN` drawn points are evaluated again: all of their results must be equal to the bit.
The store records what was checked. Simplification: points that are not drawn could still differ.
"""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from carsim.base.errors import InputError
from carsim.base.plugins import plugins_by_name
from carsim.base.text import shortened
from carsim.explore.code import code_sha256, plugin_gap_of
from carsim.explore.evaluate import Evaluator
from carsim.explore.frame import frame_of
from carsim.explore.pareto import pareto
from carsim.explore.points import Point, chunks_of, make_point
from carsim.explore.store import FOREIGN, OF_CODE, Store, open_store
from carsim.explore.study import Study, result_columns

DRAWN = 200
"""Points that are drawn beside the front."""

USUAL_OBJECTIVES = {"seconds_per_video": "min", "energy_per_video_j": "min"}
"""Objectives of a study that names none."""

FREE_COLUMNS = ("seconds",)
"""Columns in which two evaluations of a point may differ."""


def facts_of_code() -> dict[str, Any]:
    """Facts of a store that follow from the code."""
    columns = list(result_columns())
    return {"version": version("carsim"), "code": code_sha256(), "columns": columns}


def open_other(folder: str | Path) -> Store:
    """The store of another folder, whose results are taken over.

    Raises:
        InputError: It has none, or one of other code.
    """
    store = open_store(folder)
    now = facts_of_code()
    for name in OF_CODE:
        if store.facts[name] != now[name]:
            problem = FOREIGN[name].format(**store.facts)
            cure = "sweep its study again to that folder with `accept_code`, or leave it out"
            gap = plugin_gap_of(store.facts)
            if name == "code" and gap is not None:
                problem = gap.problem
                cure = f"{gap.cure}, or {cure}"
            store.close()
            raise InputError(f"`reuse` {folder}", problem, cure)
    store.index_all()
    return store


def accept(store: Store, study: Study) -> None:
    """Make a store of other code one of this code, if results are equal; else change nothing.

    Args:
        store: The store.
        study: Its study.

    Raises:
        InputError: A result differs, or the store has another study.
    """
    now = facts_of_code()
    before = {name: store.facts[name] for name in OF_CODE}
    if before == now:
        return
    path = str(store.path)
    if set(before["columns"]) != set(now["columns"]):
        raise InputError(path, FOREIGN["columns"], "name another folder, and sweep again")
    if store.facts["fingerprint"] != study.fingerprint:
        problem = "is of other code and of another study"
        raise InputError(path, problem, "add `accept_code` with the study that it is of, first")
    on_front = _front(store, study)
    chosen = _drawn([ordinal for ordinal, _, _ in store.rows()], on_front)
    rows: dict[int, dict[str, Any]] = {}
    points: list[Point] = []
    for ordinal, values, row in store.rows():
        if ordinal in chosen and row["status"] != "failed":
            points.append(make_point(study, ordinal, values))
            rows[ordinal] = row
    evaluator = Evaluator(study)
    for chunk in chunks_of(points):
        for point, row in zip(chunk, evaluator.evaluate(chunk), strict=True):
            _check_equal(path, point, rows[point.ordinal], json.loads(json.dumps(row)))
    record = {
        "version": before["version"],
        "code": before["code"],
        "front": len(on_front),
        "checked": len(points),
    }
    store.accept(
        {**now, "plugins": plugins_by_name(), "accepted": [*store.facts["accepted"], record]}
    )


# -------------------------------------------------------------------- private


def _front(store: Store, study: Study) -> set[int]:
    """Places of the points on the front; none if no point counts."""
    constraints = [condition.text for condition in study.constraints]
    try:
        front = pareto(frame_of(store), study.objectives or USUAL_OBJECTIVES, constraints)
    except InputError:
        return set()
    return {int(ordinal) for ordinal in front["point"]}


def _drawn(ordinals: list[int], on_front: set[int]) -> set[int]:
    """The front, and drawn points; the same ones at each call."""
    rng = np.random.default_rng(0)
    n_drawn = min(DRAWN, len(ordinals))
    return on_front | {int(n) for n in rng.choice(ordinals, n_drawn, replace=False)}


def _check_equal(place: str, point: Point, stored: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse a result of a point that differs from the stored one."""
    for name in sorted(stored.keys() | now.keys()):
        if name in FREE_COLUMNS or stored.get(name) == now.get(name):
            continue
        was = shortened(str(stored.get(name)))
        is_now = shortened(str(now.get(name)))
        problem = f"point {point.ordinal} has another result: {name} is {is_now}, and was {was}"
        raise InputError(place, problem, "name another folder, and sweep again")
