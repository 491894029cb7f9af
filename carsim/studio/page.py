"""The empty page: the answer, the controls, and places of the figures."""

from collections.abc import Iterable, Sequence
from typing import Any

from dash import dcc, html

from carsim.metrics import INTERVALS, METRICS
from carsim.report.figures.slices import HINT
from carsim.report.words import WORDS
from carsim.studio.fields import GROUPS, Field

TITLE = "carsim studio"

PLACES = ("step", "layer")
"""Sliders of the timeline."""

EXAMPLE = "machine.drs.latch_cycles=16"

KINDS = ("video", "text")
"""Kinds of work whose controls are hidden where a model makes something else."""

LIVE_MS = 2000
"""Milliseconds between two looks at the store of a sweep that goes on."""

SWEPT = ("over", "by", "metric")
"""Menus of a sweep in place."""


def layout() -> html.Div:
    """The page before anything is known."""
    actions = [
        _button("pin", "Pin this design", "keep it to compare others with it", "primary"),
        _button("copy-link", "Copy link"),
        _button("copy-command", "Copy command", "carsim run with the same figures"),
        html.Span(id="done", role="status"),
        _sign("busy"),
    ]
    more = [
        html.Legend("Anything else"),
        _labelled("set", "any field and its value", _text("set", EXAMPLE), width="wide"),
        _labelled("store", "folder of a sweep", _text("store", "out"), width="wide"),
    ]
    groups = [_group(*each) for each in GROUPS.items()]
    groups.append(html.Fieldset(more))
    form = html.Form(groups, className="controls", **{"aria-label": "the design"})
    head = [html.H1(TITLE), html.Nav(actions, **{"aria-label": "actions"})]
    stores = [
        dcc.Store(id=key) for key in ("shown", "later", "slid", "fronted", "explored", "opened")
    ]
    answered = [
        html.Div(id="trouble", role="alert"),
        html.H2(id="title"),
        html.Div(id="tiles", className="tiles"),
        html.Div(id="misfit"),
        html.Div(id="answer"),
    ]
    answer = html.Section(answered, className="answer", **{"aria-label": "the answer"})
    columns = html.Main([answer, form, html.Div(_figures(), className="figures")])
    stores.append(dcc.Interval(id="tick", interval=LIVE_MS, disabled=True))
    stores.append(dcc.Location(id="url", refresh=False))
    return html.Div([*stores, html.Header(head), columns], className="studio")


def _figures() -> list[Any]:
    pins = [_button("unpin", "Forget what is pinned"), html.Div(id="comparison")]
    places = [html.Label([html.Span(f"{key} of the timeline"), _slider(key, 0)]) for key in PLACES]
    yaml = [_button("copy-yaml", "Copy"), html.Pre(id="yaml", tabIndex=0)]
    tricks = [_button("list-tricks", "Compare them"), _sign("tricks-busy"), html.Div(id="tricks")]
    target = [
        _labelled("target", "condition", _text("target", "frames_per_s >= 1"), width="wide"),
        _sign("target-busy"),
        html.Div(id="machines"),
    ]
    return [
        html.Section(_front(), id="front-section", hidden=True),
        html.Div(id="breakdown-place"),
        html.Section(pins, id="pinned", hidden=True),
        html.Div(id="roofline-place"),
        html.H2("Sweep one or two fields"),
        html.Div(list(_swept()), className="menus"),
        _sign("sweep-busy"),
        html.Div(id="sweep-place"),
        html.H2("One layer of one step"),
        html.Div(places, className="places"),
        html.Div(id="timeline-place"),
        html.P(HINT, id="timeline-told", className="told", role="status"),
        html.Div(id="waits"),
        html.Div(id="limits"),
        html.H2("The same elsewhere"),
        html.Pre(id="command", tabIndex=0),
        html.Details([html.Summary("The resolved design as YAML"), *yaml]),
        html.Details([html.Summary("Every policy, and pairs of them, on this machine"), *tricks]),
        html.Details([html.Summary("The cheapest machine that reaches a target"), *target]),
        html.H2("Words"),
        html.P(" ".join(WORDS.values())),
    ]


def _front() -> list[Any]:
    """Places of the points of a sweep; a script draws the explorer, and keeps it."""
    return [
        html.H2(id="front-title"),
        html.P(id="near"),
        html.Div(id="worth"),
        html.Div(id="explorer"),
    ]


def _swept() -> Iterable[html.Div]:
    fields = {
        field.key: f"{group}: {field.title}"
        for group, fields in GROUPS.items()
        for field in fields
        if field.choices and field.path != "trace"
    }
    left_out = {end for ends in INTERVALS.values() for end in ends}
    figures = {
        name: metric.heading
        for name, metric in METRICS.items()
        if metric.better and name not in left_out
    }
    for key, label, entries in (
        ("over", "field", {"": "none"} | fields),
        ("by", "second field", {"": "none"} | fields),
        ("metric", "figure", {"": "the headline"} | figures),
    ):
        options = [{"label": text, "value": value} for value, text in entries.items()]
        menu = dcc.Dropdown(id=key, options=options, clearable=False, maxHeight=320)
        yield _labelled(key, label, menu, width="wide")


def _button(key: str, text: str, title: str = "", look: str = "") -> html.Button:
    return html.Button(text, id=key, type="button", title=title or text, className=look)


def _sign(key: str) -> html.Span:
    """Shown while the server computes."""
    return html.Span("computing", id=key, className="busy", hidden=True, role="status")


def _group(name: str, fields: Sequence[Field]) -> html.Fieldset:
    """The controls of a group, hidden at first if they are of one kind of work."""
    parts, made = [html.Legend(name), *map(_control, fields)], fields[0].made
    return html.Fieldset(parts, id=f"of-{made}", hidden=True) if made else html.Fieldset(parts)


def _control(field: Field) -> html.Div:
    key = field.key
    if field.is_menu:
        menu = dcc.Dropdown(id=key, options=[], clearable=False, searchable=False, maxHeight=320)
        return _labelled(key, field.title, menu)
    parts: list[Any] = [_text(key, "text:2048+512" if key == "workload" else "")]
    if field.choices:
        name = html.Span(f"slider of {field.label}", className="unseen")
        slider = _slider(f"{key}-slider", len(field.options) - 1)
        parts.append(html.Label([name, slider], className="slider"))
    return _labelled(key, field.title, *parts)


def _labelled(key: str, label: str, *parts: Any, width: str = "") -> html.Div:
    error = html.Div(id=f"{key}-error", className="refusal", role="alert")
    return html.Div([html.Label(label, htmlFor=key), *parts, error], className=f"control {width}")


def _text(key: str, example: str = "") -> dcc.Input:
    told = {"autoComplete": "off", "spellCheck": False, "placeholder": example}
    return dcc.Input(id=key, type="text", debounce=True, **told)


def _slider(key: str, last: int) -> dcc.Input:
    return dcc.Input(id=key, type="range", min=0, max=last, step=1)
