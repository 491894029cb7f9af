"""The results of a store as a frame and as files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carsim.explore.metrics import METRICS, RESULT_COLUMNS
from carsim.explore.store import Store
from carsim.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

EXPORT_FILES = ("points.parquet", "points.csv")


def frame_of(store: Store) -> "pd.DataFrame":
    """All results of a store.

    Columns: ``point`` (place in the study), one per axis by its name, ``status`` (``ok``,
    ``misfit``, ``invalid``, ``failed``), ``reason`` and ``seconds`` that the evaluation took, and
    the metrics of :data:`carsim.explore.metrics.METRICS`. Missing numbers are NaN; an axis whose
    values are lists or mappings holds them as JSON.
    """
    import pandas as pd

    axes = json.loads(store.meta()["axes"])
    columns: dict[str, list[Any]] = {"point": [], **{axis: [] for axis in axes}}
    results: dict[str, list[Any]] = {name: [] for name in RESULT_COLUMNS}
    for ordinal, values, row in store.rows():
        columns["point"].append(ordinal)
        for axis in axes:
            columns[axis].append(_cell(values[axis]))
        for name, cells in results.items():
            cells.append(row.get(name))
    for axis in axes:
        kinds = {type(value) for value in columns[axis]}
        # Text beside numbers, such as a tau that is captured, has no type of its own.
        if len(kinds) > 1 and not kinds <= {int, float}:
            columns[axis] = [_text(value) for value in columns[axis]]
    frame = pd.DataFrame({**columns, **results})
    for name in METRICS:
        if frame[name].isna().all():
            frame[name] = frame[name].astype("float64")
    return frame


def export(store: Store, folder: str | Path) -> list[str]:
    """Write all results as Parquet and CSV; a file appears whole or not at all.

    Returns:
        Names of the files.

    Raises:
        InputError: They cannot be written.
    """
    frame = frame_of(store)
    folder = Path(folder)
    write_whole(folder / "points.parquet", lambda path: frame.to_parquet(path, index=False))
    write_whole(folder / "points.csv", lambda path: frame.to_csv(path, index=False))
    return list(EXPORT_FILES)


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | Mapping) else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
