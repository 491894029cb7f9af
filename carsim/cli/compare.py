"""``carsim compare``: what differs between two runs, and what that did."""

from typing import TYPE_CHECKING, Any

import click

from carsim.base.errors import InputError
from carsim.cli.options import DESIGNS, JSON, TRACES
from carsim.cli.stated import stated_of, stated_options

if TYPE_CHECKING:
    from carsim.design import Design


@click.command()
@click.argument("a", shell_complete=DESIGNS)
@click.argument("b", shell_complete=DESIGNS)
@click.option(
    "--trace",
    "traces",
    metavar="FILE",
    shell_complete=TRACES,
    multiple=True,
    help="Trace, a file or a name, to simulate designs on; again for one under sparse attention.",
)
@stated_options
@click.option(
    "--set-a", "set_a", metavar="PATH=VALUE", multiple=True, help="Change A, if it is a design."
)
@click.option(
    "--set-b", "set_b", metavar="PATH=VALUE", multiple=True, help="Change B, if it is a design."
)
@click.option("--allow-misfit", is_flag=True, help="Simulate designs that do not fit.")
@JSON
def compare(
    a: str,
    b: str,
    traces: tuple[str, ...],
    set_a: tuple[str, ...],
    set_b: tuple[str, ...],
    allow_misfit: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what differs between A and B, and what that did.

    Each is a folder that carsim run --out made, or a design: a YAML file or the name of a shipped
    one, which is simulated on --trace, or without a trace as carsim run does.
    """
    stated = stated_of(traces, **options)
    from carsim.cli.console import in_order, output_console, progress, show, show_json
    from carsim.decisions.trace import load_trace
    from carsim.report.compare import compare as compare_runs
    from carsim.report.compare_words import sections

    first, second = _side(a, set_a, "--set-a"), _side(b, set_b, "--set-b")
    with progress("comparing"):
        loaded = [load_trace(file) for file in traces]
        found = compare_runs(first, second, traces=loaded, stated=stated, allow_misfit=allow_misfit)
    if as_json:
        show_json(found.document())
        return
    show(output_console(), in_order(sections(found)))


def _side(name: str, changes: tuple[str, ...], option: str) -> "str | Design":
    """A folder of results by its name, or a design with its changes."""
    from carsim.design import load_design
    from carsim.report.compare import is_run

    if not is_run(name):
        try:
            return load_design(name, changes)
        except InputError as error:
            raise error.named({"overrides": option}) from None
    if changes:
        raise InputError(option, f"{name} is a folder of results", "run its design again instead")
    return name
