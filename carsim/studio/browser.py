"""Actions of the page that the browser does by itself."""

from dash import Dash, Input, Output, State

from carsim.studio.fields import SLIDERS
from carsim.studio.page import PLACES

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
  window.settling = setTimeout(() => dash_clientside.set_props("slid", told), 30);
  return "";
}"""
"""Tells of a slider that a user moved, once it has rested for 30 ms."""

LATER = """shown => {
  clearTimeout(window.later);
  if (shown) {
    window.later = setTimeout(() => dash_clientside.set_props("later", { data: shown }), 200);
  }
  return "";
}"""
"""Lets the browser draw the answer before it asks for what follows."""

COPY = """(link, command, yaml, words, text) => {
  const wanted = dash_clientside.callback_context.triggered_id;
  if (!wanted) return "";
  const texts = { "copy-link": location.href, "copy-command": words, "copy-yaml": text };
  navigator.clipboard.writeText(texts[wanted]);
  return "copied";
}"""
"""Puts the address, the command or the YAML into the clipboard."""


TOLD = """clicked => {
  const told = clicked?.points[0].hovertext;
  if (!told) return dash_clientside.no_update;
  return told.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}"""
"""Says what the slice of the timeline is that was clicked."""


EXPLORE = """points => {
  const root = document.getElementById("explorer");
  if (!points) return "";
  const open = (point) => dash_clientside.set_props("opened", { data: { point, at: Date.now() } });
  const draw = () => window.carsimExplorer
    ? window.carsimExplorer.mount(root, points, { open }) : setTimeout(draw, 50);
  draw();
  return "";
}"""
"""Draws the points of a sweep; what a user has limited and opened stays when points are added."""


def act_in_the_browser(app: Dash) -> None:
    """Register what needs no answer of the server."""
    sliders = [Input(f"{key}-slider", "value") for key in SLIDERS]
    sliders += [Input(key, "value") for key in PLACES]
    clicks = [Input(f"copy-{text}", "n_clicks") for text in ("link", "command", "yaml")]
    texts = [State(key, "children") for key in ("command", "yaml")]
    app.clientside_callback(SETTLE, Output("done", "title"), *sliders)
    explained = Input("timeline", "clickData", allow_optional=True)
    app.clientside_callback(TOLD, Output("timeline-told", "children"), explained)
    app.clientside_callback(EXPLORE, Output("explorer", "title"), Input("explored", "data"))
    app.clientside_callback(LATER, Output("pin", "name"), Input("shown", "data"))
    app.clientside_callback(COPY, Output("done", "children"), *clicks, *texts)
