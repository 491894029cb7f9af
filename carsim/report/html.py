"""Documents as one HTML file that needs no other and reaches for nothing.

What only a screen can show is added to the parts of :mod:`carsim.report.document`: charts that
answer the pointer, tiles, folds. Everything that comes from a file is escaped, and the page's own
policy (Content-Security-Policy) lets a browser run the page's scripts, known by their hashes, and
nothing else: no request leaves the page even if an escape were forgotten.
"""

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from carsim.errors import InputError
from carsim.report.document import Picture, Section, Table
from carsim.text import html_table

GENERATOR = "carsim"
"""Named in the page; a file without it was not made by carsim, and is not replaced unasked."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure of Plotly, and its picture for paper and for browsers without scripts.

    Attributes:
        name: Of the picture.
        figure: ``data`` and ``layout``; the layout has a height.
        alt: What it shows in words.
        caption: What to know when reading it.
    """

    name: str
    figure: Mapping[str, Any]
    alt: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Few figures, large: (label, figure, what to know about it)."""

    tiles: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms, each with a text."""

    terms: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Alert:
    """What nobody may overlook, a paragraph each."""

    paragraphs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """Text as it is, shown on request."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Links:
    """Files beside the page: (address, name, what it holds)."""

    links: tuple[tuple[str, str, str], ...]


Part = str | Table | Picture | Chart | Tiles | Terms | Alert | Fold | Links


@dataclass(frozen=True, slots=True)
class PageSection:
    """What stands under one heading; without a heading, at the top of the page."""

    heading: str
    parts: tuple[Part, ...]


def links_to(
    meanings: Mapping[str, str], folder: Path, address: str
) -> tuple[tuple[str, str, str], ...]:
    """The files of a folder that are there, as :class:`Links` takes them.

    Args:
        meanings: What each file holds, by its name.
        folder: Where they are.
        address: Of that folder as the page links to it; empty if they are in the same place.
    """
    return tuple(
        (f"{address}{quote(name)}", name, text)
        for name, text in meanings.items()
        if (folder / name).is_file()
    )


def as_html(
    title: str, sections: Sequence[Section | PageSection], pictures: Mapping[str, bytes]
) -> str:
    """The document as HTML of one file.

    Args:
        title: Its heading.
        sections: What it says.
        pictures: Name -> PNG, for every picture and chart of the sections.

    Raises:
        InputError: It has charts, and plotly is not installed.
    """
    scripts = [_asset("page.js")]
    if any(isinstance(part, Chart) for section in sections for part in section.parts):
        scripts.insert(0, plotly_script())
    body = [f"<h1>{html.escape(title)}</h1>"]
    for section in sections:
        if section.heading:
            body.append(f"<h2>{html.escape(section.heading)}</h2>")
        parts = "\n".join(_part(part, pictures) for part in section.parts)
        body.append(parts if section.heading else f'<div class="answer">\n{parts}\n</div>')
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data: blob:; "
        f"style-src 'unsafe-inline'; script-src {hashes}"
    )
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        f'<meta name="generator" content="{GENERATOR}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(title)}</title>",
        f"<style>\n{_asset('page.css')}</style>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n'
        + "\n".join(head)
        + "\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n"
        + "\n".join(f"<script>{script}</script>" for script in scripts)
        + "\n</body>\n</html>\n"
    )


def plotly_script() -> str:
    """What draws the charts.

    Raises:
        InputError: plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InputError(
            "carsim report", "needs plotly, which is not installed", "pip install 'carsim[report]'"
        ) from None
    # As a browser reads it, so that the hash is that of what it runs.
    script: str = get_plotlyjs().replace("\r\n", "\n").replace("\r", "\n")
    return script


def _part(part: Part, pictures: Mapping[str, bytes]) -> str:
    match part:
        case Table():
            return f'<div class="scroll">{_table(part)}</div>'
        case Picture():
            return f"<p>{_image(part.alt, pictures[part.name])}</p>"
        case Chart():
            return _chart(part, pictures[part.name])
        case Tiles():
            inside = "".join(
                f'<div class="tile"><span>{html.escape(label)}</span><b>{html.escape(figure)}</b>'
                f"<span>{html.escape(note)}</span></div>"
                for label, figure, note in part.tiles
            )
            return f'<div class="tiles">{inside}</div>'
        case Terms():
            inside = "".join(
                f"<dt>{html.escape(term)}</dt><dd>{html.escape(text)}</dd>"
                for term, text in part.terms
            )
            return f"<dl>{inside}</dl>"
        case Alert():
            inside = "".join(f"<p>{html.escape(text)}</p>" for text in part.paragraphs)
            return f'<div class="alert" role="alert">{inside}</div>'
        case Fold():
            label, text = html.escape(part.label), html.escape(part.text)
            return f"<details><summary>{label}</summary><pre>{text}</pre></details>"
        case Links():
            inside = "".join(
                f'<dt><a href="{html.escape(address)}">{html.escape(name)}</a></dt>'
                f"<dd>{html.escape(text)}</dd>"
                for address, name, text in part.links
            )
            return f"<dl>{inside}</dl>"
        case _:
            return f"<p>{html.escape(part)}</p>"


def _table(table: Table) -> str:
    return html_table(
        table.headings,
        table.rows,
        text_columns=table.text_columns,
        marked=table.marked,
        strong=table.strong,
    )


def _chart(chart: Chart, picture: bytes) -> str:
    # An embedded "</script>" would end the element; "<" is escaped as JSON allows.
    data = json.dumps(chart.figure, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    caption = f"<figcaption>{html.escape(chart.caption)}</figcaption>" if chart.caption else ""
    return (
        f'<figure class="chart" id="{html.escape(chart.name)}">'
        f'<script type="application/json">{data}</script><div class="canvas"></div>'
        f"{_image(chart.alt, picture)}{caption}</figure>"
    )


def _image(alt: str, picture: bytes) -> str:
    data = base64.b64encode(picture).decode("ascii")
    return f'<img src="data:image/png;base64,{data}" alt="{html.escape(alt)}">'


def _asset(name: str) -> str:
    return (files("carsim.report") / "assets" / name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
