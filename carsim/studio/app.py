"""The page, and whom it asks: a worker for what answers at once, and another one for the rest.

The address holds the state, so that reloading, going back and sending a link need nothing else.
What is slower than the answer (a sweep, the timeline, a comparison) follows by callbacks of its
own.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.resources import files
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from dash import Dash, Input, Output, State, ctx, no_update, set_props
from dash.exceptions import PreventUpdate
from flask import Response, request

from carsim.base.errors import CarsimError, InputError
from carsim.report.html import asset
from carsim.studio import view
from carsim.studio.answers import CHANGED, CONTROLS, Parts
from carsim.studio.browser import act_in_the_browser
from carsim.studio.page import TITLE, layout

SOON_S = 1.0
"""Seconds that the page waits for its first answer; its scripts take two to be loaded."""

FRONTED = (
    "front-section.hidden",
    "front-title.children",
    "explored.data",
    "worth.children",
    "near.children",
    "fronted.data",
    "tick.disabled",
    "store-error.children",
)
"""Properties that show the points of a sweep."""

EXPLORER = "/explorer.js"
"""Address of the script that draws them."""

Ask = Callable[..., Any]
"""Calls a method of the answers by its name."""


def make_app(at_once: Ask, later: Ask) -> Dash:
    """The page, ready to be served.

    Args:
        at_once: Asked for what is shown first after a change.
        later: Asked for what takes longer.
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
    early += f'<script defer src="{EXPLORER}"></script>'
    script = asset("explorer.js")

    @app.server.route(EXPLORER)
    def explorer() -> Response:
        return Response(script, mimetype="text/javascript")

    style = f"<style>{asset('page.css')}</style>"  # the same as that of the pages of a report
    app.index_string = app.index_string.replace("<html>", '<html lang="en">').replace(
        "{%css%}", f"{early}{style}{{%css%}}"
    )
    app.layout = layout
    app.interpolate_index = partial(_index, app.interpolate_index, at_once)
    _answer_at_once(app, at_once)
    _answer_later(app, at_once, later)
    act_in_the_browser(app)
    return app


def _index(page: Callable[..., str], ask: Ask, **parts: str) -> str:
    """The page, with an answer that needs no script if there is one soon; else scripts say why."""
    first_answers: SimpleQueue[str] = SimpleQueue()

    def answer(search: str) -> None:
        try:
            first_answers.put(ask("first", search))
        except CarsimError:
            first_answers.put("")

    search = f"?{request.query_string.decode('ascii', 'replace')}"
    Thread(target=answer, args=(search,), daemon=True).start()
    with suppress(Empty):
        parts["app_entry"] = first_answers.get(timeout=SOON_S) + parts["app_entry"]
    return page(**parts)


def _answer_at_once(app: Dash, ask: Ask) -> None:
    """Register the callback for any change of address or controls."""

    @app.callback(
        output=_outputs(CHANGED),
        inputs={
            "search": Input("url", "search"),
            "values": {key: Input(key, "value") for key in CONTROLS},
            "slid": Input("slid", "data"),
            "clicks": {key: Input(key, "n_clicks") for key in ("pin", "unpin")},
            "shown": State("shown", "data"),
            "there": _there("breakdown"),
        },
        running=_sign("busy"),
    )
    def change(search: Any, values: Any, slid: Any, clicks: Any, shown: Any, there: Any) -> Parts:
        return _answered(
            CHANGED, partial(ask, "change", ctx.triggered_id), search, values, slid, shown, there
        )


