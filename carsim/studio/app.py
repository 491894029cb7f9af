"""The page and what happens on it: one callback from any change to the state, and to all it shows.

The address holds the state, so that reloading, going back and sending a link need nothing else.
What is slower than the answer (the curve over tau, the timeline, a comparison) follows by callbacks
of its own.
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any

from dash import Dash, Input, Output, State as Given, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate
from flask import Response, abort, request

from carsim.design.document import design_yaml
from carsim.errors import CarsimError
from carsim.report.compare import Comparison
from carsim.report.compare_words import own_table, spec_table
from carsim.report.figures.breakdown import breakdown_plot
from carsim.report.figures.curve import curve_plot
from carsim.report.figures.layer_step import layer_step, layer_step_plot
from carsim.report.figures.roofline import roofline_plot
from carsim.report.html import asset
from carsim.report.run_page import tiles
from carsim.report.run_words import answer, fit_table, held, limits_note, limits_table
from carsim.studio import sweep, view
from carsim.studio.fields import FIELDS
from carsim.studio.point import Point, point_of
from carsim.studio.state import State

TITLE = "carsim studio"

THEME = """clicks => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const root = document.documentElement;
  if (clicks) root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
  return "";
}"""
"""Turns the page dark or light; the first click leaves what the system prefers."""

COPY = """(link, command, yaml, search, words, text) => {
  const all = { link: location.href, command: words, yaml: text };
  const wanted = dash_clientside.callback_context.triggered_id;
  if (!wanted) return "";
  navigator.clipboard.writeText(all[wanted.replace("copy-", "")]);
  return "copied";
}"""
"""Puts the address, the command or the YAML into the clipboard."""

GO = """(back, forward) => {
  const wanted = dash_clientside.callback_context.triggered_id;
  if (wanted) wanted === "undo" ? history.back() : history.forward();
  return "";
}"""
"""The history of the browser is that of the design."""

VALUES = [key for key, field in FIELDS.items() if not field.is_menu]
DYNAMIC = ("design", "trace")
"""Menus that grow by what a user names."""


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
        enable_mcp=False,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    style = f"<style>{asset('page.css')}</style>"  # the same as that of the pages of a report
    head = '<html lang="en">', f"{style}{{%css%}}"
    app.index_string = app.index_string.replace("<html>", head[0]).replace("{%css%}", head[1])
    app.layout = _layout
    _connect(app, start)
    _protect(app)
    return app


# ----------------------------------------------------------------------- page


def _layout() -> html.Div:
    def button(key: str, text: str, title: str = "") -> html.Button:
        return html.Button(text, id=key, type="button", title=title or text)

    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="shown"),
            html.Header(
                [
                    html.H1(TITLE),
                    html.Nav(
                        [
                            button("undo", "Undo", "back to the design before"),
                            button("redo", "Redo"),
                            button("pin", "Pin", "keep this design to compare others with it"),
                            button("unpin", "Unpin", "forget what is pinned"),
                            button("copy-link", "Copy link"),
                            button("copy-command", "Copy as command"),
                            button("copy-yaml", "Copy as YAML"),
                            button("theme", "Dark / light"),
                            html.Span(id="done", role="status"),
                        ],
                        **{"aria-label": "actions"},
                    ),
                ]
            ),
            html.Div(
                [
                    html.Form([*view.controls(), _more()], className="controls", id="controls"),
                    html.Main(_results(), id="results"),
                ],
                className="columns",
            ),
        ],
        className="studio",
    )


def _more() -> html.Fieldset:
    return html.Fieldset(
        [
            html.Legend("Anything else"),
            _text("set", "field and value, as of --set", "machine.drs.latch_cycles=16"),
            _text("store", "folder of a sweep", "out"),
        ]
    )


def _text(key: str, label: str, example: str) -> html.Div:
    field = dcc.Input(id=key, type="text", debounce=True, placeholder=example, autoComplete="off")
    error = html.Div(id=f"{key}-error", className="refusal", role="alert")
    return html.Div([html.Label(label, htmlFor=key), field, error], className="control wide")


def _results() -> list[Any]:
    return [
        html.Div(id="trouble", role="alert"),
        html.H2(id="title"),
        html.Div(id="tiles", className="tiles"),
        html.Div(id="misfit"),
        view.graph("front", "Points of the sweep; a click opens one", hidden=True),
        view.graph("breakdown", "Seconds of a batch by what they are spent on, a bar per policy"),
        html.Div(
            [
                html.H2("Against what is pinned"),
                html.Div(id="comparison"),
            ],
            id="comparison-box",
            hidden=True,
        ),
        html.Div(
            [
                view.graph("roofline", "Roofline with the point of this design"),
                view.graph("curve", "Speed-up and loss of quality over tau"),
            ],
            className="pair",
        ),
        view.graph("timeline", "What each core does in one layer of one step"),
        html.Div([_place("step", "step"), _place("layer", "layer")], className="places"),
        html.H2("What limits each phase"),
        html.Div(id="limits"),
        html.P(id="limits-note"),
        html.H2("What is full"),
        html.Div(id="fit"),
        html.Div(id="answer"),
        html.H2("The same elsewhere"),
        html.Pre(id="command", tabIndex=0),
        html.Details([html.Summary("The resolved design as YAML"), html.Pre(id="yaml", tabIndex=0)]),
    ]


def _place(key: str, label: str) -> html.Label:
    slider = dcc.Input(id=key, type="range", min=0, max=0, step=1, debounce=0.1)
    return html.Label([html.Span(f"{label} of the timeline"), slider])


# ------------------------------------------------------------------ callbacks


def _connect(app: Dash, start: State) -> None:
    @app.callback(
        output={
            "search": Output("url", "search"),
            "shown": Output("shown", "data"),
            "values": {key: Output(key, "value") for key in (*FIELDS, "store")},
            "sliders": {key: Output(f"{key}-slider", "value") for key in VALUES},
            "options": {key: Output(key, "options") for key in FIELDS if FIELDS[key].is_menu},
            "errors": {key: Output(f"{key}-error", "children") for key in (*FIELDS, "set", "store")},
            "trouble": Output("trouble", "children"),
            "results": _outputs(),
        },
        inputs={
            "search": Input("url", "search"),
            "values": {key: Input(key, "value") for key in (*FIELDS, "set", "store")},
            "sliders": {key: Input(f"{key}-slider", "value") for key in VALUES},
            "places": {key: Input(key, "value") for key in ("step", "layer")},
            "clicks": {key: Input(key, "n_clicks") for key in ("pin", "unpin")},
            "clicked": Input("front", "clickData"),
            "shown": Given("shown", "data"),
        },
    )
    def change(
        search: str | None,
        values: Mapping[str, Any],
        sliders: Mapping[str, Any],
        places: Mapping[str, Any],
        clicks: Mapping[str, Any],
        clicked: Any,
        shown: str | None,
    ) -> dict[str, Any]:
        """From any change to the new state, and to everything that follows from it."""
        trigger = ctx.triggered_id if shown is not None else "url"
        try:
            state = _state(search, start)
            if trigger in (None, "url"):
                if state.query == shown:
                    raise PreventUpdate
                return _everything(state, point_of(state), shown)
        except CarsimError as error:
            return _nothing() | {"trouble": view.alert([str(error)])}
        key = trigger.removesuffix("-slider")
        text = _asked(trigger, values, sliders)
        try:
            before = point_of(state)
            after = _after(state, before, key, text, places, clicked)
            if after.query == state.query:
                raise PreventUpdate
            return _everything(after, point_of(after), shown)
        except CarsimError as error:
            refused = _nothing()
            if key in refused["errors"]:
                refused["errors"][key] = str(error)
                if key in VALUES:
                    refused["values"][key] = text
                return refused
            return refused | {"trouble": view.alert([str(error)])}

    @app.callback(
        Output("curve", "figure"),
        Output("curve-caption", "children"),
        Output("curve-box", "hidden"),
        Input("shown", "data"),
    )
    def curve(shown: str | None) -> tuple[Any, ...]:
        """Speed-up over tau."""
        point = _point(shown, start)
        if not point.curve:
            return no_update, "", True
        plot = curve_plot(point.curve, _today(point))
        return view.figure_of(plot), plot.caption, False

    @app.callback(
        Output("timeline", "figure"),
        Output("timeline-caption", "children"),
        Output("step", "max"),
        Output("step", "value"),
        Output("layer", "max"),
        Output("layer", "value"),
        Input("shown", "data"),
    )
    def cores(shown: str | None) -> tuple[Any, ...]:
        """One layer of one step."""
        point, state = _point(shown, start), _state(shown, start)
        row = point.report.chosen
        n_steps, n_layers = row.simulation.plan.n_steps, point.design.model.body.n_layers
        step = min(int(state.step or n_steps // 2), n_steps - 1)
        layer = min(int(state.layer), n_layers - 1) if state.layer else None
        found = layer_step(row, step, layer)
        clock = point.design.board.fabric_clock_mhz
        plot = layer_step_plot(found, clock, not point.run.fits)
        return (
            view.figure_of(plot),
            plot.caption,
            n_steps - 1,
            step,
            n_layers - 1,
            found.layer,
        )

    @app.callback(
        Output("comparison", "children"), Output("comparison-box", "hidden"), Input("shown", "data")
    )
    def compare(shown: str | None) -> tuple[Any, bool]:
        """Pinned designs beside this one."""
        point, state = _point(shown, start), _state(shown, start)
        parts: list[Any] = []
        for pin in state.pins:
            pinned = _state(pin, start)
            comparison = Comparison(point_of(pinned).run, point.run)
            parts += [
                html.H3(f"A: {pinned.title}; B: now"),
                view.table_of(spec_table(comparison), "what differs"),
                view.table_of(own_table(comparison), "figures of both"),
            ]
        return parts, not parts

    @app.callback(
        Output("front", "figure"),
        Output("front-caption", "children"),
        Output("front-box", "hidden"),
        Output("store-error", "children", allow_duplicate=True),
        Input("shown", "data"),
        prevent_initial_call="initial_duplicate",
    )
    def front(shown: str | None) -> tuple[Any, ...]:
        """The points of a sweep."""
        state = _state(shown, start)
        if shown is None or not state.store:
            return no_update, "", True, no_update
        try:
            plot = sweep.front_plot(state.store)
        except CarsimError as error:
            return no_update, "", True, str(error)
        return view.figure_of(plot), f"{plot.caption} A click opens a point.", False, no_update

    app.clientside_callback(THEME, Output("theme", "name"), Input("theme", "n_clicks"))
    copies = (Input(f"copy-{what}", "n_clicks") for what in ("link", "command", "yaml"))
    texts = (Given("url", "search"), Given("command", "children"), Given("yaml", "children"))
    app.clientside_callback(COPY, Output("done", "children"), *copies, *texts)
    app.clientside_callback(
        GO, Output("undo", "name"), Input("undo", "n_clicks"), Input("redo", "n_clicks")
    )


def _outputs() -> dict[str, Output]:
    """Everything that shows results at once."""
    children = ("title", "tiles", "misfit", "limits", "limits-note", "fit", "answer", "command", "yaml")
    figures = ("breakdown", "roofline")
    return {
        **{key: Output(key, "children") for key in children},
        **{key: Output(key, "figure") for key in figures},
        **{f"{key}-caption": Output(f"{key}-caption", "children") for key in figures},
    }


def _nothing() -> dict[str, Any]:
    """Nothing changes."""
    return {
        "search": no_update,
        "shown": no_update,
        "values": dict.fromkeys((*FIELDS, "store"), no_update),
        "sliders": dict.fromkeys(VALUES, no_update),
        "options": {key: no_update for key in FIELDS if FIELDS[key].is_menu},
        "errors": dict.fromkeys((*FIELDS, "set", "store"), no_update),
        "trouble": no_update,
        "results": dict.fromkeys(_outputs(), no_update),
    }


def _everything(state: State, point: Point, shown: str | None) -> dict[str, Any]:
    """All that follows from a state; results only where they are not shown yet."""
    found = _nothing() | {"search": state.query, "shown": state.query, "trouble": ""}
    texts = {key: field.text(state, point.design) for key, field in FIELDS.items()}
    found["values"] = texts | {"store": state.store}
    found["sliders"] = {key: _nearest(FIELDS[key].options, texts[key]) for key in VALUES}
    found["options"] = {
        key: _options(FIELDS[key].options, texts[key]) for key in FIELDS if FIELDS[key].is_menu
    }
    found["errors"] = dict.fromkeys(found["errors"], "")
    seen = State.of_query(shown, "") if shown else None
    if seen is None or (seen.point, seen.pins) != (state.point, state.pins):
        found["results"] = _results_of(state, point)
    return found


def _results_of(state: State, point: Point) -> dict[str, Any]:
    run, design = point.run, point.design
    pinned = [(f"pinned: {each.title}", point_of(each).run) for each in map(_pin, state.pins)]
    breakdown, roofline = breakdown_plot(run, pinned), roofline_plot(run, pinned)
    misfits = [f"MISFIT: {run.design} does not fit {design.board.name}.", *run.misfits]
    misfits += [f"Cure: {cure}." for cure in point.report.fit.cures]
    return {
        "title": f"{run.design} on {design.board.name}: {run.own.policy}",
        "tiles": view.tiles_of(tiles(run)),
        "misfit": "" if run.fits else view.alert(misfits),
        "limits": view.table_of(limits_table(run), "what limits each phase"),
        "limits-note": limits_note(run, design),
        "fit": view.table_of(fit_table(run), "what is needed and available"),
        "answer": [html.P(view.unbroken(text)) for text in (*held(run), *answer(run), *run.notes)],
        "command": state.command,
        "yaml": design_yaml(design),
        "breakdown": view.figure_of(breakdown),
        "breakdown-caption": breakdown.caption,
        "roofline": view.figure_of(roofline),
        "roofline-caption": roofline.caption,
    }


def _after(
    state: State,
    before: Point,
    key: str,
    text: str,
    places: Mapping[str, Any],
    clicked: Any,
) -> State:
    """The state after a control was used."""
    if key in FIELDS:
        return FIELDS[key].set(state, before.design, text)
    if key == "set":
        path, _, value = text.partition("=")
        return state.with_change(path.strip(), value.strip()) if text else state
    if key == "store":
        return replace(state, store=text)
    if key in ("step", "layer"):
        return replace(state, **{key: str(places[key])})
    if key == "pin":
        pins = dict.fromkeys((*state.pins, state.point.query))
        return replace(state, pins=tuple(pins))
    if key == "unpin":
        return replace(state, pins=())
    if key == "front" and clicked:
        return sweep.opened(state, int(clicked["points"][0]["customdata"]))
    return state


def _asked(trigger: str, values: Mapping[str, Any], sliders: Mapping[str, Any]) -> str:
    """The text that a control asks for."""
    key = trigger.removesuffix("-slider")
    if trigger != key:
        return FIELDS[key].options[int(sliders[key])]
    value = values.get(key)
    return "" if value is None else str(value).strip()


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


def _nearest(options: list[str], text: str) -> int:
    """The stop of a slider that is nearest to a value."""
    if text in options:
        return options.index(text)
    numbers = [(_number(option), place) for place, option in enumerate(options)]
    value = _number(text)
    return min(numbers, key=lambda each: abs(each[0] - value))[1]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _options(options: list[str], text: str) -> list[dict[str, str]]:
    """The entries of a menu, the present one among them."""
    named = options if text in options else [text, *options]
    return [{"label": each or "(none: stated)", "value": each} for each in named]


# ----------------------------------------------------------------- protection


def _protect(app: Dash) -> None:
    """Answer only pages of this machine, and let pages reach nothing else."""
    hashes = " ".join(f"'{each.strip(chr(39))}'" for each in app.csp_hashes())
    policy = (
        f"default-src 'self'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; frame-ancestors 'none'"
    )

    @app.server.before_request
    def _refuse_other_hosts() -> None:
        # A page of elsewhere whose name was made to point here could read what is answered.
        if request.host.rpartition(":")[0] not in ("127.0.0.1", "localhost"):
            abort(403)

    @app.server.after_request
    def _forbid_the_network(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        return response
