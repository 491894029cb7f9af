"""The results of a store as a frame and as files."""

import json
from collections.abc import Mapping
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
from carsim.explore.store import STORE_FILE, Store
from carsim.explore.study import result_columns
from carsim.metrics import METRICS
from carsim.metrics.columns import csv_text

if TYPE_CHECKING:
    import pandas as pd


OF_A_DECODER = ("captured in ", "scores of ", "dense: ")
"""Beginnings of labels of decisions that a decoder made, and of dense decoding."""

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
    import pandas as pd

    columns, axes, stored = store.facts["columns"], store.facts["axes"], store.cells()
    ordinals: list[int] = []
    points: list[dict[str, Any]] = []
    blocks: list[pd.DataFrame] = []
    while rows := list(islice(stored, BLOCK)):
        ordinals += [ordinal for ordinal, _, _ in rows]
        points += [values for _, values, _ in rows]
        blocks.append(pd.DataFrame([cells for _, _, cells in rows], columns=columns))
    named = {axis: _axis([values[axis] for values in points]) for axis in axes}
    with catch_warnings(action="ignore", category=FutureWarning):
        # Of pandas 2, on blocks without a figure; its coming rule gives the same frame.
        results = pd.concat(blocks or [pd.DataFrame(columns=columns)], ignore_index=True)
    results = results.infer_objects()  # a block without any figure has no type of its own
    results = results.reindex(columns=[*dict.fromkeys((*result_columns(), *columns))])
    empty = [name for name in METRICS if results[name].isna().all()]
    results = results.astype(dict.fromkeys(empty, "float64"))
    return pd.concat([pd.DataFrame({"point": ordinals, **named}), results], axis="columns")


def _axis(cells: list[Any]) -> list[Any]:
    """The values of an axis; JSON where they are of kinds that no column holds together."""
    kinds = {type(cell) for cell in cells}
    if kinds & {list, dict} or (len(kinds) > 1 and not kinds <= {int, float}):
        return [cell if isinstance(cell, str) else json.dumps(cell) for cell in cells]
    return cells


def origin_note(frame: "pd.DataFrame") -> str:
    """Number of points whose decisions no decoder made; empty if there are none."""
    made = frame["decisions"].dropna()
    made_up = [each for each in made if SYNTHETIC in each or not each.startswith(OF_A_DECODER)]
    if not made_up:
        return ""
    labels = {SYNTHETIC if SYNTHETIC in each else each for each in made_up}
    named = labels.pop() if len(labels) == 1 else "made up, as column decisions says"
    return f"In {len(made_up):,} of {count(len(frame), 'point')}, decisions are {named}."


def export(
    frame: "pd.DataFrame", folder: str | Path, manifest: Mapping[str, Any] | None = None
) -> list[str]:
    """Write all results as CSV, and as Parquet where pyarrow is installed; each file as a whole.

    Args:
        frame: The results.
        folder: Where they are written.
        manifest: What they depend on, written beside them.

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
        files.insert(0, "points.parquet")
        write_whole(folder / "points.parquet", lambda path: frame.to_parquet(path, index=False))
    write_whole(folder / "points.csv", csv_text(frame))
    if manifest is not None:
        files.append(MANIFEST)
        write_whole(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    digested = [name for name in (*files, STORE_FILE) if (folder / name).exists()]
    write_whole(folder / DIGESTS, lambda path: write_digests(folder, digested, path))
    return files
