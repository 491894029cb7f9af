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
    # The browser keeps a reader's zoom as long as this text stays: while the lines do.
    first_panel = plot.panels[0]
    lines = [*first_panel.categories, str(first_panel.x_range)]
    figure["layout"]["uirevision"] = "|".join(lines)
    box_style = {"height": figure["layout"]["height"]}
    caption = f"{plot.caption} {note}".strip()
    if there is not None:
        return {
            f"{key}-title.children": plot.full_title,
            f"{key}-caption.children": caption,
            f"{key}-box.style": box_style,
            f"{key}.figure": figure,
        }
    chart = dcc.Graph(id=key, figure=figure, config=GRAPH, responsive=True)
    described = {"aria-label": plot.alt}  # no name of an argument in Python has a hyphen
    new_graph = [
        html.H3(plot.full_title, id=f"{key}-title"),
        html.Div(chart, id=f"{key}-box", role="group", style=box_style, **described),
        html.Figcaption(caption, id=f"{key}-caption"),
    ]
    return {f"{key}-place.children": html.Figure(new_graph, className="panel")}


def table_of(table: Table, label: str) -> html.Div:
    """A table of the report as a table of the page; it scrolls by itself, and by keyboard."""
    headings = []
    for column, text in enumerate(table.headings):
        headings.append(html.Th(text, scope="col", className=_align(column, table)))
    rows = []
    for number, cells in enumerate(table.rows):
        row = [_cell(column, text, table) for column, text in enumerate(cells)]
        rows.append(html.Tr(row, className=_mark(number, table)))
    whole = html.Table([html.Thead(html.Tr(headings)), html.Tbody(rows)])
    described = {"aria-label": label}
    return html.Div(whole, className="scroll", tabIndex=0, role="region", **described)


def _mark(row: int, table: Table) -> str:
    """Class of a row: that of one that breaks something, or that matters most."""
    if row in table.marked:
        return "marked"
    return "strong" if row in table.strong else ""


def tiles_of(tiles: Sequence[Tile], changes: Sequence[TileChange] = ()) -> list[html.Div]:
    """The headline figures.

    Args:
        tiles: The figures.
        changes: Change of each from a pinned design; none if nothing is pinned.
    """
    boxes = []
    for number, (label, value, note) in enumerate(tiles):
        lines = [html.Span(label), html.B(unbroken(value)), html.Span(unbroken(note))]
        if changes and changes[number].text:
            lines.append(_change(changes[number]))
        boxes.append(html.Div(lines, className="tile"))
    return boxes


def _change(change: TileChange) -> html.Span:
    """The change of a figure, in words and in the colour of its verdict."""
    if not change.verdict:
        return html.Span(unbroken(change.text), className="change")
    text = f"{change.text}, {change.verdict}"
    return html.Span(unbroken(text), className=f"change {change.verdict}")


def sections(sections: "Iterable[Section]") -> list[Any]:
    """Headings, and texts and tables below them."""
    elements: list[Any] = []
    for heading, contents in sections:
        elements.append(html.H3(heading))
        for content in contents:
            if isinstance(content, str):
                elements.append(html.P(unbroken(content)))
            else:
                elements.append(table_of(content, heading))
    return elements


def alert(texts: "list[str]") -> html.Div:
    """Something that is wrong."""
    return html.Div([html.P(unbroken(text)) for text in texts], className="alert")


def _align(column: int, table: Table) -> str:
    """Class of the cells of a column: numbers stand to the right."""
    return "" if column < table.text_columns else "number"


def _cell(column: int, text: str, table: Table) -> html.Td:
    """A cell; behind a share there is a bar, whose full length is 6 rem."""
    style = None
    if isinstance(text, Figure) and text.share is not None:
        width_rem = 6 * min(1.0, max(0.0, text.share))
        style = {"backgroundSize": f"{width_rem:.3f}rem 82%"}
    return html.Td(unbroken(str(text)), className=_align(column, table), style=style)
