"""The store of a sweep or a search as a page: the front, what each axis does, misfits and why."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from carsim.errors import InputError
from carsim.metrics import METRICS
from carsim.report.figures.draw import image
from carsim.report.figures.pareto import chosen_chart, heading, pareto_plot
from carsim.report.html import Chart, links_to, page
from carsim.report.stored_study import Row, StoredStudy, Value
from carsim.text import Figure, Table, quantity
from carsim.yaml_file import parse_yaml

MOST_ROWS = 200
"""Of a table."""

MOST_DRAWN = 4000
"""Points of a chart, the front beside them."""

MOST_VALUES = 24
"""Of an axis that are listed."""

ALSO = ("speedup", "replay_eligible", "limit")
"""What is told of points on the front beside axes and objectives."""

BETTER = {"min": "the least", "max": "the most"}

BESIDE = {
    "points.parquet": "all points with all figures",
    "points.csv": "the same as text",
    "study.yaml": "the study",
    "store.sqlite": "the store, which the same command continues",
}
"""Files of a study's folder that a page links to."""


def study_page(study: StoredStudy, folder: Path, address: str) -> str:
    """The page of a study as HTML.

    Args:
        study: The study.
        folder: Where it is stored.
        address: Of that folder as the page links to it; empty if they are in the same place.

    Raises:
        InputError: Its objectives or constraints are none, or plotly is not installed.
    """
    told = dict.fromkeys([*study.objectives, *ALSO])
    return page(
        "study.html",
        f"{study.name}, a {study.kind} of {_count(len(study.rows))}",
        study=study,
        description=_description(study.text),
        failed=f"{_count(study.counts['failed'])} could not be evaluated.",
        tiles=list(_tiles(study)),
        answer=list(_answer(study)),
        front=_front(study),
        charts=front_chart(study),
        asked=list(_asked(study)),
        effects=_effects(study),
        misfits=_misfits(study),
        points=_points(study),
        most_rows=MOST_ROWS,
        meanings=[
            (f"{heading(name)}, {name}", f"{METRICS[name].meaning}.")
            for name in told
            if name in METRICS
        ],
        links=links_to(BESIDE, folder, address),
    )


