"""``carsim calibrate``: overheads of a board from a few measured decoding speeds."""

from itertools import zip_longest
from pathlib import Path
from typing import Any

import click

from carsim.base.errors import InputError
from carsim.base.files import write_whole
from carsim.base.text import Table, number, signed_percent
from carsim.base.yaml_file import yaml_text
from carsim.cli.console import say, show_json
from carsim.cli.options import JSON, overriding

POINT = ("workload", "tokens_per_s", "hardware_bound_error", "calibrated_error", "left_out_error")
"""Names of a point's figures in JSON."""


@click.command()
@click.argument("design", type=click.Path())
@click.option(
    "--measured",
    multiple=True,
    required=True,
    metavar="POINT",
    help="'tokens_per_s=24.4 @ text:16+128' (prompt and new tokens), or a CSV file with columns "
    "tokens_per_s, workload and set (changes such as model.preset=llama2_7b); may be repeated.",
)
@click.option("--runtime", help="Software on the board and its version.")
@overriding("Change the design for all points, say machine.overheads.step_us=0")
@click.option("--out", metavar="FILE", help="Write the overheads as YAML to this new file.")
@JSON
def calibrate(design: str, out: str | None, as_json: bool, **given: Any) -> None:
    """Fit the overheads of a DESIGN's board to measured decoding speeds.

    Prints the error of the hardware bound, of the fit and of points left out of the fit, and the
    section machine.overheads for the design. A design includes the file that --out writes as
    machine.overheads.from.
    """
    from carsim.runs.calibrate import Constants, fit, measured_points

    if out is not None and Path(out).exists():
        raise InputError(out, "exists already", "name another file")
    found = fit(measured_points(design, given["measured"], given["overrides"]))
    section = found.overheads(given["runtime"] or "").model_dump(mode="json", exclude_defaults=True)
    if out is not None:
        write_whole(Path(out), yaml_text(section, is_short=True))
    bound, fitted = Constants(), found.constants
    errors = [
        (point.text, point.tokens_per_s, point.error(bound), point.error(fitted), left_out)
        for point, left_out in zip_longest(found.points, found.left_out)
    ]
    if as_json:
        document = {"overheads": section, "residual": found.residual}
        document |= {"left_out_error": found.left_out_error, "notes": found.notes}
        show_json(document | {"points": [dict(zip(POINT, of, strict=True)) for of in errors]})
        return
    lines = [
        (text, number(speed), *("-" if each is None else signed_percent(each) for each in of))
        for text, speed, *of in errors
    ]
    heading = ("measured at", "tokens/s", "hardware bound", "calibrated", "left out")
    error = found.left_out_error
    mean = "unknown from one point" if error is None else f"{100 * error:.1f} %"
    summary = f"Mean error of the fit: {100 * found.residual:.1f} %; of points left out: {mean}."
    say(Table(heading, tuple(lines)), summary)
    click.echo(yaml_text({"machine": {"overheads": section}}, is_short=True), nl=False)
    for note in found.notes:
        click.echo(f"warning: {note}", err=True)
    if out is not None:
        say(f"Written to {out}")
