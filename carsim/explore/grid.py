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
from carsim.base.yaml_file import shown
from carsim.design import Design
from carsim.design.load import PRESET_PATHS, override
from carsim.explore.axis import PSEUDO_PATHS, Axis
from carsim.explore.evaluate import Asked, Evaluator
from carsim.explore.parcel import made_of
from carsim.explore.points import ALIKE_PATHS, Point, changes_of, check_size, field_of, make_point
from carsim.explore.study import Study
from carsim.explore.workers import Processes

Floats = NDArray[np.float64]
Cell = Mapping[str, Any]
"""Figures of a part of the grid by name: numbers, or arrays of them."""

Make = Callable[[Any, Evaluator], Any]
"""Makes the cell of a design, or a list of those of several; a function of a module, or partly
applied, where processes share the work."""

Step = Callable[[int, int], None]

KEPT_DESIGNS = 64
"""Designs that are kept, as the next one seldom differs in more than the last axes."""

TRIED = 64
"""Values of an axis, and combinations of others, that are tried before bounds at most."""

PART = 64
"""Cells of a table that a worker makes at a time."""

REFUSALS = (InputError, ValueError, LookupError, ArithmeticError)
"""Raised by a design whose fields do not go together; its exact evaluation says why."""


class Block(NamedTuple):
    """Some cells of a table; see :meth:`GridStudy.table`."""

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
            place, problem = f"study {study.name}: $.sampling", "draws points"
            cure = "leave it out: a certified front is that of a whole grid"
            raise InputError(place, problem, cure)
        check_size(study)
        self.study, self.axes = study, study.axes
        self._workers, self._step = workers, step
        self._done = self._total = 0
        self.processor_s = 0.0
        self.shape = tuple(len(axis.values) for axis in study.axes)
        self._evaluator = Evaluator(study)
        self._base = self._evaluator.designs.fixed(next(iter(study.designs)))
        self._fields = None if self._base is None else _checked_fields(self._base, self.axes)
        self._made = lru_cache(KEPT_DESIGNS)(self._make)

    def passing(self) -> NDArray[np.bool_]:
        """Points that pass the filters, bool[shape]."""
        found = np.ones(self.shape, np.bool_)
        for condition in self.study.filters:
            axes = self._values([not _decides(axis, condition.names) for axis in self.axes])
            every = (self._combination(axes, n) for n in range(math.prod(_shape(axes))))
            points = (Point(0, "", values, changes_of(self.study, values)) for values in every)
            truths = [condition.holds(partial(field_of, self.study, point)) for point in points]
            found &= np.array(truths, np.bool_).reshape(_shape(axes))
        return found

    def structures(self, without: tuple[str, ...] = ()) -> NDArray[np.intp]:
        """Equal numbers for points of the flattened grid that can be simulated together.

        Args:
            without: Of a table, as of :meth:`table`.
        """
        shape = _shape(self._values(self._held(without)))
        numbers = np.zeros(shape, np.intp)
        for places, axis in zip(np.indices(shape, sparse=True), self.axes, strict=True):
            if not _is_below(axis, ALIKE_PATHS):
                numbers = numbers * len(axis.values) + places
        return numbers.ravel()

    def point(self, index: int, ordinal: int) -> Point:
        """The point at a place of the flattened grid.

        Args:
            index: Its place among all combinations.
            ordinal: Its place among those that pass the filters.
        """
        values = self._combination([axis.values for axis in self.axes], index)
        return make_point(self.study, ordinal, values)

    def refusals(self) -> Iterator[str]:
        """Values that go with none of the values of other axes that were tried, and the reason.

        Tried are the first values of all other axes, then the second, and so on; of many values
        the first :data:`TRIED`.
        """
        for axis in self.axes:
            others = [each for each in self.axes if each is not axis]
            for value in axis.values[:TRIED]:
                for n in _places(others)[:TRIED]:
                    error = self._refusal(_diagonal(others, n) | {axis.name: value})
                    if error is None:
                        break
                else:
                    why = str(error).removeprefix("`overrides` ")
                    yield f"{axis.name}: no value tried of others goes with {shown(value)}: {why}"

    def expect(self, *tables: tuple[str, ...], cost: int = 1) -> None:
        """Count the designs of tables to come; see :meth:`table`."""
        sizes = (math.prod(_shape(self._values(self._held(each)))) for each in tables)
        self._total += cost * sum(sizes)

    def table(
        self, without: tuple[str, ...], make: Make, cost: int = 1, *, together: bool = False
    ) -> dict[str, Floats]:
        """Figures over the axes on which they depend.

        Args:
            without: Paths of fields on which they do not depend; ``a.b.`` stands for all fields
                below. Axes of nothing else have the length 1.
            make: Figures of a design.
            cost: Designs of other tables that take as long, for the word on how far it is.
            together: They are made of several designs at once, most of which can be simulated
                together.

        Returns:
            Arrays float[*shape or 1, ...]; NaN where a design is refused, zeros behind arrays that
            are shorter than others.

        Raises:
            InputError: Every design is refused.
            KeyboardInterrupt: It was stopped.
        """
        shape = _shape(self._values(self._held(without)))
        order = np.argsort(self.structures(without) * together, kind="stable")
        starts = range(0, len(order), PART)
        parts = [Block(without, make, order[n : n + PART].tolist(), together) for n in starts]
        is_alone = self._workers is None or len(parts) == 1
        made = map(self.cells, parts) if is_alone else self._elsewhere(parts)
        cells = []
        for cell in chain.from_iterable(made):
            cells.append(cell)
            self._done += cost
            self._step(self._done, self._total)
        cells = [cells[place] for place in np.argsort(order)]
        if not any(cells):
            problem = "every design that was tried for bounds is refused"
            cure = "sweep the whole grid, which says why"
            raise InputError(f"study {self.study.name}: $.axes", problem, cure)
        names = dict.fromkeys(name for cell in cells for name in cell or ())
        found = {}
        for name in names:
            known = {n: cell.get(name, 0.0) for n, cell in enumerate(cells) if cell is not None}
            arrays = {place: np.asarray(figure, float) for place, figure in known.items()}
            most = tuple(map(max, zip(*(a.shape for a in arrays.values()), strict=True)))
            whole = np.full((len(cells), *most), np.nan)
            for place, array in arrays.items():
                whole[place] = 0.0
                whole[place, ...][tuple(map(slice, array.shape))] = array
            found[name] = whole.reshape(*shape, *most)
        return found

    def cells(self, part: Block) -> Iterator[Cell | None]:
        """Cells of a table; None where a design is refused."""
        held = self._held(part.without)
        others = [axis for axis, is_held in zip(self.axes, held, strict=True) if is_held]
        every = [self._combination(self._values(held), index) for index in part.cells]
        if part.together:
            with suppress(*REFUSALS):
                asked = [self._asked(values | _diagonal(others, 0)) for values in every]
                return iter(part.make(asked, self._evaluator))
        return (self._first_cell(values, others, part) for values in every)

    # ---------------------------------------------------------------- private

    def _elsewhere(self, parts: Sequence[Block]) -> Iterator[Iterable[Cell | None]]:
        assert self._workers is not None
        for cells, seconds in self._workers.each(_cells_of, parts):
            self.processor_s += seconds
            yield cells

    def _held(self, without: tuple[str, ...]) -> list[bool]:
        return [_is_below(axis, without) for axis in self.axes]

    def _values(self, held: Sequence[bool]) -> list[Sequence[Any]]:
        """Values of axes, of which those that are held stay at their first one."""
        pairs = zip(self.axes, held, strict=True)
        return [axis.values[:1] if is_held else axis.values for axis, is_held in pairs]

    def _combination(self, values: Sequence[Sequence[Any]], index: int) -> dict[str, Any]:
        """One of all combinations of values."""
        found = zip(self.axes, values, np.unravel_index(index, _shape(values)), strict=True)
        return {axis.name: some[int(place)] for axis, some, place in found}

    def _first_cell(self, values: dict[str, Any], held: Sequence[Axis], part: Block) -> Cell | None:
        """The cell of the first values of the held axes with which it is not refused."""
        cells = (self._cell(values | _diagonal(held, n), part) for n in _places(held))
        return next((cell for cell in cells if cell is not None), None)

    def _refusal(self, values: Mapping[str, Any]) -> InputError | None:
        try:
            self._evaluator.asked(changes_of(self.study, values))
        except InputError as error:
            return error
        return None

    def _make(self, keys: tuple[tuple[str, str], ...]) -> Design:
        """The design with some fields; the one without the last of them is usually known."""
        if not keys:
            assert self._base is not None
            return self._base
        assert self._fields is not None
        *before, last = keys
        return _with(self._made(tuple(before)), last[0].split("."), self._fields[last])

    def _asked(self, values: Mapping[str, Any]) -> Asked:
        changes, design = changes_of(self.study, values), None
        if self._fields is not None:
            keys = ((path, repr(value)) for path, value in changes.items())
            design = self._made(tuple(key for key in keys if key in self._fields))
        return self._evaluator.asked(changes, design)

    def _cell(self, values: Mapping[str, Any], part: Block) -> Cell | None:
        try:
            asked = self._asked(values)
            found = part.make([asked] if part.together else asked, self._evaluator)
            return found[0] if part.together else found
        except REFUSALS:
            return None


