"""The store of a sweep or a search as a page: the front, what each axis does, misfits and why."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from carsim.errors import InputError
from carsim.explore.metrics import METRICS
from carsim.report.document import Table
from carsim.report.html import Alert, Chart, Fold, Links, PageSection, Part, Terms, Tiles, links_to
from carsim.report.stored_study import Row, StoredStudy, Value, shown
from carsim.text import Figure

if TYPE_CHECKING:
    from carsim.report.figures.front import FrontNumbers

MOST_ROWS = 200
"""Of a table."""

MOST_DRAWN = 4000
"""Points of a chart, the front beside them."""

MOST_VALUES = 24
"""Of an axis that are listed."""

ALSO = ("speedup", "replay_eligible", "limit")
"""What is told of points on the front beside axes and objectives."""

BESIDE = {
    "points.parquet": "all points with all figures",
    "points.csv": "the same as text",
    "study.yaml": "the study",
    "store.sqlite": "the store, which the same command continues",
}
"""Files of a study's folder that a page links to."""


def study_page(
    study: StoredStudy, folder: Path, address: str
) -> tuple[str, list[PageSection], dict[str, bytes]]:
    """Title, sections and pictures of the page of a study.

    Args:
        study: The study.
        folder: Where it is stored.
        address: Of that folder as the page links to it; empty if they are in the same place.

    Raises:
        InputError: Its objectives or constraints are none.
    """
    chart, pictures = _chart(study)
    links = links_to(BESIDE, folder, address)
    sections = [
        PageSection("", (*_top(study), *_front(study))),
        PageSection("All points that fit", chart),
        PageSection("What was asked", (Terms(_asked(study)), Fold("The study", study.text))),
        PageSection("What each axis does", _effects(study)),
        PageSection("What does not fit, and why", _misfits(study)),
        PageSection("Points", _points(study)),
        PageSection("What the figures mean", (Terms(_meanings(study)),)),
        PageSection("Files", (Links(links),) if links else ()),
    ]
    title = f"{study.name}, a {study.kind} of {_count(len(study.rows))}"
    return title, [section for section in sections if section.parts], pictures


def _count(count: int) -> str:
    return f"{count:,} point{'' if count == 1 else 's'}"


def _top(study: StoredStudy) -> Iterator[Part]:
    if study.counts["failed"]:
        yield Alert((f"{_count(study.counts['failed'])} could not be evaluated.",))
    description = _description(study.text)
    if description:
        yield description
    knee, counts = study.knee, study.counts
    tiles = [
        ("points", f"{len(study.rows):,}", f"{counts['ok']:,} fit their board"),
        ("on the front", f"{len(study.front):,}", " and ".join(study.objectives)),
    ]
    for name in list(study.objectives)[:2]:
        best = study.best(name, study.front)
        if best is not None and knee is not None:
            tiles.append((f"best {name}", shown(best[name]), f"at the knee {shown(knee[name])}"))
    yield Tiles(tuple(tiles))
    yield from _answer(study)


def _description(text: str) -> str:
    from carsim.yaml_file import parse_yaml

    try:
        document = parse_yaml(text, "study")
    except InputError:
        return ""
    return str(document.get("description") or "") if isinstance(document, dict) else ""


def _answer(study: StoredStudy) -> Iterator[str]:
    counts, knee = study.counts, study.knee
    text = f"Of {_count(len(study.rows))}, {counts['ok']:,} fit their board"
    for status, words in (
        ("misfit", "do not"),
        ("invalid", "were refused"),
        ("failed", "could not be evaluated"),
    ):
        if counts[status]:
            text += f", {counts[status]:,} {words}"
    yield f"{text}."
    ways = " and ".join(f"{name} ({way})" for name, way in study.objectives.items())
    if knee is None:
        yield f"None of them fits, meets the constraints and has {ways}, so that there is no front."
        return
    meeting = f" of those that meet {'; '.join(study.constraints)}" if study.constraints else ""
    verb = "is" if len(study.front) == 1 else "are"
    yield f"{_count(len(study.front))}{meeting} {verb} on the Pareto front of {ways}."
    for name, way in study.objectives.items():
        best = study.best(name, study.front)
        if best is not None:
            yield f"{'Least' if way == 'min' else 'Most'} {name}: {_told(study, best)}."
    if len(study.front) > 1:
        yield f"The knee, nearest to the best of all objectives: {_told(study, knee)}."


