"""The results of a store as a frame and as files."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carsim.environment import has_parquet
from carsim.explore.metrics import RESULT_COLUMNS
from carsim.explore.store import Store
from carsim.files import write_whole
from carsim.metrics import METRICS, OLD_NAMES
from carsim.trace.meta import SYNTHETIC

if TYPE_CHECKING:
    import pandas as pd


def frame_of(store: Store) -> "pd.DataFrame":
    """All results of a store.

    Columns: ``point`` (place in the study), one per axis by its name, ``status`` (``ok``,
    ``misfit``, ``invalid``, ``failed``), ``reason`` and ``seconds`` that the evaluation took, and
    the metrics of :data:`carsim.metrics.METRICS`. Missing numbers are NaN; an axis whose
    values are lists or mappings, or text beside numbers, holds them as JSON.
    """
    import pandas as pd

    axes = json.loads(store.meta()["axes"])
    rows = list(store.rows())
    columns: dict[str, list[Any]] = {"point": [ordinal for ordinal, _, _ in rows]}
    for axis in axes:
        cells = [values[axis] for _, values, _ in rows]
        kinds = {type(cell) for cell in cells}
        if kinds & {list, dict} or (len(kinds) > 1 and not kinds <= {int, float}):
            cells = [cell if isinstance(cell, str) else json.dumps(cell) for cell in cells]
        columns[axis] = cells
    results = [{OLD_NAMES.get(name, name): row[name] for name in row} for _, _, row in rows]
    columns |= {name: [row.get(name) for row in results] for name in RESULT_COLUMNS}
    frame = pd.DataFrame(columns)
    empty = [name for name in METRICS if frame[name].isna().all()]
    return frame.astype(dict.fromkeys(empty, "float64"))


def origin_note(frame: "pd.DataFrame") -> str:
    """How many points consume decisions that were drawn from a model; empty if none does."""
    drawn = int(frame["decisions"].astype(str).str.contains(SYNTHETIC, regex=False).sum())
    points = f"{drawn:,} of {len(frame):,} points" if drawn else ""
    return points and f"Decisions are {SYNTHETIC} in {points}."


def export(store: Store, folder: str | Path) -> list[str]:
    """Write all results as CSV, and as Parquet where pyarrow is installed; each file as a whole.

    Returns:
        Names of the files.

    Raises:
        InputError: They cannot be written.
    """
    frame, folder = frame_of(store), Path(folder)
    files = ["points.csv"]
    if has_parquet():
        files.insert(0, "points.parquet")
        write_whole(folder / "points.parquet", lambda path: frame.to_parquet(path, index=False))
    write_whole(folder / "points.csv", lambda path: frame.to_csv(path, index=False))
    return files
