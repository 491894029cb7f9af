"""The results of a store as a frame and as files."""

import gc
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carsim.base.digests import DIGESTS, write_digests
from carsim.base.environment import has_parquet
from carsim.base.files import write_whole
from carsim.base.text import count, shortened
from carsim.decisions.trace.meta import SYNTHETIC
from carsim.explore.code import MANIFEST
from carsim.explore.columns import OUTCOME
from carsim.explore.store import Store
from carsim.metrics.columns import csv_text

if TYPE_CHECKING:
    import pandas as pd


OF_A_DECODER = ("captured in ", "scores of ", "dense: ")
"""Beginnings of labels of decisions that a decoder made, and of dense decoding."""

MOST_LABELS = 3
"""Labels of other decisions that a note names."""

BLOCK = 1 << 14
"""Results that are made a frame at a time, so that memory holds few of them as objects."""


def frame_of(store: Store) -> "pd.DataFrame":
    """All results of a store.

    Columns: ``point`` (place in the study), one per axis by its name, ``status`` (``ok``,
    ``misfit``, ``invalid``, ``failed``), ``reason`` and ``seconds`` that the evaluation took, and
    the metrics of :data:`carsim.metrics.METRICS`, those from outside included. Missing numbers are
    NaN; an axis whose values are lists or mappings, or text beside numbers, holds them as JSON.
    """
    import pandas as pd

    axes = json.loads(store.meta()["axes"])
    ordinals, points = [], []
    blocks = []
    columns, stored = store.columns, store.cells()
    with _no_garbage():
        while rows := list(islice(stored, BLOCK)):
            ordinals += [ordinal for ordinal, _, _ in rows]
            points += [values for _, values, _ in rows]
            blocks.append(_block([cells for _, _, cells in rows], columns))
    points_and_axes: dict[str, list[Any]] = {"point": ordinals}
    for axis in axes:
        cells = [values[axis] for values in points]
        kinds = {type(cell) for cell in cells}
        if kinds & {list, dict} or (len(kinds) > 1 and not kinds <= {int, float}):
            cells = [cell if isinstance(cell, str) else json.dumps(cell) for cell in cells]
        points_and_axes[axis] = cells
    results = pd.concat(blocks or [_block([], columns)], ignore_index=True)
    return pd.concat([pd.DataFrame(points_and_axes), results], axis="columns")


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Do not look for garbage among millions of cells, which takes a third of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _block(results: Sequence[Sequence[Any]], columns: Sequence[str]) -> "pd.DataFrame":
    """Some results; what none of them has is a missing number."""
    import pandas as pd

    cells = zip(*results, strict=True) if results else ((),) * len(columns)
    frame = pd.DataFrame(dict(zip(columns, map(list, cells), strict=True)))
    empty = [name for name in columns[len(OUTCOME) :] if frame[name].isna().all()]
    return frame.astype(dict.fromkeys(empty, "float64"))


def origin_note(frame: "pd.DataFrame") -> str:
    """How many points consume decisions that no decoder made, by label; empty if none does."""
    labels = Counter(
        SYNTHETIC if SYNTHETIC in label else label for label in frame["decisions"].dropna()
    )
    made_up = [each for each in labels.most_common() if not each[0].startswith(OF_A_DECODER)]
    told = [
        f"Decisions are {shortened(label)} in {n:,} of {count(len(frame), 'point')}."
        for label, n in made_up[:MOST_LABELS]
    ]
    if more := len(made_up) - len(told):
        told.append(f"Column decisions has {count(more, 'further label')}.")
    return " ".join(told)


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
    text = csv_text(frame)
    write_whole(folder / "points.csv", lambda path: path.write_text(text, encoding="utf-8"))
    if manifest is not None:
        files.append(MANIFEST)
        facts = json.dumps(manifest, indent=2) + "\n"
        write_whole(folder / MANIFEST, lambda path: path.write_text(facts, encoding="utf-8"))
    write_whole(folder / DIGESTS, lambda path: write_digests(folder, files, path))
    return files
