"""``carsim run``: simulate one design on a trace and compare it with the alternatives."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from carsim.base.errors import InputError
from carsim.cli.options import (
    BOARD,
    DESIGNS,
    JSON,
    MODEL,
    TRACE,
    WORKLOAD,
    design_given,
    overriding,
    work_of,
)

if TYPE_CHECKING:
    from carsim.decisions.trace import Trace
    from carsim.design import Design
    from carsim.runs.report import Report
    from carsim.workload.workload import Workload


@click.command()
@click.argument("design", shell_complete=DESIGNS, required=False)
@BOARD
@MODEL
@WORKLOAD
@TRACE
@click.option(
    "--tau",
    metavar="X",
    help="Threshold the trace's scores again, open loop: one number, one per layer (0.1,0.2,...), "
    "or inf, which never replays.",
)
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Sequences in lockstep.")
@overriding()
@click.option(
    "--resample",
    "resample_seed",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Draw the rows that a batch needs beyond the trace's, with this seed.",
)
@click.option(
    "--fidelity",
    type=click.Choice(["fluid", "tile"]),
    default="fluid",
    show_default=True,
    help="Share bandwidth between flows, or request every tile: finer, and some 25 times slower.",
)
@click.option("--allow-misfit", is_flag=True, help="Go on with a design that does not fit.")
@JSON
@click.option("--full", "length", flag_value="full", help="Print all metrics, terms and notes too.")
@click.option("--quiet", "length", flag_value="quiet", help="Print the policy's row alone.")
@click.option("--out", metavar="DIR", help="Also write summary, tables and layer-steps.")
@click.option("--overwrite", is_flag=True, help="Replace DIR if an earlier run made it.")
@click.option(
    "--timeline",
    metavar="A:B",
    help="Also write a timeline of steps A to B-1 to DIR, for ui.perfetto.dev.",
)
def run(
    design: str | None,
    board: str | None,
    model: str | None,
    workload: str | None,
    traces: tuple[str, ...],
    tau: str | None,
    batch: int | None,
    overrides: tuple[str, ...],
    as_json: bool,
    length: str | None,
    out: str | None,
    overwrite: bool,
    timeline: str | None,
    **how: Any,
) -> None:
    """Simulate DESIGN, a YAML file or the name of a shipped design, on a workload.

    A board and a model are enough: carsim run --board kv260 --model tinyllama_1b chooses the
    machine as config new does. Beside DESIGN they replace its own.

    Without --workload it decodes what the model makes, densely: a text if its head is a classifier,
    else a video. A trace has captured decisions; video:8,replay=0.5 draws them.

    Compares the design's policy with its alternatives, among them dense decoding, and with a lower
    bound; explains where time goes, what limits it, and whether the design fits its board. Exit
    status 2 for bad input, 3 for a design that does not fit.
    """
    work = work_of(workload, traces)
    has_trace = work is not None and work.kind == "trace"
    needs = ("`tau`", "scores", tau), ("`resample_seed`", "rows", how["resample_seed"])
    for name, what, value in needs if not has_trace else ():
        if value is not None:
            raise InputError(name, f"needs the {what} of a trace", "add --trace FILE")
    window = parse_window(timeline) if timeline is not None else None
    _check_out(out, overwrite, {"--timeline": window})

    from carsim.cli.console import progress, show_json
    from carsim.report import save_report, summary
    from carsim.runs.pipeline import run as simulate
    from carsim.runs.pipeline import sources_of
    from carsim.runs.timeline import check_window

    loaded = _load(overrides, tau, batch, partial(design_given, design, board, model), work)
    decoded = sources_of(loaded, workload=work).traces
    if window is not None:
        check_window(*window, decoded[0].n_steps, loaded.model.body.n_layers)
    with progress("simulating") as tell:
        report = simulate(loaded, decoded, detail=out is not None, **how)
        files: list[str] = []
        if out is not None:
            writing: dict[str, Any] = {"progress": lambda what: tell(f"writing {what}")}
            files = save_report(report, out, overwrite=overwrite, timeline=window, **writing)
    if as_json:
        show_json(summary(report))
    else:
        _show(report, decoded, length, out, files)


def _check_out(out: str | None, overwrite: bool, written: Mapping[str, object]) -> None:
    """Refuse a folder that may not be replaced, and options of files without a folder."""
    if out is None and (overwrite or any(written.values())):
        option = next((name for name, value in written.items() if value), "--overwrite")
        raise InputError(option, "has nowhere to write", "add --out DIR")
    if out is not None:
        from carsim.report.files import OUTPUT_FILES
        from carsim.report.folder import check_folder

        check_folder(Path(out), overwrite=overwrite, ours=OUTPUT_FILES)


def _load(
    overrides: Sequence[str],
    tau: str | None,
    batch: int | None,
    opened: "Callable[[Sequence[str], Workload | None], Design]",
    work: "Workload | None",
) -> "Design":
    """The design with its changes, of which some have options of their own."""
    own = {
        "policy.tau": None if tau is None else parse_tau(tau),
        "policy.batch": None if batch is None else str(batch),
    }
    given = {path: value for path, value in own.items() if value is not None}
    try:
        return opened([*overrides, *(f"{p}={value}" for p, value in given.items())], work)
    except InputError as error:
        if (place := error.named().place) not in given:
            raise
        option = f"--{place.removeprefix('policy.')}"
        raise InputError(option, error.problem, error.cure) from None


def _show(
    report: "Report",
    traces: "Sequence[Trace]",
    length: str | None,
    out: str | None,
    files: Sequence[str],
) -> None:
    """Print the short output, all (``full``) or one row (``quiet``), and the files written."""
    from carsim.cli.console import in_order, output_console, say, show
    from carsim.report.files import missing_parquet
    from carsim.report.run_tables import policies_table
    from carsim.report.run_words import more_sections, short_sections
    from carsim.report.stored import stored

    run = stored(report)
    if length == "quiet":
        warnings = (f"warning: {warning}" for warning in run.warnings)
        show(output_console(), [policies_table(run, own_only=True), *warnings])
    else:
        more = more_sections(run, traces) if length == "full" else ()
        show(output_console(), in_order([*short_sections(run), *more]))
    if files:
        left_out = missing_parquet()
        say("", f"Written to {out}: {', '.join(files)}{left_out and f' ({left_out})'}")


def parse_tau(text: str) -> str:
    """The thresholds of ``--tau`` as YAML: a number, or a list of them; ``inf`` never replays.

    Raises:
        InputError: No number, nor several separated by commas.

    >>> parse_tau("-0.5"), parse_tau("0.1,1e-3,inf")
    ('-0.5', '[0.1,0.001,inf]')
    """
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(value > -math.inf for value in values):
        raise InputError(
            f"--tau {text}",
            "is no threshold",
            "give a number, such as 0.25, one per layer separated by commas, or inf for no replay",
        )
    texts = [repr(value) for value in values]
    return texts[0] if len(texts) == 1 else f"[{','.join(texts)}]"


def parse_window(text: str) -> tuple[int, int]:
    """First step, and the step after the last, of ``--timeline``.

    Raises:
        InputError: Not two whole numbers separated by a colon.

    >>> parse_window("256:260")
    (256, 260)
    """
    match = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text)
    if match is None:
        raise InputError(
            f"--timeline {text}",
            "is not of the form A:B",
            "give the first step and the step after the last one, such as 256:260",
        )
    return int(match[1]), int(match[2])
