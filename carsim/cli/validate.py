"""``carsim validate``: predictions against figures that carsim's authors did not make."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from carsim.cli.validate_array import array, array_document
from carsim.cli.validate_boards import boards, boards_document
from carsim.cli.validate_dram import dram, dram_document
from carsim.cli.validate_fidelity import fidelity
from carsim.cli.validate_paper import paper, paper_document
from carsim.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from carsim.validate.overview import Figure, Validation

OUT_OF_BOUNDS = 1
"""Exit status of a figure that leaves its stated bound."""


@click.group(invoke_without_command=True)
@click.option("--short", is_flag=True, help="Compare fidelities on a tenth of the designs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--out", metavar="DIR", help="Write a report with plots, Markdown and HTML, there.")
@click.option("--overwrite", is_flag=True, help="Replace the report that --out holds.")
@click.pass_context
def validate(
    context: click.Context, short: bool, as_json: bool, out: str | None, overwrite: bool
) -> int | None:
    """Hold predictions against published figures, all of them or those of one COMMAND.

    Exits with status 1 if a figure leaves its stated bound.
    """
    if context.invoked_subcommand is not None:
        if short or as_json or out is not None or overwrite:
            raise click.UsageError(
                "--short, --out and --overwrite go without a command, and --json after it"
            )
        return None
    if overwrite and out is None:
        raise InputError("--overwrite", "has nowhere to write", "add --out DIR")
    if out is not None:
        from carsim.report.folder import check_folder
        from carsim.report.validation import VALIDATION_FILES

        check_folder(Path(out), overwrite=overwrite, ours=VALIDATION_FILES)

    from carsim.cli.console import output_console, progress, show
    from carsim.validate.overview import validate_all

    with progress("validating") as tell:
        validation = validate_all(short=short, progress=tell)
        files: list[str] = []
        if out is not None:
            from carsim.report.validation import save_validation

            files = save_validation(
                validation, out, overwrite=overwrite, progress=lambda now: tell(f"writing {now}")
            )
    if as_json:
        click.echo(json.dumps(validation_document(validation), indent=2))
    else:
        show(output_console(), validation_parts(validation))
        if out is not None:
            click.echo(f"Written to {out}: {', '.join(files)}")
    return None if validation.passes else OUT_OF_BOUNDS


for command in (boards, array, dram, paper, fidelity):
    validate.add_command(command)


def validation_document(validation: "Validation") -> dict[str, Any]:
    """All figures and all reports as plain data."""
    return {
        "passes": validation.passes,
        "figures": [_figure_document(figure) for figure in validation.figures],
        "boards": boards_document(validation.boards),
        "array": array_document(validation.array),
        "dram": dram_document(validation.dram),
        "paper": paper_document(validation.paper),
        "fidelity": validation.fidelity.document(),
    }


def _figure_document(figure: "Figure") -> dict[str, Any]:
    return {
        "part": figure.part,
        "figure": figure.what,
        "unit": figure.unit,
        "value": figure.value,
        "bound": figure.bound,
        "null": figure.null,
        "holds": figure.holds,
        "beats_null": figure.beats_null,
    }


def validation_parts(validation: "Validation") -> Iterator["RenderableType"]:
    """A line per figure, and the verdict."""
    from rich.text import Text

    from carsim.cli.plain_table import rich_table
    from carsim.report.validation_tables import NULL_MODELS, figures_table, verdict

    yield Text("Errors of carsim against what others measured, counted or published", style="bold")
    yield rich_table(figures_table(validation))
    yield NULL_MODELS
    yield Text(verdict(validation), style="bold" if validation.passes else "bold red")
