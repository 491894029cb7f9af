"""Parts of the page, made of what ``carsim report`` makes its pages of: tables and figures."""

from typing import Any

from dash import dcc, html, no_update, set_props

from carsim.report.figures.interactive import plotly
from carsim.report.figures.plot import Plot
from carsim.report.html import unbroken
from carsim.studio.fields import GROUPS, Field
from carsim.text import Figure, Table

GRAPH: dict[str, Any] = {
    "responsive": True,
    "displaylogo": False,
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    "toImageButtonOptions": {"format": "svg"},
}


def figure_of(plot: Plot) -> dict[str, Any]:
    """A plot as the figure of a graph; what a reader zoomed into stays while its lines do."""
    drawn = plotly(plot)
    drawn["layout"]["uirevision"] = "|".join(
        (*plot.panels[0].categories, str(plot.panels[0].x_range))
    )
    return drawn


def graph(key: str, plot: Plot, note: str = "") -> html.Figure:
    """A plot, its title (which wraps where a chart's own would be cut), and hints for reading."""
    chart = dcc.Graph(id=key, figure=figure_of(plot), config=GRAPH, responsive=True)
    label = {"aria-label": plot.alt}
    return html.Figure(
        [
            html.H3(plot.full_title, id=f"{key}-title"),
            html.Div(chart, id=f"{key}-box", role="group", style=_room(plot), **label),
            html.Figcaption(f"{plot.caption} {note}".strip(), id=f"{key}-caption"),
        ],
        className="panel",
    )


def drawn(key: str, plot: Plot, there: str | None, note: str = "") -> Any:
    """What a place of a graph becomes: a new graph, or the one that is there, drawn again.

    Args:
        key: Name of the graph.
        plot: What it shows.
        there: Its name if there is one already; else None.
        note: A further hint.
    """
    if there is None:
        return graph(key, plot, note)
    set_props(f"{key}-title", {"children": plot.full_title})
    set_props(f"{key}-box", {"style": _room(plot)})
    set_props(key, {"figure": figure_of(plot)})
    set_props(f"{key}-caption", {"children": f"{plot.caption} {note}".strip()})
    return no_update


def _room(plot: Plot) -> dict[str, Any]:
    return {"height": plotly(plot)["layout"]["height"]}


def table_of(table: Table, label: str) -> html.Div:
    """A table of the report as a table of the page; it scrolls by itself, and by keyboard."""
    marks = {**dict.fromkeys(table.strong, "strong"), **dict.fromkeys(table.marked, "marked")}
    head = [
        html.Th(text, scope="col", className=_align(i, table))
        for i, text in enumerate(table.headings)
    ]
    rows = [
        html.Tr(
            [_cell(i, cell, table) for i, cell in enumerate(cells)], className=marks.get(place, "")
        )
        for place, cells in enumerate(table.rows)
    ]
    return html.Div(
        html.Table([html.Thead(html.Tr(head)), html.Tbody(rows)]),
        className="scroll",
        tabIndex=0,
        role="region",
        **{"aria-label": label},
    )


def tiles_of(tiles: "list[tuple[str, str, str]]") -> list[html.Div]:
    """The headline figures."""
    return [
        html.Div(
            [html.Span(label), html.B(unbroken(value)), html.Span(unbroken(note))], className="tile"
        )
        for label, value, note in tiles
    ]


def alert(texts: "list[str]") -> html.Div:
    """Something that is wrong."""
    return html.Div([html.P(unbroken(text)) for text in texts], className="alert")


def controls() -> list[html.Fieldset]:
    """All fields, group by group."""
    return [
        html.Fieldset([html.Legend(name), *(_control(field) for field in group)])
        for name, group in GROUPS.items()
    ]


def _control(field: Field) -> html.Div:
    label = f"{field.label} [{field.unit}]" if field.unit else field.label
    error = html.Div(id=f"{field.key}-error", className="refusal", role="alert")
    if field.is_menu:
        menu = dcc.Dropdown(
            id=field.key, options=[], clearable=False, searchable=False, maxHeight=320
        )
        return html.Div([html.Label(label, htmlFor=field.key), menu, error], className="control")
    value = dcc.Input(
        id=field.key, type="text", debounce=True, autoComplete="off", spellCheck=False
    )
    slider = dcc.Input(
        id=f"{field.key}-slider", type="range", min=0, max=len(field.options) - 1, step=1
    )
    name = html.Span(f"slider of {field.label}", className="unseen")
    return html.Div(
        [
            html.Label(label, htmlFor=field.key),
            value,
            html.Label([name, slider], className="slider"),
            error,
        ],
        className="control",
    )


def _align(column: int, table: Table) -> str:
    return "" if column < table.text_columns else "number"


def _cell(column: int, text: str, table: Table) -> html.Td:
    share = text.share if isinstance(text, Figure) else None
    style = None if share is None else {"--bar": f"{min(1.0, max(0.0, share)):.3f}"}
    return html.Td(unbroken(str(text)), className=_align(column, table), style=style)
