"""The store of a sweep in the studio: its front, and the point that a click opens."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from carsim.base.errors import InputError
from carsim.base.yaml_file import parse_yaml
from carsim.design.load import shipped_designs
from carsim.explore.axis import PSEUDO_PATHS, parse_axis
from carsim.explore.store import STORE_FILE, open_store
from carsim.explore.study import StudyFile, trace_names
from carsim.studio.state import TabState
from carsim.workload.workload import workload_of


def edition(folder: Path) -> str:
    """A text that changes with the store of a folder; empty without one."""
    store = folder / STORE_FILE
    return str(store.stat().st_mtime_ns) if store.is_file() else ""


def opened(state: TabState, folder: Path, ordinal: int) -> TabState:
    """The state of a point of a sweep.

    Args:
        state: The state before.
        folder: The sweep.
        ordinal: Number of the point.

    Raises:
        InputError: No such point, or one whose design or trace is not found.
    """
    with open_store(folder) as store:
        values = next((values for number, values, _ in store.rows() if number == ordinal), None)
        text = store.meta()["study"]
    if values is None:
        raise InputError(state.store, f"has no point {ordinal}", "reload the page")
    raw = parse_yaml(text, "study")
    study = StudyFile.model_validate(json.loads(json.dumps(raw)), strict=False)
    changes: dict[str, Any] = dict(study.set)
    for name, body in study.axes.items():
        changes |= parse_axis(name, body, f"study: $.axes.{name}").changes(values[name])
    fields = {path: value for path, value in changes.items() if path not in PSEUDO_PATHS}
    if left_out := sorted({*changes} & {*PSEUDO_PATHS} - {"design", "trace", "workload"}):
        problem = f"point {ordinal} sets {', '.join(left_out)}, which no design has"
        raise InputError(state.store, problem, "open another one")
    work = changes.get("workload", study.workload)
    named = changes.get("trace", () if work else study.traces)
    work = workload_of(work).text if work and not named else ""
    trace = _found(trace_names(named, "trace")[0], folder, ()) if named else ""
    return replace(
        state,
        design=_found(str(changes.get("design", study.design)), folder, shipped_designs()),
        trace=trace,
        changes={path: json.dumps(value) for path, value in fields.items()},
        workload=work,
        frames="",
        replay="",
    )


def _found(name: str, folder: Path, shipped: Sequence[str]) -> str:
    """A file that a study names: beside its store, or as seen from here; else a shipped name."""
    if name in shipped:
        return name
    for base in (folder, folder.parent, Path()):
        if (base / name).is_file():
            return str(base / name)
    return Path(name).stem if Path(name).suffix == ".npz" else name
