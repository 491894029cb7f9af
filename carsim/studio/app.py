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
    *("front-section.hidden", "front-title.children", "explored.data", "worth.children"),
    *("near.children", "fronted.data", "tick.disabled", "store-error.children"),
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
    app.layout, app.interpolate_index = layout, partial(_index, app.interpolate_index, at_once)
    _answer_at_once(app, at_once)
    _answer_later(app, at_once, later)
    act_in_the_browser(app)
    return app


def _index(page: Callable[..., str], ask: Ask, **parts: str) -> str:
    """The page, with an answer that needs no script if there is one soon; else scripts say why."""
    found: SimpleQueue[str] = SimpleQueue()

    def answer(search: str) -> None:
        try:
            found.put(ask("first", search))
        except CarsimError:
            found.put("")

    search = f"?{request.query_string.decode('ascii', 'replace')}"
    Thread(target=answer, args=(search,), daemon=True).start()
    with suppress(Empty):
        parts["app_entry"] = found.get(timeout=SOON_S) + parts["app_entry"]
    return page(**parts)


def _answer_at_once(app: Dash, ask: Ask) -> None:
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
        return _told(CHANGED, ask, "change", ctx.triggered_id, search, values, slid, shown, there)


def _answer_later(app: Dash, at_once: Ask, later: Ask) -> None:
    def answer(
        ask: Ask, method: str, parts: Sequence[str], *more: Any, sign: str = "", once: bool = False
    ) -> None:
        """Answer whenever a state is shown; once, when a user does something about it."""
        shown_by = State("shown", "data") if once else Input("later", "data")
        how = {"running": _sign(sign) if sign else None, "prevent_initial_call": once}

        @app.callback(_outputs(parts, allow_duplicate=once), [shown_by, *more], **how)
        def follow(shown: str | None, *given: Any) -> Parts:
            if shown is None:
                raise PreventUpdate
            return _told(parts, ask, method, shown, *given)

    places = [f"{key}.{what}" for key in ("step", "layer") for what in ("max", "value")]
    answer(later, "sweep", ["sweep-place.children"], _there("sweep"), sign="sweep-busy")
    shown = ["timeline-place.children", "waits.children", *places]
    answer(at_once, "timeline", shown, _there("timeline"))
    answer(at_once, "resolved", ["yaml.children"])
    answer(at_once, "comparison", ["comparison.children"])
    fronted = State("fronted", "data")
    answer(later, "front", FRONTED, fronted, Input("tick", "n_intervals"))
    opened, asked_for = ["url.search", "trouble.children"], Input("opened", "data")
    answer(at_once, "open_point", opened, asked_for, sign="busy", once=True)
    listed, asked = ["tricks.children"], Input("list-tricks", "n_clicks")
    answer(later, "tricks", listed, asked, sign="tricks-busy", once=True)
    sized, target = ["machines.children", "target-error.children"], Input("target", "value")
    answer(later, "target", sized, target, sign="target-busy", once=True)


def _told(parts: Sequence[str], ask: Ask, *question: Any) -> Parts:
    """The answer to a question, as outputs; properties of parts that may be absent are set aside.

    Args:
        parts: The outputs.
        ask: Whom to ask.
        question: The method and its arguments.
    """
    try:
        found = ask(*question)
    except InputError as error:
        found = {"trouble.children": view.alert([str(error.named())])}
    if not found:
        raise PreventUpdate
    for part in found.keys() - set(parts):
        key, _, what = part.rpartition(".")
        set_props(key, {what: found[part]})
    return {part: found.get(part, no_update) for part in parts}


def _outputs(parts: Sequence[str], **options: bool) -> dict[str, Output]:
    return {part: Output(*part.rsplit(".", 1), **options) for part in parts}


def _sign(key: str) -> list[tuple[Output, bool, bool]]:
    """Shown while the server computes."""
    return [(Output(key, "hidden"), False, True)]


def _there(key: str) -> State:
    """The name of a graph, if it is there."""
    return State(key, "id", allow_optional=True)
