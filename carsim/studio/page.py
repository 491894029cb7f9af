"""The empty page: controls on the left, places of results on the right."""

from typing import Any

from dash import dcc, html

from carsim.studio.fields import GROUPS, Field

TITLE = "carsim studio"

PLACES = ("step", "layer")
"""Sliders of the timeline."""

EXAMPLE = "machine.drs.latch_cycles=16"


def layout() -> html.Div:
    """The page before anything is known."""

    def button(key: str, text: str, title: str = "") -> html.Button:
        return html.Button(text, id=key, type="button", title=title or text)

    actions = [
        button("undo", "Undo", "back to the design before"),
        button("redo", "Redo"),
        button("pin", "Pin", "keep this design to compare others with it"),
        button("unpin", "Unpin", "forget what is pinned"),
        button("copy-link", "Copy link"),
        button("copy-command", "Copy as command"),
        button("copy-yaml", "Copy as YAML"),
        button("theme", "Dark / light"),
        html.Span(id="done", role="status"),
    ]
    more = html.Fieldset(
        [
            html.Legend("Anything else"),
            _labelled("set", "any field and its value", _text("set", EXAMPLE), width="wide"),
            _labelled("store", "folder of a sweep", _text("store", "out"), width="wide"),
        ]
    )
    label = {"aria-label": "the design"}
    groups = [
        html.Fieldset([html.Legend(name), *map(_control, group)]) for name, group in GROUPS.items()
    ]
    form = html.Form([*groups, more], className="controls", **label)
    head = [html.H1(TITLE), html.Nav(actions, **{"aria-label": "actions"})]
    stores = [dcc.Store(id=key) for key in ("shown", "later", "slid", "fronted")]
    columns = html.Div([form, html.Main(_results())], className="columns")
    stores.append(dcc.Location(id="url", refresh=False))
    return html.Div([*stores, html.Header(head), columns], className="studio")


def _results() -> list[Any]:
    pair = [html.Div(id="roofline-place"), html.Div(id="curve-place")]
    places = [_place(key, f"{key} of the timeline") for key in PLACES]
    yaml = [html.Summary("The resolved design as YAML"), html.Pre(id="yaml", tabIndex=0)]
    return [
        html.Div(id="trouble", role="alert"),
        html.H2(id="title"),
        html.Div(id="tiles", className="tiles"),
        html.Div(id="misfit"),
        html.Div(id="front-place"),
        html.Div(id="breakdown-place"),
        html.Div(id="comparison"),
        html.Div(pair, className="pair"),
        html.Div(id="timeline-place"),
        html.Div(places, className="places"),
        html.H2("What limits each phase"),
        html.Div(id="limits"),
        html.P(id="limits-note"),
        html.H2("What is full"),
        html.Div(id="fit"),
        html.Div(id="answer"),
        html.H2("The same elsewhere"),
        html.Pre(id="command", tabIndex=0),
        html.Details(yaml),
    ]


def _place(key: str, label: str) -> html.Label:
    return html.Label([html.Span(label), _slider(key, 0)])


def _control(field: Field) -> html.Div:
    key, label = field.key, f"{field.label} [{field.unit}]" if field.unit else field.label
    if field.is_menu:
        menu = dcc.Dropdown(id=key, options=[], clearable=False, searchable=False, maxHeight=320)
        return _labelled(key, label, menu)
    name = html.Span(f"slider of {field.label}", className="unseen")
    slider = _slider(f"{key}-slider", len(field.options) - 1)
    return _labelled(key, label, _text(key), html.Label([name, slider], className="slider"))


def _labelled(key: str, label: str, *parts: Any, width: str = "") -> html.Div:
    error = html.Div(id=f"{key}-error", className="refusal", role="alert")
    return html.Div([html.Label(label, htmlFor=key), *parts, error], className=f"control {width}")


def _text(key: str, example: str = "") -> dcc.Input:
    told = {"autoComplete": "off", "spellCheck": False, "placeholder": example}
    return dcc.Input(id=key, type="text", debounce=True, **told)


def _slider(key: str, last: int) -> dcc.Input:
    return dcc.Input(id=key, type="range", min=0, max=last, step=1)
