"""``carsim compare``: what differs between two runs, and what that did."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from carsim.base.errors import InputError
from carsim.cli.console import in_order, print_results, progress
from carsim.cli.options import JSON, TRACE, WORKLOAD, overriding, work_of
from carsim.workload.workload import Workload

if TYPE_CHECKING:
    from carsim.design import Design


@click.command()
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path(), required=False)
@click.option(
    "--tricks", is_flag=True, help="Compare all policies, and pairs, on the machine of A."
)
@WORKLOAD
@TRACE
@overriding("Change A, if it is a design", "a")
@overriding("Change B, if it is a design", "b")
@click.option("--allow-misfit", is_flag=True, help="Simulate designs that do not fit.")
@JSON
def compare(a: str, b: str | None, tricks: bool, as_json: bool, **options: Any) -> None:
    """Show what differs between A and B, and what that did; or which policy pays on A (--tricks).

    Each is a folder that carsim run --out made, or a design: a YAML file or the name of a shipped
    one, which is simulated on the workload as carsim run does.
    """
    work = work_of(options["workload"], options["traces"])
    changes_a = options["set_a"]
    changes_b = options["set_b"]
    if tricks:
        if b is not None or changes_b:
            raise InputError("--tricks", "compares policies on A alone", "leave out B and --set-b")
        _show_tricks(a, changes_a, work, as_json)
        return
    if b is None:
        raise InputError("B", "is missing", "name it, or say --tricks")
    from carsim.report.compare import compare as compare_runs
    from carsim.report.compare_words import sections

    side_a = _side(a, changes_a, "--set-a", work)
    side_b = _side(b, changes_b, "--set-b", work)
    with progress("comparing"):
        comparison = compare_runs(
            side_a, side_b, workload=work, allow_misfit=options["allow_misfit"]
        )
    print_results(as_json, comparison.document(), in_order(sections(comparison)))


def _side(
    name: str, changes: tuple[str, ...], option: str, work: Workload | None
) -> "str | Design":
    """A folder of results by its name, or a design with its changes."""
    from carsim.report.compare import is_run
    from carsim.runs.opening import open_design

    if not is_run(name):
        try:
            return open_design(name, changes, work)
        except InputError as error:
            raise error.named({"overrides": option}) from None
    if changes:
        raise InputError(option, f"{name} is a folder of results", "run its design again instead")
    return name


def _show_tricks(name: str, changes: tuple[str, ...], work: Workload | None, as_json: bool) -> None:
    """Every policy of the registries, and pairs of them, on one machine."""
    from carsim.explore.tricks import tricks_of, tricks_table
    from carsim.runs.opening import open_design

    with progress("trying policies"):
        design = open_design(name, changes, work)
        tricks = tricks_of(design, work)
    rows = [asdict(trick) for trick in tricks]
    document = {"design": design.name, "workload": work.text if work else "", "tricks": rows}
    note = (
        "Assumed: counts measured on a proxy model at 8 frames, or replays drawn with the "
        "correlations of a captured trace; --trace brings captured decisions."
    )
    print_results(as_json, document, [f"Policies on {design.name}", tricks_table(tricks), note])
