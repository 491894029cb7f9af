"""A grid study as arrays: a dimension per axis, and tables over those that a figure depends on."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import chain
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.paths import is_within
from carsim.base.yaml_file import shown
from carsim.design import Design
from carsim.design.load import PRESET_PATHS, override
from carsim.explore.axis import PSEUDO_PATHS, Axis
from carsim.explore.evaluate import Asked, Evaluator, Row
from carsim.explore.parcel import made_of
from carsim.explore.points import ALIKE_PATHS, Point, changes_of, check_size, field_of, make_point
from carsim.explore.study import Study
from carsim.explore.workers import Processes

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

Make = Callable[[Any, Evaluator], Any]
"""Makes the cell of a design, or a list of those of several; a function of a module, or partly
applied, where processes share the work."""

Step = Callable[[int, int], None]

KEPT_DESIGNS = 64
"""Designs that are kept, as the next one seldom differs in more than the last axes."""

TRIED = 64
"""Values of an axis, and combinations of others, that are tried before bounds at most."""

CHUNK_CELLS = 64
"""Cells of a table that a worker makes at a time."""

REFUSALS = (InputError, ValueError, LookupError, ArithmeticError)
"""Raised by a design whose fields do not go together; its exact evaluation says why."""


class Cell(NamedTuple):
    """One design, or designs that are alike, in a table.

    Attributes:
        figures: Numbers, or arrays of them, by name.
        missing: Parts of which the design has too little, and constraints that it breaks.
    """

    figures: Mapping[str, Any]
    missing: tuple[str, ...] = ()


class Table(NamedTuple):
    """Cells side by side: a dimension for each axis of the grid.

    The dimension of an axis on which no cell depends has the length 1.

    Attributes:
        figures: By name, float[*axes, ...]; NaN where a design is refused, zeros behind arrays that
            are shorter than others.
        missing: By what is missing in some cell, bool[*axes]; False where a design is refused.
    """

    figures: dict[str, Floats]
    missing: dict[str, Booleans]


class Chunk(NamedTuple):
    """Some cells of a table; see :meth:`GridStudy.table`.

    Attributes:
        without: Paths of fields on which the cells do not depend.
        make: Makes cells.
        cells: Numbers of the cells in the flattened table.
        together: ``make`` takes several designs at once.
    """

    without: tuple[str, ...]
    make: Make
    cells: Sequence[int]
    together: bool


class GridStudy:
    """The points of a study whose sampling is a grid.

    Args:
        study: The study.
        workers: They share the work of tables; this process does it if None.
        step: Called with the designs that tables have needed so far and will need, as far as they
            are known; it may raise KeyboardInterrupt.

    Attributes:
        study: The study.
        axes: Its axes; one dimension of each array has the values of each.
        shape: Values of each axis.
        processor_s: Seconds that other processes have worked at tables.

    Raises:
        InputError: It draws its points, or has too many.
    """

    def __init__(
        self, study: Study, workers: Processes | None = None, step: Step = lambda done, total: None
    ) -> None:
        if study.file.sampling.method != "grid":
            cure = "leave it out: a certified front is that of a whole grid"
            raise InputError(f"study {study.name}: $.sampling", "draws points", cure)
        check_size(study)
        self.study = study
        self.axes = study.axes
        self._workers = workers
        self._step = step
        self._designs_done = 0
        self._designs_in_all = 0
        self.processor_s = 0.0
        self.shape = tuple(len(axis.values) for axis in study.axes)
        self._evaluator = Evaluator(study)
        self._base = self._evaluator.designs.fixed(next(iter(study.designs)))
        self._fields = None if self._base is None else _checked_fields(self._base, self.axes)
        self._cached_design = lru_cache(KEPT_DESIGNS)(self._design)

    def passing(self) -> Booleans:
        """Points that pass the filters, bool[shape]."""
        passes = np.ones(self.shape, np.bool_)
        for condition in self.study.filters:
            # Axes that have no say in a condition stay at their first value.
            values_of_axes = self._values(
                [not _decides(axis, condition.names) for axis in self.axes]
            )
            shape = _shape(values_of_axes)
            truths = []
            for index in range(math.prod(shape)):
                values = self._combination(values_of_axes, index)
                point = Point(0, "", values, changes_of(self.study, values))
                truths.append(condition.holds(partial(field_of, self.study, point)))
            passes &= np.array(truths, np.bool_).reshape(shape)
        return passes

    def structures(self, without: tuple[str, ...] = ()) -> NDArray[np.intp]:
        """Equal numbers for points of the flattened grid that can be simulated together.

        Args:
            without: Of a table, as of :meth:`table`.
        """
        shape = self._shape_of_table(without)
        numbers = np.zeros(shape, np.intp)
        for index_of_value, axis in zip(np.indices(shape, sparse=True), self.axes, strict=True):
            if not _is_below(axis, ALIKE_PATHS):
                numbers = numbers * len(axis.values) + index_of_value
        return numbers.ravel()

    def point(self, index: int, ordinal: int) -> Point:
        """The point at a place of the flattened grid.

        Args:
            index: Its place among all combinations.
            ordinal: Its place among those that pass the filters.
        """
        values = self._combination([axis.values for axis in self.axes], index)
        return make_point(self.study, ordinal, values)

    def evaluated(self, point: Point) -> Row:
        """The result of a point."""
        (row,) = self._evaluator.evaluate([point])
        return row

    def refusals(self) -> Iterator[str]:
        """Values that go with none of the values of other axes that were tried, and the reason.

        Tried are the first values of all other axes, then the second, and so on; of many values
        the first :data:`TRIED`.
        """
        for axis in self.axes:
            other_axes = [candidate for candidate in self.axes if candidate is not axis]
            for value in axis.values[:TRIED]:
                for n in _steps_of_diagonal(other_axes)[:TRIED]:
                    error = self._refusal(_diagonal(other_axes, n) | {axis.name: value})
                    if error is None:
                        break
                else:
                    why = str(error).removeprefix("`overrides` ")
                    yield f"{axis.name}: no value tried of others goes with {shown(value)}: {why}"

    def expect(self, *tables: tuple[str, ...], cost: int = 1) -> None:
        """Count the designs of tables to come; see :meth:`table`."""
        for without in tables:
            self._designs_in_all += cost * math.prod(self._shape_of_table(without))

    def table(
        self, without: tuple[str, ...], make: Make, cost: int = 1, *, together: bool = False
    ) -> Table:
        """Figures over the axes on which they depend.

        Args:
            without: Paths of fields on which they do not depend; ``a.b.`` stands for all fields
                below. Axes of nothing else have the length 1.
            make: Makes the :class:`Cell` of a design.
            cost: Designs of other tables that take as long, for the word on how far it is.
            together: Cells are made of several designs at once, most of which can be simulated
                together.

        Raises:
            InputError: Every design is refused.
            KeyboardInterrupt: It was stopped.
        """
        shape = self._shape_of_table(without)
        order = np.arange(math.prod(shape))
        if together:  # designs that can be simulated together come side by side
            order = np.argsort(self.structures(without), kind="stable")
        chunks = [
            Chunk(without, make, order[start : start + CHUNK_CELLS].tolist(), together)
            for start in range(0, len(order), CHUNK_CELLS)
        ]
        is_alone = self._workers is None or len(chunks) == 1
        chunks_of_cells = map(self.cells, chunks) if is_alone else self._by_workers(chunks)
        cells: list[Cell | None] = []
        for cell in chain.from_iterable(chunks_of_cells):
            cells.append(cell)
            self._designs_done += cost
            self._step(self._designs_done, self._designs_in_all)
        in_grid_order = [cells[position] for position in np.argsort(order)]
        if all(cell is None for cell in cells):
            problem = "every design that was tried for bounds is refused"
            cure = "sweep the whole grid, which says why"
            raise InputError(f"study {self.study.name}: $.axes", problem, cure)
        return _joined(in_grid_order, shape)

    def cells(self, chunk: Chunk) -> Iterator[Cell | None]:
        """Cells of a table; None where a design is refused."""
        is_fixed = self._is_fixed(chunk.without)
        fixed_axes = [axis for axis, fixed in zip(self.axes, is_fixed, strict=True) if fixed]
        values_of_axes = self._values(is_fixed)
        combinations = [self._combination(values_of_axes, index) for index in chunk.cells]
        if chunk.together:
            with suppress(*REFUSALS):
                points = [self._asked(values | _diagonal(fixed_axes, 0)) for values in combinations]
                return iter(chunk.make(points, self._evaluator))
        return (self._first_cell(values, fixed_axes, chunk) for values in combinations)

    # ---------------------------------------------------------------- private

    def _by_workers(self, chunks: Sequence[Chunk]) -> Iterator[Iterable[Cell | None]]:
        """Cells of chunks in their order, made by other processes."""
        assert self._workers is not None
        for cells, seconds in self._workers.each(_cells_of, chunks):
            self.processor_s += seconds
            yield cells

    def _is_fixed(self, without: tuple[str, ...]) -> list[bool]:
        """For each axis: a table without some paths has only the first value of it."""
        return [_is_below(axis, without) for axis in self.axes]

    def _shape_of_table(self, without: tuple[str, ...]) -> tuple[int, ...]:
        return _shape(self._values(self._is_fixed(without)))

    def _values(self, is_fixed: Sequence[bool]) -> list[Sequence[Any]]:
        """Values of each axis; of a fixed axis, the first one."""
        return [
            axis.values[:1] if fixed else axis.values
            for axis, fixed in zip(self.axes, is_fixed, strict=True)
        ]

    def _combination(self, values_of_axes: Sequence[Sequence[Any]], index: int) -> dict[str, Any]:
        """One of all combinations of values, by names of axes."""
        coordinates = np.unravel_index(index, _shape(values_of_axes))
        return {
            axis.name: values[int(coordinate)]
            for axis, values, coordinate in zip(self.axes, values_of_axes, coordinates, strict=True)
        }

    def _first_cell(
        self, values: dict[str, Any], fixed_axes: Sequence[Axis], chunk: Chunk
    ) -> Cell | None:
        """The cell of the first values of the fixed axes with which it is not refused."""
        for n in _steps_of_diagonal(fixed_axes):
            cell = self._cell(values | _diagonal(fixed_axes, n), chunk)
            if cell is not None:
                return cell
        return None

    def _refusal(self, values: Mapping[str, Any]) -> InputError | None:
        """The reason why a point of some values is refused; None if it is not."""
        try:
            self._evaluator.asked(changes_of(self.study, values))
        except InputError as error:
            return error
        return None

    def _design(self, keys: tuple[tuple[str, str], ...]) -> Design:
        """The design with some fields; the one without the last of them is usually cached."""
        if not keys:
            assert self._base is not None
            return self._base
        assert self._fields is not None
        path, _ = keys[-1]
        without_last = self._cached_design(keys[:-1])
        return _with(without_last, path.split("."), self._fields[keys[-1]])

    def _asked(self, values: Mapping[str, Any]) -> Asked:
        """The point of some values of the axes; designs of earlier points are reused."""
        changes = changes_of(self.study, values)
        if self._fields is None:
            return self._evaluator.asked(changes)
        keys = ((path, repr(value)) for path, value in changes.items())
        design = self._cached_design(tuple(key for key in keys if key in self._fields))
        return self._evaluator.asked(changes, design)

    def _cell(self, values: Mapping[str, Any], chunk: Chunk) -> Cell | None:
        """The cell of some values of the axes; None if the design is refused."""
        cell: Cell
        try:
            point = self._asked(values)
            if chunk.together:
                (cell,) = chunk.make([point], self._evaluator)
            else:
                cell = chunk.make(point, self._evaluator)
        except REFUSALS:
            return None
        return cell


def _joined(cells: Sequence[Cell | None], shape: tuple[int, ...]) -> Table:
    """Cells of a flattened table as arrays of its shape."""
    cell_of = {index: cell for index, cell in enumerate(cells) if cell is not None}
    names = dict.fromkeys(name for cell in cell_of.values() for name in cell.figures)
    figures: dict[str, Floats] = {}
    for name in names:
        arrays = {
            index: np.asarray(cell.figures.get(name, 0.0), float) for index, cell in cell_of.items()
        }
        shapes = zip(*(array.shape for array in arrays.values()), strict=True)
        cell_shape = tuple(max(lengths) for lengths in shapes)
        joined = np.full((len(cells), *cell_shape), np.nan)
        for index, array in arrays.items():
            joined[index] = 0.0
            joined[index, ...][tuple(slice(length) for length in array.shape)] = array
        figures[name] = joined.reshape((*shape, *cell_shape))
    missing: dict[str, Booleans] = {}
    for index, cell in cell_of.items():
        for lack in cell.missing:
            missing.setdefault(lack, np.zeros(len(cells), np.bool_))[index] = True
    return Table(figures, {lack: is_missing.reshape(shape) for lack, is_missing in missing.items()})


def _cells_of(key: str, chunk: Chunk) -> tuple[list[Cell | None], float]:
    """Some cells of a table of a study, made in a worker, and the seconds that they took."""
    grid = made_of(key, GridStudy)
    start = process_time()
    cells = list(grid.cells(chunk))
    return cells, process_time() - start


def _steps_of_diagonal(axes: Sequence[Axis]) -> range:
    """Numbers of the steps of :func:`_diagonal`: the longest axis has as many values."""
    return range(max((len(axis.values) for axis in axes), default=1))


def _diagonal(axes: Sequence[Axis], n: int) -> dict[str, Any]:
    """The n-th value of each axis, the last value of axes that have fewer."""
    return {axis.name: axis.values[min(n, len(axis.values) - 1)] for axis in axes}


def _shape(values_of_axes: Sequence[Sequence[Any]]) -> tuple[int, ...]:
    return tuple(map(len, values_of_axes))


def _checked_fields(base: Design, axes: Sequence[Axis]) -> dict[tuple[str, str], Any] | None:
    """Fields as a design holds them, by path and written value; None if they must be seen together.

    To validate a whole design takes 0.7 ms, to put such fields into one 0.02.
    """
    fields: dict[tuple[str, str], Any] = {}
    for axis in axes:
        for axis_value in axis.values:
            for path, value in axis.changes(axis_value).items():
                if path == "design" or path in PRESET_PATHS or path.endswith(".kind"):
                    return None  # a kind is a class, which has other fields
                if path in PSEUDO_PATHS:
                    continue
                try:
                    fields[path, repr(value)] = _field_at(override(base, {path: value}), path)
                except (InputError, LookupError, AttributeError):
                    return None
    return fields


def _field_at(design: Design, path: str) -> Any:
    """The field of a design at a path."""
    field: Any = design
    for name in path.split("."):
        field = field[name] if isinstance(field, Mapping) else getattr(field, name)
    return field


def _with(holder: Any, path: list[str], value: Any) -> Any:
    """A section with a field replaced, not validated again; without what it has computed."""
    if not path:
        return value
    first, *rest = path
    if isinstance(holder, Mapping):
        return {**holder, first: _with(holder[first], rest, value)}
    fields = {name: getattr(holder, name) for name in type(holder).model_fields}
    fields[first] = _with(fields[first], rest, value)
    return type(holder).model_construct(holder.model_fields_set, **fields)


def _is_below(axis: Axis, paths: tuple[str, ...]) -> bool:
    """All fields of an axis are among some paths or below them; ``a.b.`` stands for those below."""

    def is_among(field: str, path: str) -> bool:
        return field.startswith(path) if path.endswith(".") else is_within(field, path)

    return all(any(is_among(field, path) for path in paths) for field in axis.paths)


def _decides(axis: Axis, names: Collection[str]) -> bool:
    """An axis has a say in the fields of some names."""
    return axis.name in names or any(
        path == "design" or is_within(name, path) for path in axis.paths for name in names
    )
