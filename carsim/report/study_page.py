"""The store of a sweep or a search as a page: the front, what each axis does, misfits and why."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carsim.base.errors import InputError
from carsim.base.text import Figure, Table, quantity
from carsim.base.yaml_file import parse_yaml
from carsim.explore.frame import origin_note
from carsim.metrics import METRICS
from carsim.metrics.metric import finite
from carsim.report.figures.draw import image
from carsim.report.figures.pareto import axis_title, chosen_chart, front_plot, heading, thinned
from carsim.report.html import Chart, links_to, page
from carsim.report.stored_study import StoredStudy

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 200
"""Rows of a table at most."""

MOST_VALUES = 24
"""Values of an axis that are listed at most."""

ALSO = ("speedup", "replay_eligible", "limit")
"""Further metrics of points on the front, beside axes and objectives."""

BETTER = {"min": "the least", "max": "the most"}
STATUS = {"misfit": "do not", "invalid": "were refused", "failed": "could not be evaluated"}

BESIDE = {
    "points.parquet": "all points with all figures",
    "points.csv": "the same as text",
    "study.yaml": "the study",
    "store.txt": "the store, which the same command continues",
}
"""Files of a study's folder that a page links to."""


def study_page(study: StoredStudy, folder: Path, address: str) -> str:
    """The page of a study as HTML.

    Args:
        study: The study.
        folder: Folder in which it is stored.
        address: Of that folder in the page's links; empty if both are in the same place.

    Raises:
        InputError: Its objectives or constraints are none, or plotly is not installed.
    """
    columns, name = [*study.axes, *study.objectives], next(iter(study.objectives))
    known = study.front.dropna(axis="columns", how="all").columns
    also = [each for each in ALSO if each in known and each not in columns]
    return page(
        "study.html",
        f"{study.name}, a {study.facts['kind']} of {_count(len(study.frame))}",
        study=study,
        description=_description(study.facts["study"]),
        failed=f"{_count(study.counts['failed'])} could not be evaluated.",
        tiles=list(_tiles(study)),
        answer=list(_answer(study)),
        front=_table(study.front, [*columns, *also]),
        charts=front_chart(study),
        asked=list(_asked(study)),
        effects=_effects(study),
        misfits=_misfits(study),
        points=_table(study.ranked(name, study.frame), [*columns, "status"]),
        most_rows=MOST_ROWS,
        meanings=[
            (f"{heading(each)}, {each}", f"{METRICS[each].meaning}.")
            for each in dict.fromkeys([*study.objectives, *ALSO])
            if each in METRICS
        ],
        links=links_to(BESIDE, folder, address),
    )


def front_chart(study: StoredStudy) -> dict[str, Chart]:
    """The points that fit; where they are many, the front and an even choice of the others."""
    import pandas as pd

    rest = study.fitting[~study.fitting["point"].isin(study.front["point"])]
    rest = thinned(rest).assign(knee=False)
    frames = [each for each in (study.front, rest) if len(each)]
    if not frames:
        return {}
    rows = pd.concat(frames)
    numbers = rows.select_dtypes("number")
    drawn = [name for name in METRICS if name in numbers and numbers[name].nunique() > 1]
    knees = [place for place, is_knee in enumerate(rows["knee"]) if is_knee]
    data = chosen_chart(
        rows["point"].tolist(),
        {
            name: tuple(_short(value) for value in rows[name])
            for name in dict.fromkeys([*study.axes, *study.objectives, *drawn])
        },
        study.objectives,
        study.axes,
        tuple(place < len(study.front) for place in range(len(rows))),
        knees[0] if knees else None,
    )
    caption = "Choose above what goes where, and which points are shown. Rings: the front of the "
    caption += "objectives; star: its knee. A click marks a point in the tables below. Points on "
    caption += "the same place lie around each other."
    if len(study.fitting) > len(rows):
        caption += f" Drawn are {len(rows):,} points, the front among them."
    plot = front_plot({study.name: study})
    return {"front": Chart(data, image(plot), plot.alt, caption)}


def _count(count: int) -> str:
    return f"{count:,} point{'' if count == 1 else 's'}"


def _short(value: Any) -> Any:
    """Seven digits are more than a chart shows, and keep the page small."""
    value = finite(value)
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _title(name: str) -> str:
    return METRICS[name].title if name in METRICS else axis_title(name)


def _unit(name: str) -> str:
    """Unit of a metric; nothing if the text of its values says it already."""
    return heading(name).removeprefix(_title(name)).strip(" []")


def _text(name: str, value: Any) -> str:
    """A value of a column as people read it."""
    value = finite(value)
    if name in METRICS:
        return METRICS[name].text(value)
    return f"{value:,.6g}" if isinstance(value, float) else quantity(value)


def _told(names: Iterable[str], row: "pd.Series[Any]") -> str:
    """Figures of a row in words, such as ``time per video 352.0 s, machine.cores 2``."""
    return ", ".join(
        f"{_title(name)} {_text(name, row[name])} {_unit(name)}".strip() for name in names
    )


