"""The empty page: the answer, the controls, and places of the figures."""

from collections.abc import Iterable, Mapping, Sequence
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
    # Elements without a look: what the page remembers, a clock, and the address.
    unseen = [
        dcc.Store(id="shown"),
        dcc.Store(id="later"),
        dcc.Store(id="slid"),
        dcc.Store(id="fronted"),
        dcc.Store(id="explored"),
        dcc.Store(id="opened"),
        dcc.Interval(id="tick", interval=LIVE_MS, disabled=True),
        dcc.Location(id="url", refresh=False),
    ]
    header = html.Header([html.H1(TITLE), html.Nav(actions, **_described("actions"))])
    figures = html.Div(_figures(), className="figures")
    columns = html.Main([_answer(), _form(), figures])
    return html.Div([*unseen, header, columns], className="studio")


def _described(text: str) -> dict[str, str]:
    """A description for those who cannot see; no name of an argument in Python has a hyphen."""
    return {"aria-label": text}


def _answer() -> html.Section:
    """Places of the headline figures and of the texts around them."""
    places = [
        html.Div(id="trouble", role="alert"),
        html.H2(id="title"),
        html.Div(id="tiles", className="tiles"),
        html.Div(id="misfit"),
        html.Div(id="answer"),
    ]
    return html.Section(places, className="answer", **_described("the answer"))


def _form() -> html.Form:
    """The controls of the design."""
    groups = [_group(name, fields) for name, fields in GROUPS.items()]
    further = [
        html.Legend("Anything else"),
        _labelled("set", "any field and its value", _text("set", EXAMPLE), width="wide"),
        _labelled("store", "folder of a sweep", _text("store", "out"), width="wide"),
    ]
    groups.append(html.Fieldset(further))
    return html.Form(groups, className="controls", **_described("the design"))


def _figures() -> list[Any]:
    """Places of all figures and tables, with the controls beside them."""
    pins = [_button("unpin", "Forget what is pinned"), html.Div(id="comparison")]
    sliders = [
        html.Label([html.Span(f"{key} of the timeline"), _slider(key, last=0)]) for key in PLACES
    ]
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
        html.Div(sliders, className="places"),
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
    """Menus of a sweep in place: its fields, and its figure."""
    fields = {"": "none"}
    for group, members in GROUPS.items():
        for field in members:
            if field.choices and field.path != "trace":
                fields[field.key] = f"{group}: {field.title}"
    interval_ends = {end for ends in INTERVALS.values() for end in ends}
    figures = {"": "the headline"}
    for name, metric in METRICS.items():
        if metric.better and name not in interval_ends:
            figures[name] = metric.heading
    yield _menu("over", "field", fields)
    yield _menu("by", "second field", fields)
    yield _menu("metric", "figure", figures)


def _menu(key: str, label: str, entries: Mapping[str, str]) -> html.Div:
    """A menu with its label; ``entries`` has a text for each value."""
    options = [{"label": text, "value": value} for value, text in entries.items()]
    menu = dcc.Dropdown(id=key, options=options, clearable=False, maxHeight=320)
    return _labelled(key, label, menu, width="wide")


def _button(key: str, text: str, title: str = "", look: str = "") -> html.Button:
    """A button; ``title`` is the hint at the pointer, and ``look`` a class of its style."""
    return html.Button(text, id=key, type="button", title=title or text, className=look)


def _sign(key: str) -> html.Span:
    """Shown while the server computes."""
    return html.Span("computing", id=key, className="busy", hidden=True, role="status")


def _group(name: str, fields: Sequence[Field]) -> html.Fieldset:
    """The controls of a group, hidden at first if they are of one kind of work."""
    elements = [html.Legend(name)] + [_control(field) for field in fields]
    kind = fields[0].made
    if kind:
        return html.Fieldset(elements, id=f"of-{kind}", hidden=True)
    return html.Fieldset(elements)


def _control(field: Field) -> html.Div:
    """The menu of a field, or its text with a slider if it has stops."""
    key = field.key
    if field.is_menu:
        menu = dcc.Dropdown(id=key, options=[], clearable=False, searchable=False, maxHeight=320)
        return _labelled(key, field.title, menu)
    text = _text(key, "text:2048+512" if key == "workload" else "")
    if not field.choices:
        return _labelled(key, field.title, text)
    name = html.Span(f"slider of {field.label}", className="unseen")
    slider = _slider(f"{key}-slider", last=len(field.options) - 1)
    return _labelled(key, field.title, text, html.Label([name, slider], className="slider"))


def _labelled(key: str, label: str, *controls: Any, width: str = "") -> html.Div:
    """Controls with their label above, and the place of a refusal below.

    Args:
        key: Name of the first control.
        label: Its label.
        controls: The controls.
        width: ``wide`` for the whole width of a column; empty for less.
    """
    refusal = html.Div(id=f"{key}-error", className="refusal", role="alert")
    elements = [html.Label(label, htmlFor=key), *controls, refusal]
    return html.Div(elements, className=f"control {width}")


def _text(key: str, example: str = "") -> dcc.Input:
    """A line of text, with an example in it while it is empty."""
    return dcc.Input(
        id=key,
        type="text",
        debounce=True,
        autoComplete="off",
        spellCheck=False,
        placeholder=example,
    )


def _slider(key: str, last: int) -> dcc.Input:
    """A slider with stops from 0 to the last."""
    return dcc.Input(id=key, type="range", min=0, max=last, step=1)
