"""The page and what happens on it: one callback from any change to the state, and to all it shows.

The address holds the state, so that reloading, going back and sending a link need nothing else.
What is slower than the answer (the curve over tau, the timeline, a comparison) follows by callbacks
of its own.
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any

from dash import Dash, Input, Output, ctx, dcc, html, no_update
from dash import State as Given
from dash.exceptions import PreventUpdate
from flask import Response, abort, request

from carsim.design.document import design_yaml
from carsim.errors import CarsimError
from carsim.report.compare import Comparison
from carsim.report.compare_words import own_table, spec_table
from carsim.report.figures.breakdown import breakdown_plot
from carsim.report.figures.curve import curve_plot
from carsim.report.figures.layer_step import layer_step, layer_step_plot, mixed_layer
from carsim.report.figures.roofline import roofline_plot
from carsim.report.html import asset, unbroken
from carsim.report.run_page import tiles
from carsim.report.run_words import answer, fit_table, held, limits_note, limits_table
from carsim.studio import sweep, view
from carsim.studio.fields import FIELDS
from carsim.studio.point import Point, point_of
from carsim.studio.state import State

TITLE = "carsim studio"

MENUS = [key for key, field in FIELDS.items() if field.is_menu]
VALUES = [key for key, field in FIELDS.items() if not field.is_menu]
PLACES = ("step", "layer")
"""Sliders of the timeline."""
ERRORS = (*FIELDS, "set", "store")
"""Controls below which a refusal is told."""
RESULTS = (
    *("title", "tiles", "misfit", "limits", "limits-note", "fit", "answer", "command"),
    *("breakdown-place", "roofline-place"),
)
"""Parts of the page that answer at once."""
NONE = "none: it is stated"

SETTLE = """(...values) => {
  if (!window.moved) {
    window.moved = new Set();
    document.addEventListener("input", (event) => window.moved.add(event.target.id), true);
  }
  const changed = dash_clientside.callback_context.triggered.map((each) => each.prop_id);
  const wanted = changed.map((id) => id.split(".")[0]).find((id) => window.moved.delete(id));
  if (!wanted) return "";  // the page itself has set it
  clearTimeout(window.settling);
  const value = Number(document.getElementById(wanted).value);
  const told = { data: { key: wanted.replace("-slider", ""), value } };
  window.settling = setTimeout(() => dash_clientside.set_props("slid", told), 60);
  return "";
}"""
"""Tells of a slider that a user moved, once it has rested for 60 ms."""

LATER = """shown => {
  clearTimeout(window.later);
  if (shown) {
    window.later = setTimeout(() => dash_clientside.set_props("later", { data: shown }), 200);
  }
  return "";
}"""
"""Lets the browser draw the answer before it asks for what follows."""

THEME = """clicks => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const root = document.documentElement.dataset;
  if (clicks) root.theme = (root.theme || dark) === "dark" ? "light" : "dark";
  return "";
}"""
"""Turns the page dark or light; until then it is what the system prefers."""

COPY = """(link, command, yaml, words, text) => {
  const wanted = dash_clientside.callback_context.triggered_id;
  if (!wanted) return "";
  const texts = { "copy-link": location.href, "copy-command": words, "copy-yaml": text };
  navigator.clipboard.writeText(texts[wanted]);
  return "copied";
}"""
"""Puts the address, the command or the YAML into the clipboard."""

GO = """(back, forward) => {
  const wanted = dash_clientside.callback_context.triggered_id;
  if (wanted) wanted === "undo" ? history.back() : history.forward();
  return "";
}"""
"""The history of the browser is that of the design."""


def make_app(start: State) -> Dash:
    """The studio, ready to be served.

    Args:
        start: What an address without a design shows.
    """
    app = Dash(
        "carsim.studio",
        title=TITLE,
        update_title="",
        assets_folder=str(files("carsim.studio") / "assets"),
        suppress_callback_exceptions=True,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    plotly = app.get_relative_path("/_dash-component-suites/plotly/package_data/plotly.min.js")
    early = f'<script defer src="{plotly}"></script>'  # the largest file, else asked for last
    style = f"<style>{asset('page.css')}</style>"  # the same as that of the pages of a report
    app.index_string = app.index_string.replace("<html>", '<html lang="en">').replace(
        "{%css%}", f"{early}{style}{{%css%}}"
    )
    app.layout = _layout
    _answer_at_once(app, start)
    _answer_later(app, start)
    _act_in_the_browser(app)
    _protect(app)
    return app


# ----------------------------------------------------------------------- page


def _layout() -> html.Div:
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
            _text("set", "field and value, as of --set", "machine.drs.latch_cycles=16"),
            _text("store", "folder of a sweep", "out"),
        ]
    )
    label = {"aria-label": "the design"}
    form = html.Form([*view.controls(), more], className="controls", **label)
    head = [html.H1(TITLE), html.Nav(actions, **{"aria-label": "actions"})]
    stores = [dcc.Store(id=key) for key in ("shown", "later", "slid", "fronted")]
    columns = html.Div([form, html.Main(_results())], className="columns")
    stores.append(dcc.Location(id="url", refresh=False))
    return html.Div([*stores, html.Header(head), columns], className="studio")


def _text(key: str, label: str, example: str) -> html.Div:
    field = dcc.Input(id=key, type="text", debounce=True, placeholder=example, autoComplete="off")
    error = html.Div(id=f"{key}-error", className="refusal", role="alert")
    return html.Div([html.Label(label, htmlFor=key), field, error], className="control wide")


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
    slider = dcc.Input(id=key, type="range", min=0, max=0, step=1)
    return html.Label([html.Span(label), slider])


# ------------------------------------------------------------------ callbacks


def _answer_at_once(app: Dash, start: State) -> None:
    @app.callback(
        output={
            "search": Output("url", "search"),
            "shown": Output("shown", "data"),
            "values": {key: Output(key, "value") for key in (*FIELDS, "store")},
            "sliders": {key: Output(f"{key}-slider", "value") for key in VALUES},
            "options": {key: Output(key, "options") for key in MENUS},
            "errors": {key: Output(f"{key}-error", "children") for key in ERRORS},
            "trouble": Output("trouble", "children"),
            "results": {key: Output(key, "children") for key in RESULTS},
        },
        inputs={
            "search": Input("url", "search"),
            "values": {key: Input(key, "value") for key in ERRORS},
            "slid": Input("slid", "data"),
            "clicks": {key: Input(key, "n_clicks") for key in ("pin", "unpin")},
            "shown": Given("shown", "data"),
            "there": Given("breakdown", "id", allow_optional=True),
        },
    )
    def change(
        search: str | None,
        values: Mapping[str, Any],
        slid: Mapping[str, Any] | None,
        clicks: Mapping[str, Any],
        shown: str | None,
        there: str | None,
    ) -> dict[str, Any]:
        """From any change to the new state, and to everything that follows from it."""
        trigger = ctx.triggered_id if shown is not None else "url"
        try:
            state = _state(search, start)
            before = point_of(state)
            if trigger in (None, "url"):
                if state.query == shown:
                    raise PreventUpdate
                return _everything(state, before, shown, there)
        except CarsimError as error:
            return _nothing() | {"trouble": view.alert([str(error)])}
        key, text = trigger, str(values.get(trigger) or "").strip()
        if trigger == "slid" and slid is not None:
            key, stop = slid["key"], int(slid["value"])
            if _stop(key, state, before) == stop:
                raise PreventUpdate  # it was moved to where the design is
            text = str(stop) if key in PLACES else FIELDS[key].options[stop]
        try:
            after = _after(state, before, key, text)
            if after.query == state.query:
                raise PreventUpdate
            return _everything(after, point_of(after), shown, there)
        except CarsimError as error:
            return _refused(key, text, error)


def _answer_later(app: Dash, start: State) -> None:
    shows = Input("later", "data")

    def there(key: str) -> Given:
        return Given(key, "id", allow_optional=True)

    @app.callback(Output("curve-place", "children"), shows, there("curve"))
    def curve(shown: str | None, there: str | None) -> Any:
        """Speed-up over tau."""
        point = _point(shown, start)
        if not point.curve:
            return []
        return view.drawn("curve", curve_plot(point.curve, _today(point)), there)

    @app.callback(
        Output("timeline-place", "children"),
        *(Output(key, what) for key in PLACES for what in ("max", "value")),
        shows,
        there("timeline"),
    )
    def timeline(shown: str | None, there: str | None) -> tuple[Any, ...]:
        """One layer of one step."""
        point = _point(shown, start)
        step, layer = _place_of(_state(shown, start), point)
        row = point.report.chosen
        found = layer_step(row, step, layer)
        clock = point.design.board.fabric_clock_mhz
        plot = layer_step_plot(found, clock, misfit=not point.run.fits)
        steps, layers = row.simulation.plan.n_steps, point.design.model.body.n_layers
        return view.drawn("timeline", plot, there), steps - 1, step, layers - 1, layer

    @app.callback(Output("yaml", "children"), shows)
    def resolved(shown: str | None) -> str:
        """The design in full."""
        return design_yaml(_point(shown, start).design)

    @app.callback(Output("comparison", "children"), shows)
    def compare(shown: str | None) -> Any:
        """Pinned designs beside this one."""
        point, state = _point(shown, start), _state(shown, start)
        parts: list[Any] = [html.H2("Against what is pinned")] if state.pins else []
        for pinned in map(_pin, state.pins):
            comparison = Comparison(point_of(pinned).run, point.run)
            parts += [
                html.H3(f"A: {pinned.title}; B: now"),
                view.table_of(spec_table(comparison), "what differs"),
                view.table_of(own_table(comparison), "figures of both"),
            ]
        return parts

    @app.callback(
        Output("front-place", "children"),
        Output("store-error", "children", allow_duplicate=True),
        Output("fronted", "data"),
        shows,
        there("front"),
        Given("fronted", "data"),
        prevent_initial_call="initial_duplicate",
    )
    def front(shown: str | None, there: str | None, fronted: Any) -> tuple[Any, Any, Any]:
        """The points of a sweep; they are read again if its store has changed."""
        state = _state(shown, start)
        if shown is None or not state.store:
            return [], no_update, None
        edition = [state.store, sweep.edition(state.store)]
        if there and fronted == edition:
            raise PreventUpdate
        try:
            plot = sweep.front_plot(state.store)
        except CarsimError as error:
            return [], str(error), None
        return view.drawn("front", plot, there, "A click opens a point."), "", edition

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Output("trouble", "children", allow_duplicate=True),
        Input("front", "clickData"),
        Given("shown", "data"),
        prevent_initial_call=True,
    )
    def open_point(clicked: Any, shown: str | None) -> tuple[Any, Any]:
        """The point of the sweep that was clicked."""
        if not clicked or "customdata" not in clicked["points"][0]:
            raise PreventUpdate
        try:
            state = sweep.opened(_state(shown, start), int(clicked["points"][0]["customdata"]))
        except CarsimError as error:
            return no_update, view.alert([str(error)])
        return state.query, ""


def _act_in_the_browser(app: Dash) -> None:
    sliders = [f"{key}-slider" for key in VALUES] + [*PLACES]
    copies = [f"copy-{what}" for what in ("link", "command", "yaml")]
    texts = [Given(key, "children") for key in ("command", "yaml")]

    def clicks(*keys: str) -> list[Input]:
        return [Input(key, "n_clicks") for key in keys]

    app.clientside_callback(
        SETTLE, Output("done", "title"), *(Input(key, "value") for key in sliders)
    )
    app.clientside_callback(LATER, Output("pin", "name"), Input("shown", "data"))
    app.clientside_callback(THEME, Output("theme", "name"), *clicks("theme"))
    app.clientside_callback(COPY, Output("done", "children"), *clicks(*copies), *texts)
    app.clientside_callback(GO, Output("undo", "name"), *clicks("undo", "redo"))


def _nothing() -> dict[str, Any]:
    """Nothing changes."""
    return {
        "search": no_update,
        "shown": no_update,
        "values": dict.fromkeys((*FIELDS, "store"), no_update),
        "sliders": dict.fromkeys(VALUES, no_update),
        "options": dict.fromkeys(MENUS, no_update),
        "errors": dict.fromkeys(ERRORS, no_update),
        "trouble": no_update,
        "results": dict.fromkeys(RESULTS, no_update),
    }


def _refused(key: str, text: str, error: CarsimError) -> dict[str, Any]:
    """What was asked for stays in its control, with the reason below; all else stays as it is."""
    refused = _nothing()
    if key not in ERRORS:
        return refused | {"trouble": view.alert([str(error)])}
    refused["errors"][key] = str(error).removeprefix("--set ")
    if key in FIELDS:
        refused["values"][key] = text
    return refused


def _everything(state: State, point: Point, shown: str | None, there: str | None) -> dict[str, Any]:
    """All that follows from a state; results only where they are not shown yet."""
    texts = {key: field.text(state, point.design) for key, field in FIELDS.items()}
    found = _nothing() | {"search": state.query, "shown": state.query, "trouble": ""}
    found["values"] = texts | {"store": state.store}
    found["sliders"] = {key: _nearest(FIELDS[key].options, texts[key]) for key in VALUES}
    found["options"] = {key: _options(FIELDS[key].options, texts[key]) for key in MENUS}
    found["errors"] = dict.fromkeys(ERRORS, "")
    seen = State.of_query(shown, "") if shown else None
    if seen is None or (seen.point, seen.pins) != (state.point, state.pins):
        found["results"] = _results_of(state, point, there)
    return found


def _results_of(state: State, point: Point, there: str | None) -> dict[str, Any]:
    run, design = point.run, point.design
    pinned = [(f"pinned: {each.title}", point_of(each).run) for each in map(_pin, state.pins)]
    misfits = [f"MISFIT: {run.design} does not fit {design.board.name}.", *run.misfits]
    misfits += [f"Cure: {cure}." for cure in point.report.fit.cures]
    said = (*run.warnings, *held(run), *answer(run), *run.notes)
    return {
        "title": f"{run.design} on {design.board.name}: {run.own.policy}",
        "tiles": view.tiles_of(tiles(run)),
        "misfit": "" if run.fits else view.alert(misfits),
        "limits": view.table_of(limits_table(run), "what limits each phase"),
        "limits-note": limits_note(run, design),
        "fit": view.table_of(fit_table(run), "what is needed and available"),
        "answer": [html.P(unbroken(text)) for text in said],
        "command": state.command,
        "breakdown-place": view.drawn("breakdown", breakdown_plot(run, pinned), there),
        "roofline-place": view.drawn("roofline", roofline_plot(run, pinned), there),
    }


def _after(state: State, before: Point, key: str, text: str) -> State:
    """The state after a control was used."""
    if key in FIELDS:
        return FIELDS[key].set(state, before.design, text)
    if key == "set":
        path, _, value = text.partition("=")
        return state.with_change(path.strip(), value.strip()) if text else state
    if key == "store":
        return replace(state, store=text)
    if key in PLACES:
        return state.with_option(key, text)
    if key == "pin":
        return replace(state, pins=tuple(dict.fromkeys((*state.pins, state.point.query))))
    return replace(state, pins=()) if key == "unpin" else state


def _state(search: str | None, start: State) -> State:
    """The state of an address; the one to start with where it says nothing."""
    return State.of_query(search, start.design) if search and search != "?" else start


def _pin(query: str) -> State:
    return State.of_query(query, "")


def _point(shown: str | None, start: State) -> Point:
    """The point that the page shows."""
    if shown is None:
        raise PreventUpdate
    return point_of(_state(shown, start))


def _today(point: Point) -> tuple[float, float] | None:
    """Threshold and speed-up of the design as it is, if it has one threshold."""
    tau: Any = point.design.policy.tau
    if tau == "captured":
        taus = point.traces[0].meta.tau_per_layer
        tau = min((each for each in taus if each is not None), default=None)
    is_one = isinstance(tau, float | int) and 0 < tau < float("inf")
    return (float(tau), point.run.own["speedup"]) if is_one else None


def _place_of(state: State, point: Point) -> tuple[int, int]:
    """Step and layer of the timeline: those that were chosen, else where sequences differ most."""
    row = point.report.chosen
    n_steps, n_layers = row.simulation.plan.n_steps, point.design.model.body.n_layers
    step = min(int(state.step) if state.step.isdecimal() else n_steps // 2, n_steps - 1)
    layer = int(state.layer) if state.layer.isdecimal() else mixed_layer(row, step)
    return step, min(layer, n_layers - 1)


def _stop(key: str, state: State, point: Point) -> int:
    """Where a slider stands at a state."""
    if key in PLACES:
        return _place_of(state, point)[PLACES.index(key)]
    return _nearest(FIELDS[key].options, FIELDS[key].text(state, point.design))


def _nearest(options: list[str], text: str) -> int:
    """The stop of a slider that is nearest to a value.

    >>> _nearest(["100", "200", "300"], "287.8"), _nearest(["captured", "0.5"], "captured")
    (2, 0)
    """
    if text in options:
        return options.index(text)
    value = _number(text)
    return min(range(len(options)), key=lambda stop: abs(_number(options[stop]) - value))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _options(options: list[str], text: str) -> list[dict[str, str]]:
    """The entries of a menu, the present one among them."""
    named = options if text in options else [text, *options]
    return [{"label": each or NONE, "value": each} for each in named]


# ----------------------------------------------------------------- protection


def _protect(app: Dash) -> None:
    """Answer only pages of this machine, and let pages reach nothing else."""
    policy = (
        f"default-src 'self'; script-src 'self' {' '.join(app.csp_hashes())}; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; frame-ancestors 'none'"
    )

    @app.server.before_request
    def refuse_other_hosts() -> None:
        # A page of elsewhere whose name was made to point here could read what is answered.
        if request.host.rpartition(":")[0] not in ("127.0.0.1", "localhost"):
            abort(403)

    @app.server.after_request
    def forbid_the_network(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        return response
