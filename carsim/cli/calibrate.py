"""``carsim calibrate``: overheads of a board from a few measured decoding speeds."""

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
    from carsim.runs.calibrate import MeasuredPoints

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
    from carsim.runs.calibrate import Constants, fit, measured_points

    if out is not None and Path(out).exists():
        raise InputError(out, "exists already", "name another file")
    measured = measured_points(design, given["measured"], given["overrides"])
    if given["kernels"] is not None:
        _show_kernels(measured, given["kernels"], given["runtime"] or "", out, as_json=as_json)
        return
    found = fit(measured.points)
    section = found.overheads(given["runtime"] or "").model_dump(mode="json", exclude_defaults=True)
    if out is not None:
        write_whole(Path(out), yaml_text(section, is_short=True))
    bound = Constants()
    errors = [
        (point.text, point.tokens_per_s, point.error(bound), fitted, left_out)
        for point, fitted, left_out in zip_longest(found.points, found.errors, found.left_out)
    ]
    if as_json:
        document = {"overheads": section, "residual": found.residual}
        notes = [*measured.notes, *found.notes, *([found.assumption] if found.assumption else [])]
        document |= {"left_out_error": found.left_out_error, "notes": notes}
        show_json(document | {"points": [dict(zip(POINT, of, strict=True)) for of in errors]})
        return
    lines = [
        (text, number(speed), *("-" if each is None else signed_percent(each) for each in of))
        for text, speed, *of in errors
    ]
    heading = ("measured at", "tokens/s", "no overhead", "calibrated", "left out")
    error = found.left_out_error
    mean = "unknown from one point" if error is None else f"{100 * error:.1f} %"
    summary = f"Mean error of the fit: {100 * found.residual:.1f} %; of points left out: {mean}."
    say(Table(heading, tuple(lines)), summary)
    click.echo(yaml_text({"machine": {"overheads": section}}, is_short=True), nl=False)
    for note in (*measured.notes, *found.notes):
        click.echo(f"warning: {note}", err=True)
    if found.assumption is not None:
        click.echo(f"note: {found.assumption}", err=True)
    if out is not None:
        say(f"Written to {out}")


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
        found = kernels_of_batches(measured.points)
    else:
        found = kernels_of_blocks(Path(source), measured.points)
    section = found.overheads(measured.points, runtime)
    fields = section.model_dump(mode="json", exclude_defaults=True)
    if out is not None:
        write_whole(Path(out), yaml_text(fields, is_short=True))
    notes = [*measured.notes, *found.notes]
    if as_json:
        lines = [asdict(line) for line in found.lines]
        document = {"overheads": fields, "lines": lines, "log_sd": found.log_sd}
        show_json({**document, "left_out": list(found.left_out), "notes": notes})
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
        for line in found.lines
    ]
    entries = f"{len(found.kernels)} entries of block, rows and cores."
    say(Table(heading, tuple(rows)), f"A line by rows for each block of a layer. {entries}")
    if out is None:
        click.echo(yaml_text({"machine": {"overheads": fields}}, is_short=True), nl=False)
    for note in notes:
        click.echo(f"warning: {note}", err=True)
    if out is not None:
        say(f"Written to {out}")