def _listed(texts: Sequence[str]) -> str:
    """One thing, ``one and another``, or ``one, another and a third``."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _cell(name: str, value: Any, note: str = "") -> str:
    """A value of a column as a cell of a table."""
    value, text = finite(value), f"{_text(name, value)} {note}".strip()
    return Figure(text, float(value)) if isinstance(value, int | float) else text


def _table(rows: "pd.DataFrame", columns: Sequence[str]) -> Table:
    """Points with some of their columns; the knee is marked."""
    rows = rows.head(MOST_ROWS)
    knees = rows["knee"].tolist() if "knee" in rows else [False] * len(rows)
    cells = (
        (
            _cell("point", point, "knee" if is_knee else ""),
            *(_cell(name, value) for name, value in zip(columns, values, strict=True)),
        )
        for point, is_knee, values in zip(
            rows["point"], knees, rows[list(columns)].to_numpy(object), strict=True
        )
    )
    strong = frozenset(place for place, is_knee in enumerate(knees) if is_knee)
    return Table(("point", *map(heading, columns)), tuple(cells), strong=strong)


def _tiles(study: StoredStudy) -> Iterator[tuple[str, str, str]]:
    front, titles = study.front, [_title(name) for name in study.objectives]
    yield "points", f"{len(study.frame):,}", f"{study.counts['ok']:,} fit their board"
    yield "on the front", f"{len(front):,}", _listed(titles)
    for name in study.objectives if len(front) else ():
        best, knee = study.ranked(name, front).iloc[0], study.knee.iloc[0]
        value = f"{_text(name, best[name])} {_unit(name)}"
        yield f"best {_title(name)}", value, f"at the knee {_text(name, knee[name])}"


def _description(text: str) -> str:
    try:
        document = parse_yaml(text, "study")
    except InputError:
        return ""
    return str(document.get("description") or "") if isinstance(document, dict) else ""


def _answer(study: StoredStudy) -> Iterator[str]:
    counts, front = study.counts, study.front
    others = "".join(
        f", {counts[status]:,} {words}" for status, words in STATUS.items() if counts[status]
    )
    yield f"Of {_count(len(study.frame))}, {counts['ok']:,} fit their board{others}."
    ways = _listed([f"{BETTER[way]} {_title(name)}" for name, way in study.objectives.items()])
    if front.empty:
        yield f"None of them fits, meets the constraints and has {ways}, so that there is no front."
        return
    meeting = f" of those that meet {'; '.join(study.constraints)}" if study.constraints else ""
    verb = "is" if len(front) == 1 else "are"
    yield f"{_count(len(front))}{meeting} {verb} on the Pareto front of {ways}."
    told = [*study.objectives, *study.axes]
    for name, way in study.objectives.items():
        best = study.ranked(name, front).iloc[0]
        yield f"{BETTER[way].capitalize()} {_title(name)}: {_told(told, best)}."
    if len(front) > 1:
        knee = study.knee.iloc[0]
        yield f"The knee, nearest to the best of all objectives: {_told(told, knee)}."


def _asked(study: StoredStudy) -> Iterator[tuple[str, str]]:
    ways = [f"{BETTER[way]} {_title(name)} ({name})" for name, way in study.objectives.items()]
    yield "objectives", ", ".join(ways)
    if study.constraints:
        yield "constraints", "; ".join(study.constraints)
    for axis in study.axes:
        yield axis, _span(study.frame[axis])
    for name, sha256 in study.facts["traces"].items():
        yield f"trace {name}", f"sha256 {sha256[:12]}"
    if note := origin_note(study.frame):
        yield "decisions", note
    yield "made by", f"carsim {study.facts['version']}"


def _span(axis: "pd.Series[Any]") -> str:
    """The values of an axis, or their ends where they are many."""
    values = axis.unique()
    if len(values) <= MOST_VALUES:
        return ", ".join(_text("", value) for value in values)
    ends = f", {_text('', axis.min())} to {_text('', axis.max())}"
    return f"{len(values):,} values{ends if axis.dtype.kind in 'iuf' else ''}"


def _effects(study: StoredStudy) -> Table:
    """The best of each value of each axis."""
    lines = []
    for axis in study.axes:
        groups = study.frame.groupby(axis, sort=False, dropna=False)
        for value, own in groups if 1 < len(groups) <= MOST_VALUES else ():
            fitting = own[own["status"] == "ok"]
            on_front = int(own["point"].isin(study.front["point"]).sum())
            best = [study.ranked(name, fitting)[name].head(1) for name in study.objectives]
            lines.append(
                (
                    axis,
                    _cell(axis, value),
                    Figure(f"{len(own):,}", len(own)),
                    Figure(f"{len(fitting):,}", len(fitting), len(fitting) / len(own)),
                    Figure(f"{on_front:,}", on_front),
                    *(_cell(str(each.name), each.item() if len(each) else None) for each in best),
                )
            )
    headings = (f"best {heading(name)}" for name in study.objectives)
    return Table(("axis", "value", "points", "fit", "on the front", *headings), tuple(lines))


def _misfits(study: StoredStudy) -> Table:
    """Reasons with their numbers left out, an example each."""
    found: dict[tuple[str, str], list[str]] = {}
    wrong = study.frame[study.frame["status"] != "ok"]
    for status, reason in zip(wrong["status"], wrong["reason"].astype(str), strict=True):
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