def _cells_of(key: str, part: Block) -> tuple[list[Cell | None], float]:
    """Runs in a worker: some cells of a table of a study, and the seconds that they took."""
    grid, start = made_of(key, GridStudy), process_time()
    return list(grid.cells(part)), process_time() - start


def _places(axes: Sequence[Axis]) -> range:
    """As many places as the longest of some axes has values."""
    return range(max((len(axis.values) for axis in axes), default=1))


def _diagonal(axes: Sequence[Axis], place: int) -> dict[str, Any]:
    """The values of some axes at a place, the last of those that have fewer."""
    return {axis.name: axis.values[min(place, len(axis.values) - 1)] for axis in axes}


def _shape(values: Sequence[Sequence[Any]]) -> tuple[int, ...]:
    return tuple(map(len, values))


def _checked_fields(base: Design, axes: Sequence[Axis]) -> dict[tuple[str, str], Any] | None:
    """Fields as a design holds them, by path and written value; None if they must be seen together.

    To validate a whole design takes 0.7 ms, to put such fields into one 0.02.
    """
    found: dict[tuple[str, str], Any] = {}
    changes = [axis.changes(value) for axis in axes for value in axis.values]
    for path, value in (item for each in changes for item in each.items()):
        if path == "design" or path in PRESET_PATHS:
            return None
        if path in PSEUDO_PATHS:
            continue
        try:
            field: Any = override(base, {path: value})
            for part in path.split("."):
                field = field[part] if isinstance(field, Mapping) else getattr(field, part)
        except (InputError, LookupError, AttributeError):
            return None
        found[path, repr(value)] = field
    return found


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
    """All fields of an axis are among some paths, or below them."""
    return all(
        any(f"{field}.".startswith(path if path.endswith(".") else f"{path}.") for path in paths)
        for field in axis.paths
    )


def _decides(axis: Axis, names: Collection[str]) -> bool:
    """An axis has a say in the fields of some names."""
    return axis.name in names or any(
        path == "design" or f"{name}.".startswith(f"{path}.")
        for path in axis.paths
        for name in names
    )
