"""``carsim studio``: a page on which a design is changed and answers at once."""

import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from carsim.base.environment import library
from carsim.cli.console import say
from carsim.cli.options import WORKLOAD, overriding, plugin_options, work_of

if TYPE_CHECKING:
    from carsim.studio.state import TabState

DESIGN = "u280_compute_bound"
TRACE = "vilau_8f"
"""What a studio without arguments shows: a design in which replay and DRS both pay."""


@click.command()
@click.argument("design", type=click.Path(), default=DESIGN)
@click.option("--trace", metavar="FILE", help=f"Trace that is decoded; {TRACE} for videos.")
@WORKLOAD
@overriding()
@click.option("--store", metavar="DIR", help="Show the points of this sweep; a click opens one.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8050,
    help="Port on this machine; 0 takes a free one.",
)
@click.option("--no-browser", is_flag=True, help="Open no browser; print an address that lets in.")
def studio(design: str, trace: str | None, workload: str | None, **given: Any) -> None:
    """Change DESIGN in the browser, and see at once what that does.

    DESIGN is a YAML file or the name of a shipped design. The page is served on this machine, to
    the user who started it, and needs no network. Its address holds everything, so that a link
    brings a design back. Only shipped files, files in this folder and files named here are read.
    """
    from carsim.base.fork_server import start_fork_server
    from carsim.studio.worker import ANSWERS

    start_fork_server(ANSWERS)  # it imports while this process imports Dash and opens the design
    library("dash", "studio")

    from carsim.decisions.trace.shipped import trace_path
    from carsim.runs.opening import open_design
    from carsim.studio.serve import serve
    from carsim.studio.state import TabState

    work = work_of(workload, [trace] if trace else ())
    overrides = given["overrides"]
    store = given["store"] or ""
    makes_video = open_design(design, overrides, work).model.makes == "video"
    usual_trace = TRACE if makes_video and work is None else ""
    start = TabState(design, trace=trace or usual_trace, workload=workload or "", store=store)
    for override in overrides:
        path, _, value = override.partition("=")
        start = start.with_change(path.strip(), value)
    if start.trace:
        trace_path(start.trace)

    def tell(address: str, has_token: bool) -> None:
        click.echo(f"The studio is at {address}")  # in one line, however long
        who = "whoever has this address" if has_token else "the browser that opens now"
        say(f"It lets in {who}, and nobody else. Ctrl-C ends it.")

    try:
        # Asked here, as the page has no context of the command line. The answer goes to a process
        # of its own, which a lambda cannot.
        command_of = partial(run_command, plugins=plugin_options())
        serve(
            start,
            given["port"],
            tell=tell,
            opens_browser=not given["no_browser"],
            command_of=command_of,
        )
    except KeyboardInterrupt:
        say("The studio has ended.")


def run_command(state: "TabState", plugins: str = "") -> str:
    """The command that simulates the same as a tab of the studio.

    Args:
        state: The state of the tab.
        plugins: Options that load plugins, with a blank before them.

    >>> from carsim.studio.state import TabState
    >>> run_command(TabState.of_query("?machine.cores=6&trace=vilau_8f", "kv260"))
    'carsim run kv260 --trace vilau_8f --set machine.cores=6'
    """
    words = ["carsim", "run", state.design]
    if state.trace:
        words += ["--trace", state.trace]
    if state.workload:
        words += ["--workload", state.workload]
    for override in state.overrides:
        words += ["--set", override]
    return shlex.join(words) + plugins
