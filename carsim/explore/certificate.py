"""The certificate of a front: what was proven of which designs, and a check that trusts nothing.

``certificate.json`` beside a store says what a front of it rests on. :func:`verify` proves the
front anew from the study, its design and its traces: it computes all bounds, evaluates all points
of the front and all others that bounds do not rule out, and compares. So a certificate that was
changed is refused, even with digests that match.

Simplification: both use this carsim. An error of its model or of its bounds is in both.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.files import read_json, write_whole
from carsim.base.text import shortened
from carsim.explore.code import code_sha256, plugin_gap_of
from carsim.explore.evaluate import Evaluator
from carsim.explore.grid import Floats, GridStudy
from carsim.explore.grid_bounds import GridBounds, grid_bounds
from carsim.explore.pareto import directions, front
from carsim.explore.points import Point, chunks_of, held_constraints
from carsim.explore.store import CERTIFICATE, STUDY_FILE, Store, loaded_study, open_store
from carsim.explore.study import Study

SCHEMA = 1
MOST_BYTES = 1 << 28

FREE_COLUMNS = ("seconds",)
"""Columns in which two evaluations of a point may differ."""

AGAIN = "sweep it again with --front-only"


@dataclass(frozen=True)
class Verified:
    """Outcome of a check of a certificate.

    Attributes:
        designs: Designs of the grid that pass the filters.
        front: Points of the front, all of which were evaluated again.
        evaluated: Further points that were evaluated again, as bounds do not rule them out.
        dominated: Designs whose bound is dominated by a point of the front.
        broken: Designs that cannot fit their board or meet the constraints.
        within: Share by which a design that is left out may be better.
    """

    designs: int
    front: int
    evaluated: int
    dominated: int
    broken: int
    within: float


def write_certificate(store: Store, study: Study, bounds: GridBounds, within: float) -> None:
    """Write the certificate of a front that is proven, beside its store.

    Args:
        store: The store; nothing is written for one in memory.
        study: The study of the front.
        bounds: Bounds of its grid.
        within: Share by which a design that is left out may be better.

    Raises:
        InputError: It cannot be written.
    """
    if store.path is not None:
        document = _document(store, study, bounds, within)
        text = json.dumps({**document, "sha256": _digest(document)}, indent=1) + "\n"
        write_whole(store.path.with_name(CERTIFICATE), text)


def verify(folder: Path, study_file: Path | None = None) -> Verified:
    """Check the certificate of a folder.

    Args:
        folder: Folder of a front.
        study_file: File of the study, whose design and traces lie beside it. If left out, the copy
            in the folder.

    Raises:
        InputError: There is no certificate, or it does not hold.
    """
    path = str(folder / CERTIFICATE)
    if not (folder / CERTIFICATE).is_file():
        raise InputError(str(folder), f"holds no {CERTIFICATE}", AGAIN)
    document = read_json(folder / CERTIFICATE, MOST_BYTES, AGAIN)
    digest = document.pop("sha256", None)
    if digest != _digest(document):
        raise _refusal(path, "does not match its own digest")
    with open_store(folder) as store:
        gap = plugin_gap_of(store.facts)
    if gap is not None:
        raise InputError(path, gap.problem, gap.cure)
    study = loaded_study(folder, study_file).lean
    with open_store(folder) as store:
        if store.damaged:
            raise _refusal(str(store.path), f"is damaged ({', '.join(store.damaged)})")
        if store.facts["fingerprint"] != study.fingerprint:
            raise _refusal(path, f"is of another study than {study_file or STUDY_FILE}")
        within = _checked_share(document, path)
        if store.facts["within"] != within:
            raise _refusal(path, f"says within is {within}, and the store {store.facts['within']}")
        grid = GridStudy(study)
        bounds = grid_bounds(grid)
        _compare(path, document, _document(store, study, bounds, within))
        return _proven(path, store, grid, bounds=bounds, within=within)


# -------------------------------------------------------------------- private


def _document(store: Store, study: Study, bounds: GridBounds, within: float) -> dict[str, Any]:
    """Contents of a certificate, but for its digest."""
    rows = sha256()
    on_front = _front_rows(store, study)
    n_rows = 0
    for ordinal, values, row in store.rows():
        figures = {name: value for name, value in row.items() if name not in FREE_COLUMNS}
        rows.update(json.dumps([ordinal, values, figures], sort_keys=True).encode())
        n_rows += 1
    return {
        "schema": SCHEMA,
        "version": version("carsim"),
        "code": code_sha256(),
        "study": store.facts["name"],
        "fingerprint": study.fingerprint,
        "objectives": dict(study.objectives),
        "constraints": [constraint.text for constraint in study.constraints],
        "within": within,
        "designs": store.facts["points"],
        "bounds_sha256": bounds.sha256(),
        "bounded": [
            name
            for name, column in zip(study.objectives, bounds.objectives.T, strict=True)
            if np.isfinite(column).any()
        ],
        "ruled_out": {name: int(broken.sum()) for name, broken in sorted(bounds.missing.items())},
        "rows": n_rows,
        "rows_sha256": rows.hexdigest(),
        "front": on_front,
    }


def _front_rows(store: Store, study: Study) -> list[dict[str, Any]]:
    """Points of the front with their objectives, in the order of the study."""
    points = [
        (ordinal, row)
        for ordinal, values, row in store.rows()
        if _counts(study, Point(ordinal, "", values, values), row)
    ]
    if not points:
        return []
    is_best = front(np.array([_goals(study, row) for _, row in points]))
    return [
        {"point": ordinal, **{name: row[name] for name in study.objectives}}
        for (ordinal, row), best in zip(points, is_best, strict=True)
        if best
    ]


def _counts(study: Study, point: Point, row: Mapping[str, Any]) -> bool:
    """The result is an answer: it fits, has all objectives and meets all constraints."""
    if row["status"] != "ok" or any(row.get(name) is None for name in study.objectives):
        return False
    return all(held_constraints(study, point, row))


def _goals(study: Study, row: Mapping[str, Any]) -> list[float]:
    """Objectives of a result, of which less is better."""
    return [sign * row[name] for name, sign in directions(study.objectives).items()]


def _digest(document: Mapping[str, Any]) -> str:
    return sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _refusal(place: str, problem: str) -> InputError:
    return InputError(place, problem, f"the front is not proven; {AGAIN}")


def _checked_share(document: Mapping[str, Any], place: str) -> float:
    """The share ``within`` of a certificate, which has to be at least 0 and below 1."""
    within = document.get("within")
    if not isinstance(within, int | float) or not 0 <= within < 1:
        raise _refusal(place, f"has no share of at least 0 and below 1 ({within!r})")
    return float(within)


def _compare(place: str, document: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse a certificate that says something else than its study, bounds and store do now."""
    for name in ("code", "version", *now):
        if document.get(name) != now[name]:
            says = shortened(str(document.get(name)))
            is_now = shortened(str(now[name]))
            raise _refusal(place, f"says {name} is {says}, and it is {is_now}")
    if unknown := sorted(document.keys() - now.keys()):
        raise _refusal(place, f"has unknown keys ({shortened(', '.join(unknown))})")


