"""The value of a field that a target needs, in words: the answer, its neighbours, and the range."""

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
    target, levels = solution.target.text, solution.levels
    said = [assumed] if assumed else []
    first, last = levels[0].value, levels[-1].value
    within = f"{count(len(levels), 'value')} from {_value(first)} to {_value(last)}"
    if solution.answer is None:
        best = _nearest(solution)
        lines = [f"Tried: {within}. {_certainty(solution)}"]
        if best is not None:
            lines.insert(0, f"The nearest: {_value(best.value)} ({_figures(solution, best)}).")
        lines[1:1] = said
        yield f"No value of {solution.field} tried reaches {target} ({what})", lines
    elif all(level.meets for level in levels):
        title = f"Every value of {solution.field} tried reaches {target} ({what})"
        limit = f"Tried: {within}. The target does not limit it: give a stricter one."
        yield title, [limit, *said]
    else:
        title = f"{solution.field} = {_value(solution.answer.value)} reaches {target} ({what})"
        figures, *more = _answer(solution, solution.answer)
        yield title, [figures, *said, *more, f"Tried: {within}."]
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
    first, last = _value(stretch.first.value), _value(stretch.last.value)
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
    levels = [*solution.levels]
    step = max(1, -(-len(levels) // MOST_ROWS))
    places = {*range(0, len(levels), step), len(levels) - 1}
    strong = -1
    if solution.answer is not None:
        place = levels.index(solution.answer)
        places |= {n for n in (place - 1, place, place + 1) if 0 <= n < len(levels)}
        strong = sorted(places).index(place)
    names = sorted(solution.target.names)
    headings = (solution.field.rpartition(".")[2], "target", *(METRICS[n].heading for n in names))
    rows = []
    for place in sorted(places):
        level = levels[place]
        figures = level.figures or {}
        cells = (METRICS[name].text(figures.get(name)) for name in names)
        rows.append((_value(level.value), _state(level), *cells))
    marks = frozenset({strong}) if strong >= 0 else frozenset()
    return Table(headings, tuple(rows), text_columns=2, strong=marks)


def _figures(solution: Solution, level: Level) -> str:
    """Metrics of the target at a value."""
    figures = level.figures or {}
    return ", ".join(
        f"{name} {METRICS[name].text(figures.get(name))}" for name in sorted(solution.target.names)
    )


def _value(value: float) -> str:
    """A value of the field; fractions to seven digits, which tell neighbours apart."""
    return f"{value:,}" if isinstance(value, int) else number(value, 7)