def _answer_later(app: Dash, at_once: Ask, later: Ask) -> None:
    """Register the callbacks that follow an answer, and those of single buttons.

    Args:
        app: The page.
        at_once: Asked for what is simulated already.
        later: Asked for what takes longer.
    """
    _answer_each_state(
        app,
        partial(later, "sweep"),
        ["sweep-place.children"],
        inputs=[_there("sweep")],
        sign="sweep-busy",
    )
    timeline = ["timeline-place.children", "waits.children"]
    timeline += ["step.max", "step.value", "layer.max", "layer.value"]
    _answer_each_state(app, partial(at_once, "timeline"), timeline, inputs=[_there("timeline")])
    _answer_each_state(app, partial(at_once, "resolved"), ["yaml.children"])
    _answer_each_state(app, partial(at_once, "comparison"), ["comparison.children"])
    _answer_each_state(
        app,
        partial(later, "front"),
        FRONTED,
        inputs=[State("fronted", "data"), Input("tick", "n_intervals")],
    )
    _answer_on_request(
        app,
        partial(at_once, "open_point"),
        ["url.search", "trouble.children"],
        trigger=Input("opened", "data"),
        sign="busy",
    )
    _answer_on_request(
        app,
        partial(later, "tricks"),
        ["tricks.children"],
        trigger=Input("list-tricks", "n_clicks"),
        sign="tricks-busy",
    )
    _answer_on_request(
        app,
        partial(later, "target"),
        ["machines.children", "target-error.children"],
        trigger=Input("target", "value"),
        sign="target-busy",
    )


def _answer_each_state(
    app: Dash,
    ask: Ask,
    outputs: Sequence[str],
    inputs: Sequence[Input | State] = (),
    sign: str = "",
) -> None:
    """Register a callback that answers whenever a state is shown.

    Args:
        app: The page.
        ask: Called with the state and the values of the inputs.
        outputs: Properties that the answer can have.
        inputs: Further properties that the answer depends on.
        sign: Name of the sign that the server computes; empty for none.
    """

    @app.callback(
        _outputs(outputs),
        [Input("later", "data"), *inputs],
        running=_sign(sign) if sign else None,
        prevent_initial_call=False,
    )
    def answer_state(shown: str | None, *values: Any) -> Parts:
        if shown is None:
            raise PreventUpdate
        return _answered(outputs, ask, shown, *values)


def _answer_on_request(
    app: Dash, ask: Ask, outputs: Sequence[str], trigger: Input, sign: str
) -> None:
    """Register a callback that answers when a user asks for something.

    Args:
        app: The page.
        ask: Called with the state that is shown and the value of the trigger.
        outputs: Properties that the answer can have; other callbacks may set them, too.
        trigger: Property that changes when a user asks.
        sign: Name of the sign that the server computes.
    """

    @app.callback(
        _outputs(outputs, allow_duplicate=True),
        [State("shown", "data"), trigger],
        running=_sign(sign),
        prevent_initial_call=True,
    )
    def answer_request(shown: str | None, value: Any) -> Parts:
        if shown is None:
            raise PreventUpdate
        return _answered(outputs, ask, shown, value)


def _answered(outputs: Sequence[str], ask: Ask, *question: Any) -> Parts:
    """The answer to a question, as outputs; properties of parts that may be absent are set aside.

    Args:
        outputs: The outputs.
        ask: Whom to ask.
        question: What the answer depends on.
    """
    try:
        answer = ask(*question)
    except InputError as error:
        answer = {"trouble.children": view.alert([str(error.named())])}
    if not answer:
        raise PreventUpdate
    for name in answer.keys() - set(outputs):
        element, _, property_name = name.rpartition(".")
        set_props(element, {property_name: answer[name]})
    return {name: answer.get(name, no_update) for name in outputs}


def _outputs(names: Sequence[str], *, allow_duplicate: bool = False) -> dict[str, Output]:
    """Outputs of a callback by name, which is that of an element, a dot and a property."""
    outputs = {}
    for name in names:
        element, _, property_name = name.rpartition(".")
        outputs[name] = Output(element, property_name, allow_duplicate=allow_duplicate)
    return outputs


def _sign(key: str) -> list[tuple[Output, bool, bool]]:
    """Shown while the server computes."""
    return [(Output(key, "hidden"), False, True)]


def _there(key: str) -> State:
    """The name of a graph, if it is there."""
    return State(key, "id", allow_optional=True)
