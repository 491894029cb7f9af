"""Which value of one field does a design need to reach a target?

Model: the target is judged at a grid of values. If its metrics only rise or only fall along the
grid, and the target changes from missed to met once, each change is narrowed by bisection: to the
next whole number, or to a relative width of :data:`RESOLUTION`. More of a resource is not always
faster (list scheduling, bursts and channels). Where the metrics do not only rise or fall, the range
is scanned: every whole number of it if there are at most :data:`MOST_SCANNED`, else
:data:`FINER` times as many values; and each change is narrowed as above.

The answer is the value that reaches the target with the least to spare. Its neighbours are
simulated as well, and the values around it at which all metrics of the target are equal are given:
replay decisions, for instance, do not depend on a threshold between two recorded scores.

Simplifications: a change that begins and ends between two scanned values is not seen. A value whose
design is refused or does not fit its board does not reach the target.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isfinite
from typing import Any

from carsim.base.errors import InputError
from carsim.base.section import Section
from carsim.base.text import number
from carsim.base.yaml_file import parse_yaml, shown
from carsim.design import Design, override
from carsim.explore.bench import Bench
from carsim.explore.evaluate import Fitted
from carsim.explore.expression import Expression
from carsim.explore.possible import limits_of
from carsim.explore.study import value_of
from carsim.explore.target import check_target
from carsim.metrics import Value
from carsim.workload.workload import Workload

GRID_POINTS = 33
"""Values of a grid of fractions."""

REACH = 64
"""A grid goes from the value of the design over this number to its product with it."""

RESOLUTION = 1e-6
"""Relative width to which the place of a change is narrowed."""

MOST_SCANNED = 512
"""Values of a scan."""

FINER = 8
"""Values of a scan for each of the grid, where there are too many whole numbers."""

TOGETHER = 16
"""Values that are simulated together."""

MISFIT = "does not fit: "
"""Begins the problem of a value whose design does not fit its board."""

GIVE_AXIS = "give its values, say --axis FIELD=0.1,0.2,0.4"


@dataclass(frozen=True)
class Level:
    """The design at one value of the field.

    Attributes:
        value: The value.
        meets: It fits its board and reaches the target.
        problem: The reason for which it is refused or does not fit; empty otherwise.
        figures: Its metrics; none if it was refused or does not fit.
        design: The design; None if it was refused.
    """

    value: float
    meets: bool
    problem: str = ""
    figures: Mapping[str, Value] | None = None
    design: Design | None = None


@dataclass(frozen=True)
class Stretch:
    """Neighbouring values that all reach the target, as far as they were tried.

    Attributes:
        first: The least of them.
        last: The largest of them.
        before: The next smaller value that was tried, which misses; None at the end of the range.
        after: The next larger value that was tried, which misses; None at the end of the range.
    """

    first: Level
    last: Level
    before: Level | None
    after: Level | None


@dataclass(frozen=True)
class Solution:
    """Answer to which value is needed.

    Attributes:
        field: The field.
        target: The target.
        present: Value of the design as it is.
        levels: All values that were tried, ascending.
        stretches: Values that reach the target.
        answer: The value with the least to spare; None if none reaches the target.
        equal: First and last value around the answer with equal metrics of the target.
        is_steady: Along the grid, the metrics of the target only rise or only fall.
        is_whole: The field takes whole numbers.
        is_complete: Every whole number of the range was tried.
    """

    field: str
    target: Expression
    present: Any
    levels: Sequence[Level]
    stretches: Sequence[Stretch]
    answer: Level | None
    equal: tuple[Level, Level] | None
    is_steady: bool
    is_whole: bool
    is_complete: bool

    @property
    def neighbours(self) -> tuple[Level | None, Level | None]:
        """The next values that were tried, below and above those that equal the answer."""
        assert self.equal is not None
        first = self.levels.index(self.equal[0])
        last = self.levels.index(self.equal[1])
        below = self.levels[first - 1] if first > 0 else None
        above = self.levels[last + 1] if last + 1 < len(self.levels) else None
        return below, above


def solve(
    design: Design,
    field: str,
    target: Expression,
    workload: Workload | None = None,
    values: Sequence[Any] = (),
) -> Solution:
    """Find the value of a field with which a design reaches a target.

    Args:
        design: The design.
        field: Dotted path of a number.
        target: Condition on metrics.
        workload: What is decoded; None: what the model makes.
        values: Grid; by default around the value that the design has.

    Raises:
        InputError: No such field, no number, no such metric, or a metric without a value.
    """
    check_target(target)
    grid = _grid(design, field, values)
    solver = _Solver(design, field, target, Bench(workload))
    return solver.solution(grid)


def parse_values(text: str, field: str) -> tuple[Any, ...]:
    """Values of a field as they are typed: ``policy.tau=0.1,0.2``.

    Raises:
        InputError: Another field, or no numbers.
    """
    name, _, body = text.partition("=")
    where = f"`axis` {name.strip()}"
    if name.strip() != field:
        raise InputError(where, f"is not the field {field} that `solve` asks for", "name that one")
    listed = parse_yaml(body if body.strip().startswith("[") else f"[{body}]", where)
    if not isinstance(listed, list) or not listed:
        raise InputError(where, f"got {shown(body)}", f"give values, say {field}=1,2,4")
    for value in listed:
        if not _is_number(value):
            raise InputError(where, f"got {shown(value)}", "give numbers")
    return tuple(sorted(dict.fromkeys(listed)))


# -------------------------------------------------------------------- private


class _Solver:
    """Judges values of a field, each once."""

    def __init__(self, design: Design, field: str, target: Expression, bench: Bench) -> None:
        self._design = design
        self._field = field
        self._target = target
        self._bench = bench
        self._levels: dict[float, Level] = {}

    def solution(self, grid: Sequence[float]) -> Solution:
        """The whole search over a grid."""
        is_whole = all(isinstance(value, int) for value in grid)
        self._judge(grid)
        self._check_values()
        is_steady = self._is_steady()
        if not is_steady:
            self._judge(_scan(grid, is_whole=is_whole))
        self._narrow(lambda low, high: low.meets != high.meets, is_whole=is_whole)
        answer = self._least_to_spare()
        equal = None
        if answer is not None:
            if is_whole:
                neighbours = (answer.value - 1, answer.value + 1)
                self._judge([value for value in neighbours if value >= 1])
            equal = self._equal_to(answer, is_whole=is_whole)
        levels = self._sorted()
        numbers = [level.value for level in levels]
        return Solution(
            field=self._field,
            target=self._target,
            present=value_of(self._design, self._field),
            levels=levels,
            stretches=_stretches(levels),
            answer=answer,
            equal=equal,
            is_steady=is_steady,
            is_whole=is_whole,
            is_complete=is_whole and len(numbers) == numbers[-1] - numbers[0] + 1,
        )

    def _judge(self, values: Iterable[float]) -> None:
        """Simulate the design at values that are new."""
        new = [value for value in dict.fromkeys(values) if value not in self._levels]
        fitted: dict[float, Fitted] = {}
        for value in new:
            try:
                design = self._bench.fitted(override(self._design, {self._field: value}))
            except InputError as error:
                self._levels[value] = Level(value, meets=False, problem=str(error.named()))
                continue
            if design.fit.fits:
                fitted[value] = design
            else:
                problem = MISFIT + "; ".join(design.fit.misfits)
                self._levels[value] = Level(value, meets=False, problem=problem)
        fitting_values = list(fitted)
        for start in range(0, len(fitting_values), TOGETHER):
            together = fitting_values[start : start + TOGETHER]
            results = self._bench.measure([fitted[value] for value in together])
            for value, measured in zip(together, results, strict=True):
                if isinstance(measured, InputError):
                    problem = str(measured.named())
                    self._levels[value] = Level(value, meets=False, problem=problem)
                    continue
                meets = measured.meets(self._target)
                self._levels[value] = Level(
                    value, meets=meets, figures=measured.figures, design=measured.design
                )

    def _sorted(self) -> list[Level]:
        """Levels of all values that were judged, ascending."""
        return [self._levels[value] for value in sorted(self._levels)]

    def _check_values(self) -> None:
        """Refuse a field that takes none of the values, and metrics without a value.

        Raises:
            InputError: All values are refused, or a metric of the target has no value.
        """
        levels = self._sorted()
        simulated = [level.figures for level in levels if level.figures is not None]
        if not simulated:
            middle = levels[len(levels) // 2]
            ends = f"{_text(levels[0].value)} to {_text(levels[-1].value)}"
            problem = f"no value tried from {ends} can be simulated: {middle.problem}"
            cure = "" if GIVE_AXIS in middle.problem else f"cure that, or {GIVE_AXIS}"
            raise InputError(f"`solve` {self._field}", problem, cure)
        for name in sorted(self._target.names):
            if all(figures[name] is None for figures in simulated):
                problem = f"{name} has no value for this workload"
                raise InputError("`target`", problem, "name another metric")

    def _is_steady(self) -> bool:
        """The metrics only rise or only fall along the values that were simulated."""
        levels = [level for level in self._sorted() if level.figures is not None]
        if len(_stretches(levels)) > 1:
            return False
        for name in self._target.names:
            figures = [level.figures[name] for level in levels if level.figures is not None]
            steps = [
                after - before
                for before, after in pairwise(figures)
                if isinstance(before, int | float) and isinstance(after, int | float)
            ]
            if min(steps, default=0) < 0 < max(steps, default=0):
                return False
        return True

    def _narrow(self, differ: Callable[[Level, Level], bool], *, is_whole: bool) -> None:
        """Bisect between each two neighbours that differ."""
        for before, after in pairwise(self._sorted()):
            low = before
            high = after
            while differ(low, high):
                middle = _middle(low.value, high.value, is_whole)
                if not middle:
                    break
                self._judge([middle])
                level = self._levels[middle]
                if differ(low, level):
                    high = level
                else:
                    low = level

    def _least_to_spare(self) -> Level | None:
        """Of the values that reach the target, the one nearest to missing it."""
        meeting = [level for level in self._sorted() if level.meets]
        limits = limits_of(self._target)
        if not meeting or not limits:
            return next(iter(meeting), None)

        def spare(level: Level) -> float:
            """The smallest relative distance to a limit."""
            assert level.figures is not None
            distances = [inf]
            for limit in limits:
                figure = level.figures[limit.name]
                if isinstance(figure, int | float):
                    distances.append(abs(figure - limit.number) / (abs(limit.number) or 1.0))
            return min(distances)

        return min(meeting, key=spare)

    def _equal_to(self, answer: Level, *, is_whole: bool) -> tuple[Level, Level]:
        """First and last value around the answer at which the metrics of the target are equal."""

        def is_equal(level: Level) -> bool:
            """All metrics of the target are those of the answer."""
            figures = level.figures
            assert answer.figures is not None
            return figures is not None and all(
                figures[name] == answer.figures[name] for name in self._target.names
            )

        def last_equal(step: int) -> Level:
            """The last value that is equal, going up (step 1) or down (step -1)."""
            levels = self._sorted()
            end = levels.index(answer)
            while 0 <= end + step < len(levels) and is_equal(levels[end + step]):
                end += step
            inside = levels[end]
            if not 0 <= end + step < len(levels):
                return inside
            outside = levels[end + step]
            while middle := _middle(inside.value, outside.value, is_whole):
                self._judge([middle])
                level = self._levels[middle]
                if is_equal(level):
                    inside = level
                else:
                    outside = level
            return inside

        first = last_equal(-1)
        return first, last_equal(1)


def _stretches(levels: Sequence[Level]) -> list[Stretch]:
    """Runs of neighbouring values that reach the target."""
    stretches: list[Stretch] = []
    begin: int | None = None
    for index, level in enumerate(levels):
        if level.meets and begin is None:
            begin = index
        is_last = index + 1 == len(levels) or not levels[index + 1].meets
        if begin is not None and is_last:
            before = levels[begin - 1] if begin else None
            after = levels[index + 1] if index + 1 < len(levels) else None
            stretches.append(Stretch(levels[begin], level, before=before, after=after))
            begin = None
    return stretches


def _middle(low: float, high: float, is_whole: bool) -> float | None:
    """A value between two others; None if they are next to each other."""
    if is_whole:
        middle = (int(low) + int(high)) // 2
        return middle if middle not in (low, high) else None
    if abs(high - low) <= RESOLUTION * max(abs(low), abs(high)):
        return None
    between = (low + high) / 2
    return between if between not in (low, high) else None


def _scan(grid: Sequence[float], *, is_whole: bool) -> list[float]:
    """Values of a finer grid."""
    first = grid[0]
    last = grid[-1]
    if is_whole and last - first < MOST_SCANNED:
        return list(range(int(first), int(last) + 1))
    finer: list[float] = []
    for before, after in pairwise(grid):
        for step in range(1, FINER):
            value = before + (after - before) * step / FINER
            finer.append(round(value) if is_whole else value)
    return finer


def _grid(design: Design, field: str, values: Sequence[Any]) -> list[float]:
    """Values to begin with, ascending.

    Raises:
        InputError: No such field, or none of one number.
    """
    present = value_of(design, field)
    location = f"`solve` {field}"
    if present is None:
        _check_field(design, field, location)
    if not isinstance(present, int | float | str | tuple) or isinstance(present, bool):
        value_text = "a section" if isinstance(present, Section) else shown(present)
        problem = f"is {value_text} in this design, not a number"
        raise InputError(location, problem, "name a field that holds a number")
    if values:
        return sorted(values)
    fractions = {step / (GRID_POINTS - 1) for step in range(GRID_POINTS)}
    if field == "policy.tau":  # a threshold of a similarity
        if isinstance(present, int | float) and isfinite(present):
            fractions.add(float(present))
        return sorted(fractions)
    if isinstance(present, str | tuple):
        raise InputError(location, f"is {shown(present)} in this design, not a number", GIVE_AXIS)
    if isinstance(present, int):
        most = max(present, 1) * REACH
        doublings = {1 << power for power in range(most.bit_length())}
        halves = {3 << power for power in range(most.bit_length() - 1)}
        return sorted(n for n in doublings | halves | {present} if n <= most)
    if present <= 0:
        raise InputError(location, f"is {present:g} in this design", GIVE_AXIS)
    half = GRID_POINTS // 2
    return [present * REACH ** (power / half) for power in range(-half, half + 1)]


def _check_field(design: Design, field: str, place: str) -> None:
    """Refuse a path that is no field of a design, with suggestions.

    Raises:
        InputError: No such field.
    """
    try:
        override(design, {field: 1})
    except InputError as error:
        raise InputError(place, error.problem, error.cure) from None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _text(value: float) -> str:
    """A value of the field as people read it, exact for whole numbers."""
    return f"{value:,}" if isinstance(value, int) else number(value, 7)
