"""Parts of the page, made of what ``carsim report`` makes its pages of: tables and figures."""

from collections.abc import Iterable, Sequence
from typing import Any

from dash import dcc, html

from carsim.base.text import Figure, Table
from carsim.report.figures.interactive import plotly
from carsim.report.figures.plot import Plot
from carsim.report.html import unbroken
from carsim.report.run_page import Tile, TileChange
from carsim.report.run_words import Section

GRAPH: dict[str, Any] = {
    "responsive": True,
    "displaylogo": False,
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    "toImageButtonOptions": {"format": "svg"},
}


def drawn(key: str, plot: Plot, there: str | None, note: str = "") -> dict[str, Any]:
    """Properties of the page that show a graph: as a new one, or as the one that is there.

    Its title wraps where a chart's own would be cut.

    Args:
        key: Name of the graph.
        plot: What it shows.
        there: Its name if there is one already; else None.
        note: A further hint.
    """
    figure = plotly(plot)
    first = plot.panels[0]  # what a reader zoomed into stays while its lines do
    figure["layout"]["uirevision"] = "|".join((*first.categories, str(first.x_range)))
    room = {"height": figure["layout"]["height"]}
    caption = f"{plot.caption} {note}".strip()
    if there is not None:
        texts = {f"{key}-title.children": plot.full_title, f"{key}-caption.children": caption}
        return texts | {f"{key}-box.style": room, f"{key}.figure": figure}
    chart = dcc.Graph(id=key, figure=figure, config=GRAPH, responsive=True)
    parts = [
        html.H3(plot.full_title, id=f"{key}-title"),
        html.Div(chart, id=f"{key}-box", role="group", style=room, **{"aria-label": plot.alt}),
        html.Figcaption(caption, id=f"{key}-caption"),
    ]
    return {f"{key}-place.children": html.Figure(parts, className="panel")}


def table_of(table: Table, label: str) -> html.Div:
    """A table of the report as a table of the page; it scrolls by itself, and by keyboard."""
    marks = {**dict.fromkeys(table.strong, "strong"), **dict.fromkeys(table.marked, "marked")}
    head = [
        html.Th(text, scope="col", className=_align(i, table))
        for i, text in enumerate(table.headings)
    ]
    rows = []
    for place, cells in enumerate(table.rows):
        row = [_cell(i, cell, table) for i, cell in enumerate(cells)]
        rows.append(html.Tr(row, className=marks.get(place, "")))
    whole = html.Table([html.Thead(html.Tr(head)), html.Tbody(rows)])
    told = {"role": "region", "aria-label": label}
    return html.Div(whole, className="scroll", tabIndex=0, **told)


def tiles_of(tiles: Sequence[Tile], changes: Sequence[TileChange] = ()) -> list[html.Div]:
    """The headline figures.

    Args:
        tiles: The figures.
        changes: Change of each from a pinned design; none if nothing is pinned.
    """
    found = []
    for place, (label, value, note) in enumerate(tiles):
        parts = [html.Span(label), html.B(unbroken(value)), html.Span(unbroken(note))]
        if changes and changes[place].text:
            change = changes[place]
            told = f"{change.text}, {change.verdict}" if change.verdict else change.text
            parts.append(html.Span(unbroken(told), className=f"change {change.verdict}".strip()))
        found.append(html.Div(parts, className="tile"))
    return found


def sections(of: "Iterable[Section]") -> list[Any]:
    """Headings, and texts and tables below them."""
    found: list[Any] = []
    for heading, parts in of:
        found.append(html.H3(heading))
        found += [
            html.P(unbroken(part)) if isinstance(part, str) else table_of(part, heading)
            for part in parts
        ]
    return found


def alert(texts: "list[str]") -> html.Div:
    """Something that is wrong."""
    return html.Div([html.P(unbroken(text)) for text in texts], className="alert")


def _align(column: int, table: Table) -> str:
    return "" if column < table.text_columns else "number"


def _cell(column: int, text: str, table: Table) -> html.Td:
    share = text.share if isinstance(text, Figure) else None
    width = 6 * min(1.0, max(0.0, share or 0.0))
    style = None if share is None else {"backgroundSize": f"{width:.3f}rem 82%"}
    return html.Td(unbroken(str(text)), className=_align(column, table), style=style)
