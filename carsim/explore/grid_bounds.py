"""Bounds of a whole grid: of its objectives, and of the metrics that its constraints limit.

A constraint such as ``frames_per_s >= 0.6`` is proven to be broken where the highest rate that a
design could have is lower. Constraints of this form, also several joined by ``and``, leave designs
out. Simplification: of other conditions, only those on figures of the board do
(:mod:`carsim.explore.bounds`). Bounds can be kept in a file, as an interrupted front needs them
again.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from carsim.base.files import admit, write_whole
from carsim.explore.bounds import bounds_of, is_of_board, unbounded
from carsim.explore.code import code_sha256
from carsim.explore.grid import Floats, GridStudy
from carsim.explore.pareto import directions
from carsim.explore.possible import Limit, limits_of
from carsim.explore.study import Study
from carsim.metrics import METRICS

BOUNDS_FILE = "bounds.npz"

Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class GridBounds:
    """Bounds of all points of a flattened grid of P points.

    Attributes:
        objectives: Least value of each objective, float[P, objectives]; the objective times -1
            where more is better; -inf where there is no bound.
        missing: By part of the board, or by constraint: designs that cannot fit it or meet it,
            bool[P].
    """

    objectives: Floats
    missing: Mapping[str, Booleans]

    def sha256(self) -> str:
        """Hash of all bounds, in hexadecimal."""
        digest = sha256(np.ascontiguousarray(self.objectives, "<f8").tobytes())
        for name in sorted(self.missing):
            digest.update(name.encode())
            digest.update(np.packbits(self.missing[name]).tobytes())
        return digest.hexdigest()

    def save(self, path: Path, key: str) -> None:
        """Keep the bounds in a file.

        Args:
            path: The file.
            key: Hash of what they depend on.

        Raises:
            InputError: The file cannot be written.
        """

        def write(temporary: Path) -> None:
            """Write key and bounds to a file; who lacks what is packed in bits."""
            with temporary.open("wb") as file:
                np.savez(
                    file,
                    key=np.array(key),
                    objectives=self.objectives,
                    names=np.array(json.dumps(list(self.missing))),
                    lacks=np.array([np.packbits(points) for points in self.missing.values()]),
                )

        write_whole(path, write)

    @classmethod
    def load(cls, path: Path, key: str) -> "GridBounds | None":
        """Bounds that :meth:`save` has kept; None if there are none, or others, or damaged ones."""
        with suppress(OSError, EOFError, ValueError, KeyError, BadZipFile):
            with np.load(admit(path), allow_pickle=False) as stored:
                if str(stored["key"]) != key:
                    return None
                objectives = stored["objectives"]
                names = json.loads(str(stored["names"]))
                packed = stored["lacks"]
            n_points = len(objectives)
            missing = {
                name: np.unpackbits(bits, count=n_points).astype(np.bool_)
                for name, bits in zip(names, packed, strict=True)
            }
            return cls(objectives, missing)
        return None


def key_of(study: Study) -> str:
    """Hash of all on which the bounds of a study depend: inputs, objectives, constraints, code."""
    constraints = [constraint.text for constraint in study.constraints]
    facts = [study.fingerprint, study.objectives, constraints, code_sha256(), version("carsim")]
    return sha256(json.dumps(facts).encode()).hexdigest()


def grid_bounds(grid: GridStudy, kept: Path | None = None) -> GridBounds:
    """Bounds of a grid, computed or taken from a file.

    Args:
        grid: The grid.
        kept: File in which bounds are kept; nothing is kept without one.

    Raises:
        InputError: Every design is refused, or the file cannot be written.
        KeyboardInterrupt: It was stopped.
    """
    key = key_of(grid.study)
    shape = (int(np.prod(grid.shape)), len(grid.study.objectives))
    if kept is not None:
        stored = GridBounds.load(kept, key)
        if stored is not None and stored.objectives.shape == shape:
            return stored
    computed = _computed(grid)
    if kept is not None:
        computed.save(kept, key)
    return computed


def unbounded_limits(study: Study) -> list[str]:
    """Metrics of constraints of which there is no bound: such constraints leave out no design.

    A constraint on what the fit of a design gives, and on nothing else, needs no bound.
    """
    axes = {axis.name for axis in study.axes}
    names: set[str] = set()
    for constraint in study.constraints:
        if not is_of_board(constraint.names):
            names.update(constraint.names)
    return sorted(name for name in names - axes if name in METRICS and not _has_bound(name))


# -------------------------------------------------------------------- private


def _has_bound(name: str) -> bool:
    return METRICS[name].better is not None and not unbounded(directions([name]))


def _limits(study: Study) -> Iterator[tuple[str, Limit]]:
    """Constraints and their limits of metrics that have a bound on the side of the limit."""
    signs = directions(study.objectives)
    for constraint in study.constraints:
        for limit in limits_of(constraint):
            if limit.name not in METRICS or not _has_bound(limit.name):
                continue
            sign = directions([limit.name])[limit.name]
            is_usual = signs.get(limit.name, sign) == sign  # not an objective the other way round
            if is_usual and limit.is_most == (sign > 0):
                yield constraint.text, limit


def _computed(grid: GridStudy) -> GridBounds:
    """Bounds of the objectives, and of the limited metrics as if they were further objectives."""
    study = grid.study
    limits = list(_limits(study))
    further = {limit.name for _, limit in limits} - study.objectives.keys()
    objectives = dict(study.objectives)
    for name in sorted(further):
        objectives[name] = "min" if directions([name])[name] > 0 else "max"
    wide = copy(grid)
    wide.study = replace(study, file=study.file.model_copy(update={"objectives": objectives}))
    columns, missing = bounds_of(wide)
    grid.processor_s = wide.processor_s
    column_of = {name: column for column, name in enumerate(objectives)}
    for text, limit in limits:
        least = columns[:, column_of[limit.name]]
        # Rates are bounded from above: their column is -1 times the highest rate.
        is_broken = least > (limit.number if limit.is_most else -limit.number)
        if is_broken.any():
            missing[text] = missing.get(text, False) | is_broken
    return GridBounds(np.ascontiguousarray(columns[:, : len(study.objectives)]), missing)
