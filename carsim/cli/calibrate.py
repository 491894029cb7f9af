"""``carsim calibrate``: overheads of a board from a few measured decoding speeds."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from carsim.base.errors import InputError
from carsim.base.files import write_whole
from carsim.base.text import Table, number, signed_percent
from carsim.base.yaml_file import yaml_text
from carsim.cli.console import say, show_json
from carsim.cli.options import JSON, overriding

if TYPE_CHECKING:
    from carsim.runs.calibrate import Fit, MeasuredPoints

POINT = ("workload", "tokens_per_s", "hardware_bound_error", "calibrated_error", "left_out_error")
"""Names of a point's figures in JSON."""


@click.command()
@click.argument("design", type=click.Path())
@click.option(
    "--measured",
    multiple=True,
    required=True,
    metavar="POINT",
    help="'tokens_per_s=24.4 @ text:16+128' (prompt and new tokens); a file that llama-bench wrote "
    "(JSON, CSV or Markdown); or a CSV file with columns tokens_per_s, workload and set (changes "
    "such as model.preset=llama2_7b). May be repeated.",
)
@click.option(
    "--kernels",
    metavar="FILE",
    help="Fit times by block and rows, not a time per layer: blocks.csv of carsim measure, or the "
    "word batches (dense points at three batches or more).",
)
@click.option("--runtime", help="Software on the board and its version.")
@overriding("Change the design for all points, say machine.overheads.step_us=0")
@click.option("--out", metavar="FILE", help="Write the overheads as YAML to this new file.")
@JSON
def calibrate(design: str, out: str | None, as_json: bool, **given: Any) -> None:
    """Fit the overheads of a DESIGN's board to measured decoding speeds.

    Prints the error of the time without runtime overhead, of the fit and of points left out of the
    fit, and the section machine.overheads for the design. A design includes the file that --out
    writes as machine.overheads.from.
    """
    from carsim.runs.calibrate import fit, measured_points

    if out is not None and Path(out).exists():
        raise InputError(out, "exists already", "name another file")
    measured = measured_points(design, given["measured"], given["overrides"])
    if given["kernels"] is not None:
        _show_kernels(measured, given["kernels"], given["runtime"] or "", out, as_json=as_json)
        return
    fitted = fit(measured.points)
    overheads = fitted.overheads(given["runtime"] or "")
    section = overheads.model_dump(mode="json", exclude_defaults=True)
    if out is not None:
        write_whole(Path(out), yaml_text(section, is_short=True))
    if as_json:
        show_json(_fit_document(measured, fitted, section))
        return
    _show_fit(measured, fitted, section)
    if out is not None:
        say(f"Written to {out}")


def _points(fitted: "Fit") -> Iterator[tuple[Any, ...]]:
    """Of each point: its text, its speed, and its errors without overhead, fitted, and left out."""
    from carsim.runs.calibrate import Constants

    no_overhead = Constants()
    for point, error, left_out in zip_longest(fitted.points, fitted.errors, fitted.left_out):
        yield point.text, point.tokens_per_s, point.error(no_overhead), error, left_out


def _fit_document(
    measured: "MeasuredPoints", fitted: "Fit", section: dict[str, Any]
) -> dict[str, Any]:
    """A fit as plain data.

    Args:
        measured: The measured speeds.
        fitted: The fit.
        section: Its overheads as a section of a design.
    """
    notes = [*measured.notes, *fitted.notes]
    if fitted.assumption:
        notes.append(fitted.assumption)
    return {
        "overheads": section,
        "residual": fitted.residual,
        "left_out_error": fitted.left_out_error,
        "notes": notes,
        "points": [dict(zip(POINT, point, strict=True)) for point in _points(fitted)],
    }


def _show_fit(measured: "MeasuredPoints", fitted: "Fit", section: dict[str, Any]) -> None:
    """Print a fit with the errors of its points, its section, and warnings.

    Args:
        measured: The measured speeds.
        fitted: The fit.
        section: Its overheads as a section of a design.
    """
    rows = []
    for text, speed, *errors in _points(fitted):
        error_texts = ["-" if error is None else signed_percent(error) for error in errors]
        rows.append((text, number(speed), *error_texts))
    heading = ("measured at", "tokens/s", "no overhead", "calibrated", "left out")
    mean = "unknown from one point"
    if fitted.left_out_error is not None:
        mean = f"{100 * fitted.left_out_error:.1f} %"
    summary = f"Mean error of the fit: {100 * fitted.residual:.1f} %; of points left out: {mean}."
    say(Table(heading, tuple(rows)), summary)
    click.echo(yaml_text({"machine": {"overheads": section}}, is_short=True), nl=False)
    for note in (*measured.notes, *fitted.notes):
        click.echo(f"warning: {note}", err=True)
    if fitted.assumption is not None:
        click.echo(f"note: {fitted.assumption}", err=True)


def _show_kernels(
    measured: "MeasuredPoints", source: str, runtime: str, out: str | None, *, as_json: bool
) -> None:
    """Fit times of kernels, print and write them.

    Args:
        measured: Dense points.
        source: A table of blocks, or ``batches``.
        runtime: Software on the board.
        out: File for the section; None writes none.
        as_json: Print JSON.
    """
    from carsim.runs.kernel_times import kernels_of_batches, kernels_of_blocks

    if source == "batches":
        kernels = kernels_of_batches(measured.points)
    else:
        kernels = kernels_of_blocks(Path(source), measured.points)
    section = kernels.overheads(measured.points, runtime)
    fields = section.model_dump(mode="json", exclude_defaults=True)
    if out is not None:
        write_whole(Path(out), yaml_text(fields, is_short=True))
    notes = [*measured.notes, *kernels.notes]
    if as_json:
        document = {
            "overheads": fields,
            "lines": [asdict(line) for line in kernels.lines],
            "log_sd": kernels.log_sd,
            "left_out": list(kernels.left_out),
            "notes": notes,
        }
        show_json(document)
        return
    heading = ("block", "cores", "constant, us", "per row, us", "one row, us", "left out")
    rows = [
        (
            line.block,
            str(line.at_work),
            f"{line.constant_us:.4g}",
            f"{line.row_us:.4g}",
            f"{line.low_us:.4g} to {line.high_us:.4g}",
            "-" if line.error is None else f"{line.error:.1%}",
        )
        for line in kernels.lines
    ]
    entries = f"{len(kernels.kernels)} entries of block, rows and cores."
    say(Table(heading, tuple(rows)), f"A line by rows for each block of a layer. {entries}")
    if out is None:
        click.echo(yaml_text({"machine": {"overheads": fields}}, is_short=True), nl=False)
    for note in notes:
        click.echo(f"warning: {note}", err=True)
    if out is not None:
        say(f"Written to {out}")
