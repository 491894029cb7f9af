"""The results of a store as a frame and as files."""

import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings

from carsim.base.digests import DIGESTS, write_digests
from carsim.base.environment import has_parquet
from carsim.base.files import write_whole
from carsim.base.text import count
from carsim.decisions.trace.meta import SYNTHETIC
from carsim.explore.code import MANIFEST
from carsim.explore.store import CERTIFICATE, STORE_FILE, STUDY_FILE, Store
from carsim.explore.stored_copy import PARQUET_FILE, marked
from carsim.explore.study import result_columns
from carsim.metrics import METRICS
from carsim.metrics.columns import csv_text

if TYPE_CHECKING:
    import pandas as pd


OF_A_DECODER = ("captured in ", "scores of ", "dense: ")
"""Beginnings of labels of decisions that a decoder made, and of dense decoding."""

OPEN_LOOP = "open loop"
"""Words by which a label of decisions says that a threshold was applied to stored scores."""

BLOCK = 1 << 11
"""Results that are made a frame at a time, so that few of them are objects at once: 100,000 results
take 0.8 s, and 1.1 s with eight times as many at a time."""


def frame_of(store: Store) -> "pd.DataFrame":
    """All results of a store.

    Columns: ``point`` (place in the study), one per axis by its name, ``status`` (``ok``,
    ``misfit``, ``invalid``, ``failed``), ``reason``, ``seconds`` of a processor that the evaluation
    took, and the metrics of :data:`carsim.metrics.METRICS`, those from outside included. Missing
    numbers are NaN; an axis whose values are lists or mappings, or text beside numbers, holds them
    as JSON.
    """
    with collecting_paused():
        return _frame_of(store)


@contextmanager
def collecting_paused() -> Iterator[None]:
    """Pause the search for cycles of objects, of which results have none.

    A frame of 100,000 results takes 3.3 s instead of 3.9 s, on a busy processor.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _frame_of(store: Store) -> "pd.DataFrame":
    """Results of a store, read in blocks of :data:`BLOCK`."""
    import pandas as pd

    columns = store.facts["columns"]
    stored = store.cells()
    ordinals: list[int] = []
    points: list[dict[str, Any]] = []
    blocks: list[pd.DataFrame] = []
    while rows := list(islice(stored, BLOCK)):
        ordinals += [ordinal for ordinal, _, _ in rows]
        points += [values for _, values, _ in rows]
        blocks.append(pd.DataFrame([cells for _, _, cells in rows], columns=columns))
    axis_columns = {}
    for axis in store.facts["axes"]:
        types = set(store.facts["axis_types"][axis])
        axis_columns[axis] = _axis([values[axis] for values in points], types)
    with catch_warnings(action="ignore", category=FutureWarning):
        # Of pandas 2, on blocks without a figure; its coming rule gives the same frame.
        results = pd.concat(blocks or [pd.DataFrame(columns=columns)], ignore_index=True)
    results = results.infer_objects()  # a block without any figure has no type of its own
    all_columns = dict.fromkeys((*result_columns(), *columns))
    results = results.reindex(columns=list(all_columns))
    empty = [name for name in METRICS if results[name].isna().all()]
    results = results.astype(dict.fromkeys(empty, "float64"))
    named_points = pd.DataFrame({"point": ordinals, **axis_columns})
    frame = pd.concat([named_points, results], axis="columns")
    return frame.copy()  # in few blocks, so that pandas does not warn of the next column added


def _axis(cells: list[Any], types: set[str]) -> list[Any]:
    """The values of an axis; JSON where they are of types that no column holds together.

    Args:
        cells: Values of points.
        types: Names of the types of all values of the axis, so that its column has one type in the
            results of all parts of a study.
    """
    if types == {"int", "float"}:
        return [float(cell) for cell in cells]
    if types & {"list", "dict"} or len(types) > 1:
        return [cell if isinstance(cell, str) else json.dumps(cell) for cell in cells]
    return cells


TEXTS = ("status", "reason", "limit", "decisions", "policy_name")
"""Columns of text; so are those whose names begin with one of these and ``_``."""


def write_parquet(frame: "pd.DataFrame", path: Path, store: Store | None = None) -> None:
    """Write a frame of results as Parquet.

    A column has the same type in all results of a study, also in a shard without any figure of it:
    the files of all shards can be read as one data set. So all figures are ``double``.

    Args:
        frame: The results, see :func:`frame_of`.
        path: The file.
        store: The store of the results, which the file is marked with as a copy
            (:mod:`carsim.explore.stored_copy`).
    """
    import pyarrow as pa
    from pyarrow.parquet import write_table

    fields = []
    for name, inferred in zip(frame.columns, pa.Schema.from_pandas(frame), strict=False):
        kind = inferred.type
        if name in result_columns():
            if any(name == text or name.startswith(f"{text}_") for text in TEXTS):
                kind = pa.string()
            elif name == "fits":
                kind = pa.bool_()
            elif pa.types.is_integer(kind) or pa.types.is_null(kind):
                kind = pa.float64()
        fields.append(pa.field(name, kind))
    texts = [field.name for field in fields if pa.types.is_string(field.type)]
    table = frame.astype({name: object for name in texts if frame[name].isna().all()})
    columns = pa.Table.from_pandas(table, pa.schema(fields), preserve_index=False)
    write_table(columns if store is None else marked(columns, frame, store), path)


def origin_note(frame: "pd.DataFrame") -> str:
    """Number of points whose decisions are assumed; empty if there are none."""
    assumed = []
    for origin in frame["decisions"].dropna():
        if SYNTHETIC in origin:
            assumed.append(SYNTHETIC)
        elif not origin.startswith(OF_A_DECODER):
            assumed.append(origin)
    if not assumed:
        return ""
    origins = set(assumed)
    label = origins.pop() if len(origins) == 1 else "assumed, as column decisions says"
    return f"In {len(assumed):,} of {count(len(frame), 'point')}, decisions are {label}."


def open_loop_points(frame: "pd.DataFrame") -> int:
    """Number of points whose threshold was applied to scores that another one had shaped."""
    return int(frame["decisions"].dropna().astype(str).str.contains(OPEN_LOOP).sum())


def export(
    frame: "pd.DataFrame",
    folder: str | Path,
    manifest: Mapping[str, Any] | None = None,
    store: Store | None = None,
) -> list[str]:
    """Write all results as CSV, and as Parquet where pyarrow is installed; each file as a whole.

    Args:
        frame: The results.
        folder: Where they are written.
        manifest: What they depend on, written beside them.
        store: The store of the results in this folder, which the next command need not parse.

    Returns:
        Names of the files.

    Raises:
        InputError: They cannot be written.
    """
    folder = Path(folder)
    # A kill leaves new files without digests, not with those of old ones.
    write_whole(folder / DIGESTS, lambda path: path.touch())
    files = ["points.csv"]
    if has_parquet():
        files.insert(0, PARQUET_FILE)
        write_whole(folder / PARQUET_FILE, lambda path: write_parquet(frame, path, store))
    write_whole(folder / "points.csv", csv_text(frame))
    if manifest is not None:
        files.append(MANIFEST)
        write_whole(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    names = (*files, CERTIFICATE, STORE_FILE, STUDY_FILE)
    digested = [name for name in names if (folder / name).exists()]
    write_whole(folder / DIGESTS, lambda path: write_digests(folder, digested, path))
    return files
