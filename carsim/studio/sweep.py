"""Sweeps in the studio: of one or two fields in place, and those that a folder holds."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from carsim.base.errors import InputError
from carsim.base.yaml_file import parse_yaml
from carsim.design.load import shipped_designs
from carsim.explore.axis import PSEUDO_PATHS, parse_axis
from carsim.explore.store import STORE_FILE, open_store
from carsim.explore.study import StudyFile, trace_names
from carsim.metrics import METRICS
from carsim.report.figures.metric import metric_plot
from carsim.report.figures.plot import Plot
from carsim.studio.fields import FIELDS, Field, number_or
from carsim.studio.point import SimulatedPoint, figures_of, point_of
from carsim.studio.reach import Reach
from carsim.studio.state import TabState
from carsim.workload.workload import workload_of

MOST_VALUES = (12, 4)
"""Values of the first and the second field; of more, an even choice is simulated."""

HEADLINES = {"video": "seconds_per_video", "text": "tokens_per_s"}
"""Figure that is drawn if none is chosen, by what is decoded."""


def swept(state: TabState, reach: Reach) -> Plot:
    """A figure of the design's own policy over the values of one or two fields.

    Args:
        state: The state, which names fields and figure.
        reach: Files that may be read.

    Raises:
        InputError: No such field or figure, or no value that can be simulated.
    """
    import pandas as pd

    point = point_of(state, reach)
    keys = [key for key in dict.fromkeys([state.over, state.by]) if key]
    metric = state.metric or HEADLINES[point.run.video.kind]
    if not FIELDS.keys() >= set(keys) or metric not in METRICS:
        raise InputError("sweep", f"knows no {', '.join((*keys, metric))}", "choose from the menus")
    fields = [FIELDS[key] for key in keys]
    values_of_fields = []
    for field, most_values in zip(fields, MOST_VALUES, strict=False):
        values_of_fields.append(_values(field, most_values, state, point))
    rows = []
    refused = []
    for values in product(*values_of_fields):
        row: dict[str, Any] = {}
        after = state
        try:
            for field, value in zip(fields, values, strict=True):
                after = field.set(after, point.design, value)
                row[field.title] = number_or(value, value)
            rows.append(row | dict(figures_of(after, reach)))
        except InputError as error:
            refused.append(str(error))
    if not any(row[metric] is not None for row in rows):
        reason = refused[0] if refused else f"{metric} has no value here"
        raise InputError("sweep", reason, "choose another field or figure")
    titles = [field.title for field in fields]
    plot = metric_plot(pd.DataFrame(rows), [metric], *titles)
    title = f"{METRICS[metric].title} over {' and '.join(titles)}"
    misfits = sum(not row["fits"] for row in rows)
    caption = f"Own policy; {len(rows)} points, of which {misfits} do not fit the board"
    return replace(plot, title=title, caption=f"{caption}. {len(refused)} more are refused.")


def _values(field: Field, most: int, state: TabState, point: SimulatedPoint) -> list[str]:
    """The present value and an even choice of others."""
    options = [option for option in field.options if option]
    present = field.text(state, point.design)
    step = max(1, math.ceil(len(options) / most))
    values = []
    for number, option in enumerate(options):
        if number % step == 0 or option == present:
            values.append(option)
    return values


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
    values = None
    with open_store(folder) as store:
        text = store.facts["study"]
        for number, values_of_point, _ in store.rows():
            if number == ordinal:
                values = values_of_point
                break
    if values is None:
        raise InputError(state.store, f"has no point {ordinal}", "reload the page")
    raw = parse_yaml(text, "study")
    study = StudyFile.model_validate(json.loads(json.dumps(raw)), strict=False)
    changes: dict[str, Any] = dict(study.set)
    for name, body in study.axes.items():
        changes |= parse_axis(name, body, f"study: $.axes.{name}").changes(values[name])
    left_out = sorted(
        path
        for path in changes
        if path in PSEUDO_PATHS and path not in ("design", "trace", "workload")
    )
    if left_out:
        problem = f"point {ordinal} sets {', '.join(left_out)}, which no design has"
        raise InputError(state.store, problem, "open another one")
    fields = {}
    for path, value in changes.items():
        if path not in PSEUDO_PATHS:
            fields[path] = json.dumps(value)
    work = changes.get("workload", study.workload)
    traces = changes.get("trace", () if work else study.traces)
    design = str(changes.get("design", study.design))
    return replace(
        state,
        design=_found(design, folder, shipped_designs()),
        trace=_found(trace_names(traces, "trace")[0], folder, ()) if traces else "",
        changes=fields,
        workload=workload_of(work).text if work and not traces else "",
    )


def _found(name: str, folder: Path, shipped: Sequence[str]) -> str:
    """A file that a study names: beside its store, or as seen from here; else a shipped name."""
    if name in shipped:
        return name
    for base in (folder, folder.parent, Path()):
        if (base / name).is_file():
            return str(base / name)
    return Path(name).stem if Path(name).suffix == ".npz" else name