def _proven(
    place: str, store: Store, grid: GridStudy, *, bounds: GridBounds, within: float
) -> Verified:
    """Prove the front of a store anew.

    Raises:
        InputError: A design is neither evaluated nor ruled out, or a result differs.
    """
    study = grid.study
    passing = np.flatnonzero(grid.passing())
    if store.facts["points"] != len(passing):
        raise _refusal(place, f"is of {store.facts['points']:,} designs, not {len(passing):,}")
    rows = {ordinal: (values, row) for ordinal, values, row in store.rows()}
    claimed = [entry["point"] for entry in _front_rows(store, study)]
    on_front = _points(place, grid, passing, rows=rows, ordinals=claimed)
    _evaluate_again(place, study, on_front, rows)
    exact = np.array([_goals(study, rows[ordinal][1]) for ordinal in claimed])
    exact = exact.reshape(-1, len(study.objectives))
    is_broken = np.zeros(len(passing), np.bool_)
    for broken in bounds.missing.values():
        is_broken |= broken[passing]
    least = bounds.objectives[passing]
    is_dominated = _dominated(least, exact)
    has_row = np.zeros(len(passing), np.bool_)
    has_row[[ordinal for ordinal, (_, row) in rows.items() if row["status"] != "failed"]] = True
    # A design without a result may be better by the share; one with a result is on the front.
    nearly_as_good = _dominated(least * (1 + within * np.sign(least)), exact)
    is_left_out = is_dominated | nearly_as_good | is_broken
    open_designs = np.flatnonzero(~has_row & ~is_left_out)
    if len(open_designs):
        first = grid.point(int(passing[open_designs[0]]), int(open_designs[0]))
        named = ", ".join(f"{name} {value}" for name, value in first.values.items())
        problem = (
            f"leaves {len(open_designs):,} designs open, first point {first.ordinal} ({named})"
        )
        raise _refusal(place, problem)
    doubtful = np.flatnonzero(has_row & ~is_dominated & ~is_broken)
    not_on_front = sorted({*doubtful.tolist()} - {*claimed})
    further = _points(place, grid, passing, rows=rows, ordinals=not_on_front)
    _evaluate_again(place, study, further, rows)
    return Verified(
        designs=len(passing),
        front=len(claimed),
        evaluated=len(not_on_front),
        dominated=int((is_dominated & ~is_broken).sum()),
        broken=int(is_broken.sum()),
        within=within,
    )


def _points(
    place: str,
    grid: GridStudy,
    passing: NDArray[np.intp],
    *,
    rows: Mapping[int, tuple[Mapping[str, Any], Mapping[str, Any]]],
    ordinals: list[int],
) -> list[Point]:
    """Points of the grid by their places, whose stored axis values must be the same."""
    points = []
    for ordinal in ordinals:
        point = grid.point(int(passing[ordinal]), ordinal)
        if json.loads(json.dumps(point.values, default=repr)) != rows[ordinal][0]:
            raise _refusal(place, f"point {ordinal} has other axis values in the store")
        points.append(point)
    return points


def _evaluate_again(
    place: str,
    study: Study,
    points: list[Point],
    rows: Mapping[int, tuple[Mapping[str, Any], Mapping[str, Any]]],
) -> None:
    """Refuse a stored result that differs from a new evaluation."""
    evaluator = Evaluator(study)
    for chunk in chunks_of(points):
        for point, row in zip(chunk, evaluator.evaluate(chunk), strict=True):
            now = json.loads(json.dumps(row))
            _, stored = rows[point.ordinal]
            for name, value in stored.items():
                if name not in FREE_COLUMNS and value != now.get(name):
                    problem = f"point {point.ordinal}: {name} is stored as {value}"
                    raise _refusal(place, f"{problem}, and is {now.get(name)}")


def _dominated(bounds: Floats, exact: Floats) -> NDArray[np.bool_]:
    """Designs whose bounds one of the exact results dominates, bool[P]."""
    dominated = np.zeros(len(bounds), np.bool_)
    for result in exact:
        open_designs = np.flatnonzero(~dominated)
        open_bounds = bounds[open_designs]
        is_never_worse = (result <= open_bounds).all(axis=1)
        is_better = (result < open_bounds).any(axis=1)
        dominated[open_designs] = is_never_worse & is_better
    return dominated