def _told(study: StoredStudy, row: Row) -> str:
    figures = ", ".join(f"{name} {shown(row[name])}" for name in study.objectives)
    return f"{figures} with {', '.join(f'{axis} {shown(row[axis])}' for axis in study.axes)}"


def _front(study: StoredStudy) -> tuple[Part, ...]:
    rows = study.front[:MOST_ROWS]
    if not rows:
        return ()
    columns = [*study.axes, *study.objectives]
    columns += [name for name in ALSO if name not in columns and any(row[name] for row in rows)]
    knees = {place for place, row in enumerate(rows) if row["knee"] == "true"}
    table = Table(
        ("point", *columns),
        tuple(
            (
                _cell(row["point"], "knee" if place in knees else ""),
                *(_cell(row[c]) for c in columns),
            )
            for place, row in enumerate(rows)
        ),
        strong=frozenset(knees),
    )
    return (table, *_left_out(len(study.front)))


def _left_out(count: int) -> tuple[str, ...]:
    return (f"{count - MOST_ROWS:,} more are in points.csv.",) if count > MOST_ROWS else ()


def _chart(study: StoredStudy) -> tuple[tuple[Chart, ...], dict[str, bytes]]:
    numbers = front_numbers(study)
    if numbers is None:
        return (), {}
    from carsim.report.figures.front import draw_front, front_figure
    from carsim.report.figures.pareto import draw_pareto, pareto_numbers
    from carsim.report.run_page import as_pictures

    caption = "Choose above what goes where. Rings: the front of the objectives; star: its knee."
    if len(study.fitting) > len(numbers.on_front):
        caption += f" Drawn are {len(numbers.on_front):,} points, the front among them."
    chart = Chart("front", front_figure(numbers), "Points that fit, and the Pareto front", caption)
    if len(study.objectives) > 1 and study.front:
        title, frames = study.name, (study.counted, study.front_frame)
        drawing = draw_pareto(pareto_numbers(title, *frames, study.objectives))
    else:
        drawing = draw_front(numbers)
    return (chart,), as_pictures({"front": drawing})


