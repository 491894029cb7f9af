"""Pages: one HTML file that needs no other and sends no request.

Pages are templates of Jinja (``carsim/report/templates``), which escapes every text that comes from
a file. Beside that, the page's own policy (Content-Security-Policy) lets a browser run the page's
scripts, known by their hashes, and nothing else: no request leaves the page even if an escape were
forgotten.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from carsim.base.environment import library
from carsim.report.figures.interactive import plotly
from carsim.report.figures.plot import Plot
from carsim.report.words import spelled_out

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|/|[A-Za-z]{1,4}\b)")
"""A space that a line should not break at, such as the one of ``387 s``."""


class Picture(NamedTuple):
    """A figure of a page that no script draws, or another one than Plotly.

    Attributes:
        plot: The figure, with its title and its description in words.
        png: Its picture.
    """

    plot: Plot
    png: bytes


class Chart(NamedTuple):
    """A figure of a page.

    Attributes:
        plot: The figure, with its title, its caption and its description in words.
        data: ``data`` and ``layout`` of Plotly; the layout has a height.
        png: The same for paper and for browsers without scripts.
    """

    plot: Plot
    data: Mapping[str, Any]
    png: bytes


def picture(plot: Plot) -> Picture:
    """A plot as a picture of a page."""
    from carsim.report.figures.draw import image

    return Picture(plot, image(plot))


def chart(plot: Plot) -> Chart:
    """A plot as a figure of a page."""
    from carsim.report.figures.draw import image

    return Chart(plot, plotly(plot), image(plot))


WORDS_PLACE = "<!-- words -->"
"""Place of a page at which the words that it uses are spelled out."""


def page(template: str, title: str, **content: Any) -> str:
    """A page as HTML of one file, which spells out the words that it uses.

    Args:
        template: Name of the template, such as ``run.html``.
        title: Heading of the page.
        content: Variables of the template. ``charts`` holds charts by name; if there are any,
            the page carries Plotly. ``explorer`` is what :mod:`carsim.report.explorer` makes.

    Raises:
        InputError: It has charts, and plotly is not installed.
    """
    scripts = [asset("page.js")]
    if content.get("charts"):
        scripts.insert(0, plotly_script())
    if content.get("explorer"):
        scripts.append(asset("explorer.js"))
    content |= {"title": title, "style": Markup(asset("page.css"))}
    content["scripts"] = list(map(Markup, scripts))
    whole = fragment(template, **content)
    sentences = fragment("words.html", sentences=spelled_out(whole))
    return whole.replace(WORDS_PLACE, sentences, 1)


def fragment(template: str, **content: Any) -> str:
    """A part of a page as HTML, without scripts; see :func:`page`."""
    return _environment().get_template(template).render(content)


def plotly_script() -> str:
    """The script that draws the charts.

    Raises:
        InputError: plotly is not installed.
    """
    # As a browser reads it, so that the hash is that of what it runs.
    script: str = library("plotly.offline", "a page of carsim report").get_plotlyjs()
    return script.replace("\r\n", "\n").replace("\r", "\n")


@cache
def _environment() -> Environment:
    on: Any = dict.fromkeys(("autoescape", "trim_blocks", "lstrip_blocks"), True)
    loader = PackageLoader("carsim.report")
    environment = Environment(loader=loader, undefined=StrictUndefined, finalize=unbroken, **on)
    environment.filters.update(
        bar=lambda share: f"{min(1.0, max(0.0, share)):.3f}",
        base64=_base64,
        breakable=_breakable,
        digest=lambda script: _base64(hashlib.sha256(script.encode()).digest()),
        json=_json,
    )
    return environment


def unbroken(value: Any) -> Any:
    """A text whose numbers stay on one line with their units; markup is left alone."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return _BEFORE_UNIT.sub("\u00a0", str(value)) if is_text else value


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _breakable(heading: str) -> Markup:
    """A heading that may be broken within a name such as ``machine.weight_buffer_kib``."""
    return Markup(re.sub(r"([_.])", r"\1<wbr>", str(escape(heading))))


def _json(document: Mapping[str, Any]) -> Markup:
    # An embedded "</script>" would end the element; "<" is escaped as JSON allows.
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def asset(name: str) -> str:
    """A style or a script of pages."""
    return (files("carsim.report") / "assets" / name).read_text(encoding="utf-8")
