"""The store of a sweep or a search as a page: the answer, the front, and misfits with reasons."""

from collections.abc import Iterator, Sequence

from carsim.base.text import Figure, Table, count
from carsim.explore.frame import origin_note
from carsim.metrics import METRICS
from carsim.report.explorer import cheapest_near, explorer, worth_table
from carsim.report.figures.pareto import axis_title, front_plot, heading
from carsim.report.front_table import front_notes, front_table, text_of
from carsim.report.html import page, picture
from carsim.report.stored_study import StoredStudy

MOST_REASONS = 200
"""Rows of the table of reasons at most."""

BETTER = {"min": "the least", "max": "the most"}


def study_page(study: StoredStudy, links: Sequence[str]) -> str:
    """The page of a study as HTML.

    Args:
        study: The study.
        links: Names of files beside the page.

    Raises:
        InputError: Its objectives or constraints are none.
    """
    return page(
        "study.html",
        f"{study.name}, a {study.facts['kind']} of {count(_points_asked(study), 'point')}",
        study=study,
        failed=f"{count(study.counts['failed'], 'point')} could not be evaluated.",
        tiles=list(_tiles(study)),
        answer=list(_answer(study)),
        front=front_table(study),
        front_picture=picture(front_plot({study.name: study})) if len(study.fitting) else None,
        explorer=explorer(study),
        worth=worth_table(study) if len(study.front) and not study.is_part else None,
        no_worth=_no_worth(study),
        near=cheapest_near(study),
        asked=list(_asked(study)),
        misfits=_misfits(study),
        notes=list(front_notes(study)),
        links=links,
    )


def _points_asked(study: StoredStudy) -> int:
    """Points of the study; of a search, those that were evaluated."""
    if study.facts["kind"] == "search":
        return len(study.frame)
    return int(study.facts["points"])


def _no_worth(study: StoredStudy) -> str:
    """Why the page does not say what an axis is worth; empty where it does, or has no front.

    Points that were left out are worse than the front, so the best of a bad choice is not known.
    """
    if not study.is_part or study.front.empty:
        return ""
    return (
        f"Only {len(study.frame):,} of {study.facts['points']:,} points have a result, so what an "
        "axis is worth is not known. A sweep of all points, of fewer values, tells it."
    )


def _title(name: str) -> str:
    """A metric or an axis, without its unit."""
    return METRICS[name].title if name in METRICS else axis_title(name)


def _tiles(study: StoredStudy) -> Iterator[tuple[str, str, str]]:
    """Headline figures: label, value and note of each."""
    front = study.front
    titles = [_title(name) for name in study.objectives]
    yield "points", f"{len(study.frame):,}", f"{study.counts['ok']:,} fit their board"
    yield "on the front", f"{len(front):,}", ", ".join(titles)
    if front.empty:
        return
    for name, direction in study.objectives.items():
        best = text_of(name, front[name].agg(direction))
        knee = text_of(name, study.knee[name].item())
        yield f"best {heading(name)}", best, f"at the knee {knee}"


def _answer(study: StoredStudy) -> Iterator[str]:
    """The answer in sentences: points, assumptions, and the front."""
    front = study.front
    ways = _ways(study)
    yield f"{_points_with_result(study)}: {study.outcome}."
    if study.assumed:
        yield study.assumed
    if front.empty:
        yield f"None of them fits, meets the constraints and has {ways}, so that there is no front."
        return
    meeting = f" of those that meet {'; '.join(study.constraints)}" if study.constraints else ""
    yield f"The Pareto front of {ways} has {count(len(front), 'point')}{meeting}."


def _points_with_result(study: StoredStudy) -> str:
    """Number of points with a result, and of all points where others have none."""
    points = count(len(study.frame), "point")
    if not study.is_part:
        return points
    others = "proven not to be on the front" if study.is_proven else "not evaluated yet"
    missing = study.facts["points"] - len(study.frame)
    return f"{points} with a result, {missing:,} {others}"


def _ways(study: StoredStudy) -> str:
    """The objectives, each with its direction."""
    texts = []
    for name, direction in study.objectives.items():
        texts.append(f"{BETTER[direction]} {_title(name)}")
    return ", ".join(texts)


def _asked(study: StoredStudy) -> Iterator[tuple[str, str]]:
    """Terms of what was asked, each with its text."""
    yield "objectives", _ways(study)
    if study.constraints:
        yield "constraints", "; ".join(study.constraints)
    for name, sha256 in study.facts["traces"].items():
        yield f"trace {name}", f"sha256 {sha256[:12]}"
    if note := origin_note(study.frame):
        yield "decisions", note
    yield "made by", f"carsim {study.facts['version']}"


def _misfits(study: StoredStudy) -> Table:
    """Reasons with their numbers left out, an example each."""
    examples: dict[tuple[str, str], list[str]] = {}
    wrong = study.frame[study.frame["status"] != "ok"]
    for status, text in zip(wrong["status"], wrong["reason"].astype(str), strict=True):
        # A design can lack several resources.
        reasons = text.split("; ") if status == "misfit" else [text]
        for reason in reasons:
            subject = reason.partition(":")[0]
            examples.setdefault((status, subject), []).append(reason)
    most_first = sorted(examples.items(), key=lambda item: -len(item[1]))
    rows = []
    for (status, _), reasons in most_first[:MOST_REASONS]:
        points = len(reasons)
        rows.append((status, reasons[0], Figure(f"{points:,}", float(points))))
    return Table(("status", "for example", "points"), tuple(rows), text_columns=2)
