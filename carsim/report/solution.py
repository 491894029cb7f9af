"""The value of a field that a target needs, in words: the answer, its neighbours, and the range."""

import math
from collections.abc import Iterator

from carsim.base.text import Table, count, number
from carsim.explore.possible import limits_of
from carsim.explore.solve import MISFIT, Level, Solution, Stretch
from carsim.metrics import METRICS
from carsim.report.run_words import Section

MOST_ROWS = 9
"""Rows of the table beside the answer and its neighbours."""

TIMES_ALONE = (
    "Times and rates are those of the model of the hardware. `carsim run` with this value gives "
    "the time that is expected on a board."
)


def solution_sections(solution: Solution, what: str, assumed: str = "") -> Iterator[Section]:
    """Headings and what stands under them, for one screen.

    Args:
        solution: Outcome of :func:`carsim.explore.solve.solve`.
        what: Design and workload in words.
        assumed: What is assumed of the design, in one line; may be empty.
    """
    target = solution.target.text
    levels = solution.levels
    assumptions = [assumed] if assumed else []
    values = f"from {_value(levels[0].value)} to {_value(levels[-1].value)}"
    within = f"{count(len(levels), 'value')} {values}"
    if solution.answer is None:
        nearest = _nearest(solution)
        lines = [f"Tried: {within}. {_certainty(solution)}"]
        if nearest is not None:
            figures = _figures(solution, nearest)
            lines.insert(0, f"The nearest: {_value(nearest.value)} ({figures}).")
        lines[1:1] = assumptions  # behind the first line
        yield f"No value of {solution.field} tried reaches {target} ({what})", lines
    elif all(level.meets for level in levels):
        title = f"Every value of {solution.field} tried reaches {target} ({what})"
        limit = f"Tried: {within}. The target does not limit it: give a stricter one."
        yield title, [limit, *assumptions]
    else:
        title = f"{solution.field} = {_value(solution.answer.value)} reaches {target} ({what})"
        lines = list(_answer(solution, solution.answer))
        lines[1:1] = assumptions
        yield title, [*lines, f"Tried: {within}."]
    yield "Values", [_table(solution)]
    notes = [TIMES_ALONE]
    if isinstance(solution.present, int | float):
        notes.insert(0, f"The design as it is has {_value(solution.present)}.")
    yield "Notes", [f"- {note}" for note in notes]


def _answer(solution: Solution, answer: Level) -> Iterator[str]:
    """The answer, the values that equal it, its neighbours, and all that reach the target."""
    assert solution.equal is not None
    yield f"With it: {_figures(solution, answer)}."
    low, high = solution.equal
    if low.value != high.value:
        yield f"Equal figures from {_value(low.value)} to {_value(high.value)}."
    for side, neighbour in zip(("below", "above"), solution.neighbours, strict=True):
        if neighbour is not None:
            says = "reaches" if neighbour.meets else "misses"
            figures = neighbour.problem or _figures(solution, neighbour)
            yield f"Next {side}: {_value(neighbour.value)} {says} the target ({figures})."
    ranges = ", ".join(map(_range, solution.stretches))
    yield f"Reached: {ranges}. {_certainty(solution)}"


def _certainty(solution: Solution) -> str:
    """How the range was searched, and what may be missed."""
    if solution.is_complete:
        return "Every whole number in between was tried."
    if solution.is_steady:
        return "The metrics only rise or only fall over the values tried."
    return (
        "The metrics rise and fall over the range, so it was scanned; a change between two values "
        "that were tried is not seen."
    )


def _range(stretch: Stretch) -> str:
    """Values that reach the target, in words, and what stops them above."""
    first = _value(stretch.first.value)
    last = _value(stretch.last.value)
    words = first if first == last else f"from {first} to {last}"
    if stretch.after is not None and stretch.after.problem:
        words += f" ({_value(stretch.after.value)} {_state(stretch.after)})"
    return words


def _state(level: Level) -> str:
    """State of a value in one or two words."""
    if level.meets:
        return "reaches"
    if level.figures is not None:
        return "misses"
    return "does not fit" if level.problem.startswith(MISFIT) else "is refused"


def _nearest(solution: Solution) -> Level | None:
    """The value that comes nearest to the target; None if none was simulated."""
    limits = limits_of(solution.target)
    simulated = [level for level in solution.levels if level.figures is not None]
    if not limits or not simulated:
        return None
    name = limits[0].name
    sign = 1 if METRICS[name].better == "lower" else -1

    def distance(level: Level) -> float:
        figure = (level.figures or {}).get(name)
        return sign * float(figure) if isinstance(figure, int | float) else float("inf")

    return min(simulated, key=distance)


def _table(solution: Solution) -> Table:
    """The answer with its neighbours, and some values of the whole range."""
    levels = list(solution.levels)
    last = len(levels) - 1
    step = max(1, math.ceil(len(levels) / MOST_ROWS))
    shown = {*range(0, len(levels), step), last}
    answer = None
    if solution.answer is not None:
        answer = levels.index(solution.answer)
        shown |= {max(0, answer - 1), answer, min(last, answer + 1)}
    metrics = [METRICS[name] for name in sorted(solution.target.names)]
    rows = []
    strong = []
    for number_of_row, index in enumerate(sorted(shown)):
        level = levels[index]
        figures = level.figures or {}
        texts = [metric.text(figures.get(metric.name)) for metric in metrics]
        rows.append((_value(level.value), _state(level), *texts))
        if index == answer:
            strong.append(number_of_row)
    field = solution.field.rpartition(".")[2]
    headings = (field, "target", *(metric.heading for metric in metrics))
    return Table(headings, tuple(rows), text_columns=2, strong=frozenset(strong))


def _figures(solution: Solution, level: Level) -> str:
    """Metrics of the target at a value."""
    figures = level.figures or {}
    names = sorted(solution.target.names)
    texts = [f"{name} {METRICS[name].text(figures.get(name))}" for name in names]
    return ", ".join(texts)


def _value(value: float) -> str:
    """A value of the field; fractions to seven digits, which tell neighbours apart."""
    return f"{value:,}" if isinstance(value, int) else number(value, 7)