def front_numbers(study: StoredStudy) -> "FrontNumbers | None":
    """The points that fit; where they are many, the front and an even choice of the others."""
    from carsim.report.figures.front import FrontNumbers

    rest = [row for row in study.fitting if row["point"] not in study.members]
    rows = [*study.front, *rest[:: max(1, -(-len(rest) // MOST_DRAWN))]]
    if not rows:
        return None

    def varies(name: str) -> bool:
        return len({row[name] for row in rows}) > 1

    def is_number(name: str) -> bool:
        return not any(isinstance(row[name], str) for row in rows)

    objectives = list(study.objectives)
    x, y = (objectives[0], objectives[1]) if len(objectives) > 1 else (study.axes[0], objectives[0])
    metrics = [name for name in METRICS if name in rows[0] and varies(name) and is_number(name)]
    knees = [place for place, row in enumerate(rows) if row.get("knee") == "true"]
    return FrontNumbers(
        title=f"{study.name}: points that fit, and their front",
        columns={
            name: tuple(_short(row[name]) for row in rows)
            for name in dict.fromkeys([*study.axes, *objectives, *metrics])
        },
        hover=tuple(dict.fromkeys([*study.axes, *objectives])),
        x=x,
        y=y,
        colour=next(filter(varies, study.axes), ""),
        on_front=tuple(row["point"] in study.members for row in rows),
        knee=knees[0] if knees else None,
        joined=len(objectives) == 2,
    )


def _short(value: Value) -> Value:
    """Seven digits are more than a chart shows, and keep the page small."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _asked(study: StoredStudy) -> tuple[tuple[str, str], ...]:
    return (
        ("objectives", ", ".join(f"{name} ({way})" for name, way in study.objectives.items())),
        *((("constraints", "; ".join(study.constraints)),) if study.constraints else ()),
        *((axis, _span(study, axis)) for axis in study.axes),
        *((f"trace {name}", f"sha256 {sha256[:12]}") for name, sha256 in study.traces.items()),
        ("made by", f"carsim {study.version}"),
    )


def _span(study: StoredStudy, axis: str) -> str:
    """The values of an axis, or their ends where they are many."""
    values = list(dict.fromkeys(row[axis] for row in study.rows))
    if len(values) <= MOST_VALUES:
        return ", ".join(map(shown, values))
    known = [value for value in values if isinstance(value, int | float)]
    ends = f", {shown(min(known))} to {shown(max(known))}" if known else ""
    return f"{len(values):,} values{ends}"


def _effects(study: StoredStudy) -> tuple[Part, ...]:
    """The best of each value of each axis."""
    lines = []
    for axis in study.axes:
        values = list(dict.fromkeys(row[axis] for row in study.rows))
        if not 1 < len(values) <= MOST_VALUES:
            continue
        for value in values:
            own = [row for row in study.rows if row[axis] == value]
            fitting = [row for row in own if row["status"] == "ok"]
            on_front = sum(row["point"] in study.members for row in own)
            best = [study.best(name, fitting) for name in study.objectives]
            lines.append(
                (
                    axis,
                    _cell(value),
                    Figure(f"{len(own):,}", len(own)),
                    Figure(f"{len(fitting):,}", len(fitting), len(fitting) / len(own)),
                    Figure(f"{on_front:,}", on_front),
                    *(
                        _cell(row[name] if row else None)
                        for name, row in zip(study.objectives, best, strict=True)
                    ),
                )
            )
    headings = ("axis", "value", "points", "fit", "on the front")
    table = Table((*headings, *(f"best {name}" for name in study.objectives)), tuple(lines))
    return (table,) if lines else ()


def _misfits(study: StoredStudy) -> tuple[Part, ...]:
    """Reasons with their numbers left out, an example each."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in study.rows:
        status, reason = str(row["status"]), str(row["reason"])
        if status == "ok":
            continue
        for part in dict.fromkeys(reason.split("; ") if status == "misfit" else [reason]):
            what = part.partition(":")[0] if status == "misfit" else part
            found.setdefault((status, what), []).append(part)
    if not found:
        return ()
    ranked = sorted(found.items(), key=lambda item: -len(item[1]))[:MOST_ROWS]
    table = Table(
        ("status", "what", "for example", "points"),
        tuple(
            (status, what, examples[0], Figure(f"{len(examples):,}", len(examples)))
            for (status, what), examples in ranked
        ),
        text_columns=3,
    )
    return ("A point that misses its board for several reasons is counted at each.", table)


def _points(study: StoredStudy) -> tuple[Part, ...]:
    name, way = next(iter(study.objectives.items()))
    sign = 1 if way == "min" else -1

    def rank(row: Row) -> tuple[bool, float]:
        value = row[name]
        return (False, sign * value) if isinstance(value, int | float) else (True, 0.0)

    columns = [*study.axes, *study.objectives, "status"]
    rows = sorted(study.rows, key=rank)[:MOST_ROWS]
    cells = tuple((_cell(row["point"]), *(_cell(row[c]) for c in columns)) for row in rows)
    return (Table(("point", *columns), cells), *_left_out(len(study.rows)))


def _meanings(study: StoredStudy) -> tuple[tuple[str, str], ...]:
    names = dict.fromkeys([*study.objectives, *ALSO])
    return tuple((name, METRICS[name].meaning) for name in names if name in METRICS)


def _cell(value: Value, note: str = "") -> str:
    text = f"{shown(value)} {note}".strip()
    return text if isinstance(value, str) else Figure(text, value)
