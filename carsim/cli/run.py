"""``carsim run``: simulate one design on a workload, or repeat a run that was stored."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from carsim.base.errors import InputError
from carsim.base.plugins import plugin_gap
from carsim.cli.console import in_order, print_results, progress, say, say_screen, show_json
from carsim.cli.options import (
    BOARD,
    JSON,
    MODEL,
    TRACE,
    WORKLOAD,
    check_set_once,
    command_of,
    design_given,
    overriding,
    work_of,
)

if TYPE_CHECKING:
    from carsim.runs.report import Report
    from carsim.runs.timeline import Window

OUTPUTS = ("as_json", "length", "out", "overwrite", "timeline")
"""Parameters that decide what is shown and written. All others decide the figures."""

DIFFERENT = 1
"""Exit status if a run that is repeated has other figures."""


@click.command()
@click.argument("design", type=click.Path(), required=False)
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
    "--no-replay", is_flag=True, help="Decode without replay, whatever the trace decided."
)
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
    help="Share bandwidth between flows, or request every tile: finer, and some 25 times slower.",
)
@click.option("--allow-misfit", is_flag=True, help="Go on with a design that does not fit.")
@JSON
@click.option("--full", "length", flag_value="full", help="Print all metrics, terms and notes too.")
@click.option(
    "--quiet", "length", flag_value="quiet", help="Print the policy's row and what a board does."
)
@click.option("--out", metavar="DIR", help="Also write summary and tables.")
@click.option("--overwrite", is_flag=True, help="Replace DIR if an earlier run made it.")
@click.option(
    "--timeline",
    metavar="A:B[:POLICY,...]",
    help="Also write a timeline of steps A to B-1 to DIR, for ui.perfetto.dev: of these policies "
    "(drs, static, dense/static), else of the own one under each schedule. Nothing replays in the "
    "first frame, so take steps of a later one.",
)
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> int | None:
    """Simulate DESIGN, a YAML file or the name of a shipped design, on a workload.

    A board and a model are enough: carsim run --board kv260 --model tinyllama_1b chooses the
    machine as config new does.

    Without --workload it decodes what the model makes, densely: a text if its head is a classifier,
    else a video. A trace has captured decisions; video:8,replay=0.5 draws them.

    Compares the design's policy with its alternatives, among them dense decoding, and with a lower
    bound; explains where time goes, what limits it, and whether the design fits its board. Exit
    status 2 for bad input, 3 for a design that does not fit.

    A folder that run --out wrote, in place of DESIGN, is repeated by its own command. The answer
    says whether the figures are the same, else which differ and what has changed; exit status 1.
    """
    command = command_of(ctx, options, OUTPUTS)
    design = options["design"]
    out = options["out"]
    if design is not None and (Path(design) / "summary.json").exists():
        has_no_options = command == command_of(ctx, {"design": design})
        if not has_no_options or out or options["timeline"]:
            cure = "leave out all options but --plugin and --json"
            raise InputError(design, "is repeated as it was run", cure)
        return _repeat(ctx.command, design, options["as_json"])
    window = None
    if options["timeline"] is not None:
        window = parse_window(options["timeline"])
    if out is not None:
        from carsim.report.files import OUTPUT_FILES
        from carsim.report.folder import check_folder

        check_folder(Path(out), overwrite=options["overwrite"], ours=OUTPUT_FILES)
    elif window is not None:
        raise InputError("--timeline", "has nowhere to write", "add --out DIR")
    elif options["overwrite"]:
        raise InputError("--overwrite", "has nowhere to write", "add --out DIR")

    from carsim.report import save_report, summary

    files: list[str] = []
    with progress("simulating") as tell:
        report = replace(_simulated(options, window), command=command)
        if out is not None:
            files = save_report(
                report,
                out,
                overwrite=options["overwrite"],
                timeline=window,
                progress=lambda file: tell(f"writing {file}"),
            )
    if options["as_json"]:
        show_json(summary(report))
        return None
    _show(report, options["length"], out)
    if files:
        say("", f"Written to {out}: {', '.join(files)}")
    return None


def _simulated(options: Mapping[str, Any], window: "Window | None" = None) -> "Report":
    """The report of the options that decide the figures.

    Args:
        options: Options of ``carsim run`` by the names of their parameters.
        window: Steps of a timeline that will be written, which are checked before the simulation.

    Raises:
        InputError: Options that do not go together, or steps that the workload does not have.
    """
    from carsim.runs.pipeline import run as simulate
    from carsim.runs.pipeline import sources_of
    from carsim.runs.timeline import check_window

    work = work_of(options["workload"], options["traces"])
    has_trace = work is not None and work.kind == "trace"
    for name, needed in (("tau", "scores"), ("resample_seed", "rows")):
        if options[name] is not None and not has_trace:
            raise InputError(f"`{name}`", f"needs the {needed} of a trace", "add --trace FILE")
    design = design_given(
        options["design"],
        options["board"],
        options["model"],
        overrides=_overrides(options),
        workload=work,
    )
    traces = sources_of(design, workload=work).traces
    if window is not None:
        check_window(
            window.first,
            window.stop,
            n_steps=traces[0].n_steps,
            n_layers=design.model.body.n_layers,
        )
    return simulate(
        design,
        traces,
        replays=not options["no_replay"],
        resample_seed=options["resample_seed"],
        fidelity=options["fidelity"],
        allow_misfit=options["allow_misfit"],
    )


def _overrides(options: Mapping[str, Any]) -> list[str]:
    """Changes of the design as ``path=value``: those of --set, --tau and --batch.

    Raises:
        InputError: One field is changed in two ways.
    """
    overrides = list(options["overrides"])
    tau = options["tau"]
    if tau is not None:
        check_set_once("--tau", options["overrides"])
        overrides.append(f"policy.tau=[{tau}]" if "," in tau else f"policy.tau={tau}")
    if options["batch"] is not None:
        check_set_once("--batch", options["overrides"])
        overrides.append(f"policy.batch={options['batch']}")
    return overrides


def _show(report: "Report", length: str | None, folder: str | None) -> None:
    """Print the first screen, all (``full``) or one row (``quiet``)."""
    from carsim.report.run_tables import policies_table
    from carsim.report.run_words import more_sections
    from carsim.report.screen import expected, first_screen
    from carsim.report.stored import stored

    run = stored(report)
    if length == "quiet":
        fact = expected(run)
        lines = [f"{fact.label}: {fact.text}"]
        lines += [f"warning: {warning}" for warning in run.warnings]
        say(policies_table(run, own_only=True), *lines)
        return
    say_screen(*first_screen(run, folder))
    if length == "full":
        say_screen("", *in_order(more_sections(run)))


def _repeat(run_command: click.Command, folder: str, as_json: bool) -> int | None:
    """Repeat a stored run and say whether its figures are the same; the exit status.

    Args:
        run_command: The command ``carsim run``.
        folder: Folder of the stored run.
        as_json: Print JSON.

    Raises:
        InputError: The folder holds no run with a command that can be repeated.
    """
    from carsim.report.repeat import repetition
    from carsim.report.stored import AGAIN, SUMMARY, read_run, stored

    before = read_run(folder)
    place = f"{folder}/{SUMMARY}"
    if not before.manifest.command.startswith("carsim run "):
        raise InputError(place, "holds no command", "repeat it in Python, where it was made")
    gap = plugin_gap(before.manifest.plugins)
    if gap is not None:
        raise InputError(place, gap.problem, gap.cure)
    # A file never loads code or writes: its plugins are not read, other options are refused.
    refused = (*OUTPUTS, "plugins")
    accepted = [option for option in run_command.params if option.name not in refused]
    accepted.append(click.Option(["--plugin"], multiple=True, expose_value=False))
    try:
        words = shlex.split(before.manifest.command)[2:]
        options = click.Command("run", params=accepted).make_context("run", words).params
    except (ValueError, click.ClickException) as error:
        raise InputError(place, f"its command cannot be used ({error})", AGAIN) from None
    with progress("repeating"):
        repeated = repetition(before, stored(_simulated(options)))
    print_results(as_json, repeated.document(), in_order(repeated.sections()))
    return DIFFERENT if repeated.moved else None


def parse_window(text: str) -> "Window":
    """First step and the step after the last of ``--timeline``, and its policies.

    Raises:
        InputError: Not two whole numbers separated by a colon, with or without policies.

    >>> parse_window("256:260:drs,static")
    Window(first=256, stop=260, policies=('drs', 'static'))
    """
    from carsim.runs.timeline import Window

    match = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})(?::([^:]+))?", text)
    if match is None:
        cure = "give the first step and the step after the last one, such as 256:260"
        raise InputError(f"--timeline {text}", "is not of the form A:B[:POLICY,...]", cure)
    policies = tuple(name.strip() for name in (match[3] or "").split(",") if name.strip())
    return Window(first=int(match[1]), stop=int(match[2]), policies=policies)
