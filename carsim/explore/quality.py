"""Loss of quality: measured at some thresholds, interpolated between them, never beyond.

A table has a row per measurement: ``frames``, ``scope`` (decision scope), ``window`` (of streaming
attention; 0 is dense), ``sampling`` and ``tau``, and means over clips of what was measured. At a
point of a study, rows of the same frames, scope, window and sampling are taken, and each measure is
interpolated linearly in tau. Outside of the measured range quality is missing, with the reason.

The measure to go by is ``quality_loss``, the teacher-forced loss over dense decoding: it does not
drift.

Simplifications: linear in between; quality depends on the policy alone, not on the machine.
"""

import csv
import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from carsim.base.errors import InputError
from carsim.base.files import read_text
from carsim.base.yaml_file import shown

KEYS = ("frames", "scope", "window", "sampling")
MEASURES = {
    "replay_eligible": "quality_replay_eligible",
    "teacher_forced_nats": "quality_nats",
    "teacher_forced_dense_nats": "quality_dense_nats",
}
"""Column of the table -> column of a result; ``quality_loss`` is the second less the third."""

WITHOUT_TAU = ("", "none", "inf")
"""Thresholds of rows that never replay, which are no points of a curve."""

_MAX_BYTES = 10_000_000

Key = tuple[int, str, int, str]
Measured = dict[str, dict[float, float]]


@dataclass(frozen=True)
class Quality:
    """A table of measured quality.

    Attributes:
        name: Name of the file.
        sha256: Of the file.
        curves: (frames, scope, window, sampling) -> measure -> tau -> value.
    """

    name: str
    sha256: str
    curves: dict[Key, Measured]

    def at(
        self, tau: float, *, frames: int, scope: str, window: int, sampling: str
    ) -> tuple[dict[str, float], str]:
        """Quality of a policy.

        Args:
            tau: Replay threshold.
            frames: Frames of the video.
            scope: Decision scope.
            window: Window of streaming attention; 0 is dense.
            sampling: Method of drawing tokens.

        Returns:
            Measures by column of a result, NaN where there are none; and why, if any is missing.
        """
        columns = dict.fromkeys((*MEASURES.values(), "quality_loss"), math.nan)
        curves = self.curves.get((frames, scope, window, sampling))
        if curves is None:
            wanted = f"{frames} frames, scope {scope}, window {window}, {sampling} sampling"
            return columns, f"nothing was measured for {wanted}"
        taus = [tau for curve in curves.values() for tau in curve]
        if not taus or not min(taus) <= tau <= max(taus):
            measured = (
                f"measured are {min(taus):g} to {max(taus):g}" if taus else "none is measured"
            )
            return columns, f"tau {tau:g} is outside of what was measured; {measured}"
        for measure, curve in curves.items():
            if curve:
                x, y = zip(*sorted(curve.items()), strict=True)
                columns[MEASURES[measure]] = float(np.interp(tau, x, y, math.nan, math.nan))
        columns["quality_loss"] = columns["quality_nats"] - columns["quality_dense_nats"]
        missing = [name for name, value in columns.items() if math.isnan(value)]
        return columns, f"not measured there: {', '.join(missing)}" if missing else ""


def load_quality(path: str | Path) -> Quality:
    """Read a table of measured quality.

    Raises:
        InputError: Unreadable, columns missing, values that are no numbers, or two rows for one
            policy.
    """
    path, place = Path(path), str(path)
    text = read_text(path, _MAX_BYTES, "name a CSV file").removeprefix("\ufeff")
    reader = csv.DictReader(text.splitlines())
    columns = reader.fieldnames or ()
    missing = [name for name in (*KEYS, "tau") if name not in columns]
    if missing:
        needed = ", ".join((*KEYS, "tau"))
        raise InputError(place, f"has no column {missing[0]!r}", f"it needs {needed}")
    measures = [name for name in MEASURES if name in columns]
    if not measures:
        raise InputError(place, "measures nothing", f"add one of {', '.join(MEASURES)}")
    curves: dict[Key, Measured] = {}
    for line, row in enumerate(reader, 2):
        where = f"{place}:{line}"
        if (row["tau"] or "").strip().lower() in WITHOUT_TAU:
            continue
        frames, window = (int(_number(row, name, where)) for name in ("frames", "window"))
        key = (frames, row["scope"] or "", window, row["sampling"] or "")
        tau = _number(row, "tau", where)
        curve = curves.setdefault(key, {name: {} for name in measures})
        for name in measures:
            if row[name]:
                if tau in curve[name]:
                    problem = f"tau {tau:g} is measured twice for {shown(list(key))}"
                    raise InputError(where, problem, "keep one row")
                curve[name][tau] = _number(row, name, where)
    return Quality(path.name, hashlib.sha256(text.encode()).hexdigest(), curves)


def _number(row: dict[str, str], name: str, where: str) -> float:
    try:
        value = float(row[name] or "")
    except (ValueError, TypeError):
        value = math.nan
    if not math.isfinite(value):
        raise InputError(where, f"{name} is {shown(row[name])}", "give a finite number")
    return value