def front_chart(study: StoredStudy) -> dict[str, Chart]:
    """The points that fit; where they are many, the front and an even choice of the others."""
    rest = [row for row in study.fitting if row["point"] not in study.members]
    rows = [*study.front, *rest[:: max(1, -(-len(rest) // MOST_DRAWN))]]
    if not rows:
        return {}

    def is_drawn(name: str) -> bool:
        values = {row.get(name) for row in rows}
        return len(values) > 1 and not any(isinstance(value, str) for value in values)

    names = [*study.axes, *study.objectives, *filter(is_drawn, METRICS)]
    knees = [place for place, row in enumerate(rows) if row.get("knee") == "true"]
    data = chosen_chart(
        [row["point"] for row in rows],
        {name: tuple(_short(row[name]) for row in rows) for name in dict.fromkeys(names)},
        study.objectives,
        study.axes,
        tuple(row["point"] in study.members for row in rows),
        knees[0] if knees else None,
    )
    caption = "Choose above what goes where. Rings: the front of the objectives; star: its knee."
    if len(study.fitting) > len(rows):
        caption += f" Drawn are {len(rows):,} points, the front among them."
    front = study.front_frame if study.front else study.frame.head(0).assign(knee=False)
    points = study.counted if study.front else study.frame[study.frame["status"] == "ok"]
    plot = pareto_plot(study.name, points, front, study.objectives, study.axes[0])
    return {"front": Chart(data, image(plot), plot.alt, caption)}


def _count(count: int) -> str:
    return f"{count:,} point{'' if count == 1 else 's'}"


def _short(value: Value) -> Value:
    """Seven digits are more than a chart shows, and keep the page small."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _text(name: str, value: Value) -> str:
    """A value of a column as people read it."""
    if name in METRICS:
        return METRICS[name].text(value)
    return f"{value:,.6g}" if isinstance(value, float) else quantity(value)


def _told(names: Iterable[str], row: Row) -> str:
    """Figures of a row in words, such as ``time per video 352.0 s, machine.cores 2``."""
    return ", ".join(
        f"{_title(name)} {_text(name, row[name])} {_unit(name)}".strip() for name in names
    )


def _title(name: str) -> str:
    return METRICS[name].title if name in METRICS else name


def _unit(name: str) -> str:
    """Unit of a metric; nothing if the text of its values says it already."""
    return heading(name).removeprefix(_title(name)).strip(" []")


def _listed(texts: Sequence[str]) -> str:
    """One thing, ``one and another``, or ``one, another and a third``."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _cell(name: str, row: Row | None, note: str = "") -> str:
    """A value of a row as a cell of a table."""
    value = row[name] if row else None
    text = f"{_text(name, value)} {note}".strip()
    return text if isinstance(value, str) else Figure(text, value)


def _tiles(study: StoredStudy) -> Iterator[tuple[str, str, str]]:
    counts, knee = study.counts, study.knee
    yield "points", f"{len(study.rows):,}", f"{counts['ok']:,} fit their board"
    yield "on the front", f"{len(study.front):,}", _listed([*map(_title, study.objectives)])
    for name in study.objectives:
        best = study.best(name, study.front)
        if best is not None and knee is not None:
            value, unit = _text(name, best[name]), _unit(name)
            yield (
                f"best {_title(name)}",
                f"{value} {unit}",
                f"at the knee {_text(name, knee[name])}",
            )


def _description(text: str) -> str:
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
    ways = _listed([f"{BETTER[way]} {_title(name)}" for name, way in study.objectives.items()])
    if knee is None:
        yield f"None of them fits, meets the constraints and has {ways}, so that there is no front."
        return
    meeting = f" of those that meet {'; '.join(study.constraints)}" if study.constraints else ""
    verb = "is" if len(study.front) == 1 else "are"
    yield f"{_count(len(study.front))}{meeting} {verb} on the Pareto front of {ways}."
    told = [*study.objectives, *study.axes]
    for name, way in study.objectives.items():
        best = study.best(name, study.front)
        if best is not None:
            yield f"{BETTER[way].capitalize()} {_title(name)}: {_told(told, best)}."
    if len(study.front) > 1:
        yield f"The knee, nearest to the best of all objectives: {_told(told, knee)}."


def _front(study: StoredStudy) -> Table:
    rows = study.front[:MOST_ROWS]
    columns = [*study.axes, *study.objectives]
    columns += [name for name in ALSO if name not in columns and any(row[name] for row in rows)]
    knees = frozenset(place for place, row in enumerate(rows) if row["knee"] == "true")
    return Table(
        ("point", *map(heading, columns)),
        tuple(
            (
                _cell("point", row, "knee" if place in knees else ""),
                *(_cell(column, row) for column in columns),
            )
            for place, row in enumerate(rows)
        ),
        strong=knees,
    )


def _asked(study: StoredStudy) -> Iterator[tuple[str, str]]:
    yield "objectives", ", ".join(f"{name} ({way})" for name, way in study.objectives.items())
    if study.constraints:
        yield "constraints", "; ".join(study.constraints)
    for axis in study.axes:
        yield axis, _span(axis, _values(study, axis))
    for name, sha256 in study.traces.items():
        yield f"trace {name}", f"sha256 {sha256[:12]}"
    yield "made by", f"carsim {study.version}"


def _values(study: StoredStudy, axis: str) -> list[Value]:
    return list(dict.fromkeys(row[axis] for row in study.rows))


def _span(axis: str, values: list[Value]) -> str:
    """The values of an axis, or their ends where they are many."""
    if len(values) <= MOST_VALUES:
        return ", ".join(_text(axis, value) for value in values)
    known = [value for value in values if isinstance(value, int | float)]
    ends = f", {quantity(min(known))} to {quantity(max(known))}" if known else ""
    return f"{len(values):,} values{ends}"


def _effects(study: StoredStudy) -> Table:
    """The best of each value of each axis."""
    lines = []
    for axis in study.axes:
        values = _values(study, axis)
        if not 1 < len(values) <= MOST_VALUES:
            continue
        for value in values:
            own = [row for row in study.rows if row[axis] == value]
            fitting = [row for row in own if row["status"] == "ok"]
            on_front = sum(row["point"] in study.members for row in own)
            lines.append(
                (
                    axis,
                    _cell(axis, own[0]),
                    Figure(f"{len(own):,}", len(own)),
                    Figure(f"{len(fitting):,}", len(fitting), len(fitting) / len(own)),
                    Figure(f"{on_front:,}", on_front),
                    *(_cell(name, study.best(name, fitting)) for name in study.objectives),
                )
            )
    best = (f"best {heading(name)}" for name in study.objectives)
    return Table(("axis", "value", "points", "fit", "on the front", *best), tuple(lines))


def _misfits(study: StoredStudy) -> Table:
    """Reasons with their numbers left out, an example each."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in study.rows:
        status, reason = str(row["status"]), str(row["reason"])
        if status == "ok":
            continue
        for part in dict.fromkeys(reason.split("; ") if status == "misfit" else [reason]):
            what = part.partition(":")[0] if status == "misfit" else part
            found.setdefault((status, what), []).append(part)
    ranked = sorted(found.items(), key=lambda item: -len(item[1]))[:MOST_ROWS]
    return Table(
        ("status", "what", "for example", "points"),
        tuple(
            (status, what, examples[0], Figure(f"{len(examples):,}", len(examples)))
            for (status, what), examples in ranked
        ),
        text_columns=3,
    )


def _points(study: StoredStudy) -> Table:
    """All points, the best in the first objective first."""
    name, way = next(iter(study.objectives.items()))
    sign = 1 if way == "min" else -1

    def rank(row: Row) -> tuple[bool, float]:
        value = row[name]
        return (False, sign * value) if isinstance(value, int | float) else (True, 0.0)

    columns = ["point", *study.axes, *study.objectives, "status"]
    return Table(
        tuple(map(heading, columns)),
        tuple(
            tuple(_cell(column, row) for column in columns)
            for row in sorted(study.rows, key=rank)[:MOST_ROWS]
        ),
    )
