"""``carsim config``: shipped designs, resolved designs, and the schema of the YAML."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from carsim.base.errors import InputError
from carsim.base.files import write_whole
from carsim.base.text import Table
from carsim.cli import LazyGroup
from carsim.cli.console import in_order, progress, say
from carsim.cli.options import BOARD, JSON, MODEL, WORKLOAD, design_given, overriding, work_of


@click.group(
    cls=LazyGroup,
    lazy={
        "metrics": "List every metric with its unit, meaning and formula.",
        "rtl": "Write the scheduler block for an FPGA: Verilog, C header, constraints, report.",
    },
)
def config() -> None:
    """Show designs, presets, metrics, and schemas of files."""


@config.command("show", short_help="Print a design as it is resolved.")
@click.argument("design", type=click.Path(), required=False)
@BOARD
@MODEL
@WORKLOAD
@overriding()
@JSON
def show_design(as_json: bool, workload: str | None, **options: Any) -> None:
    """Print DESIGN with presets, defaults and changes written out; it loads as the same design.

    Of a board and a model alone the machine is chosen for the workload; the description says why.
    """
    from carsim.design.document import design_yaml

    design = design_given(
        options["design"],
        options["board"],
        options["model"],
        overrides=options["overrides"],
        workload=work_of(workload),
    )
    if as_json:
        click.echo(json.dumps(design.model_dump(mode="json"), indent=2))
    else:
        click.echo(design_yaml(design), nl=False)


@config.command(short_help="Print the JSON schema of a design, a study or a recipe.")
@click.argument("kind", type=click.Choice(["design", "study", "recipe"]), default="design")
def schema(kind: str) -> None:
    """Print the JSON schema of a design file, a study or a recipe, for editors and checkers.

    An editor with a YAML language server completes and checks a file whose first line is
    '# yaml-language-server: $schema=PATH'.
    """
    homes = {"study": "explore.study", "recipe": "decoder.recipe", "design": "design.document"}
    schema_of = getattr(import_module(f"carsim.{homes[kind]}"), f"{kind}_schema")
    click.echo(json.dumps(schema_of(), indent=2))


@config.command(short_help="Write a first design for a model on a board.")
@BOARD
@MODEL
@click.option("--batch", type=click.IntRange(1, 256), help="Sequences in lockstep.")
@WORKLOAD
@click.option("--out", metavar="FILE", help="Write the design there instead of printing it.")
def new(workload: str | None, out: str | None, **wished: Any) -> None:
    """Choose a design that decodes a workload on a board, and write it as commented YAML.

    From the smallest machine on, cores, their array, precision, buffers and mapping are changed
    one by one, as long as plain decoding gains: no replay, no trace. What a precision costs in
    quality is not known; the first line says which one was chosen. The command config show keeps
    the precision of a model's own file, or that of --set model.weights.bits=8.
    """
    from carsim.runs.first import (
        Wish,
        design_text,
        first_design,
        precision_in_words,
        speed_in_words,
    )

    work = work_of(workload)
    if wished["model"] is None and work is not None:
        wished["model"] = work.model
    if wished["board"] is None or wished["model"] is None:
        raise click.UsageError("needs --board and --model, say --board kv260 --model tiny")
    if out is not None and Path(out).exists():
        raise InputError(out, "is there already", "name another file or remove it")
    wish = Wish.of(**wished, workload=work)
    with progress("trying designs"):
        best, tried = first_design(wish)
    text = design_text(wish, best, tried)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_whole(Path(out), text)
        for line in precision_in_words(wish, best.design):
            click.echo(line)
        click.echo(f"Written to {out}: {speed_in_words(best)}")


@config.command(name="list")
@click.option("--presets", is_flag=True, help="List presets, and standards of memories.")
@JSON
def list_designs(presets: bool, as_json: bool) -> None:
    """List the designs that ship with carsim."""
    from carsim.design import load_design, shipped_designs
    from carsim.design.load import shipped_presets
    from carsim.hardware.memory import STANDARDS

    described: dict[str, Any]
    if presets:
        described = shipped_presets()
        tables = {f"{section}.preset": names for section, names in described.items()}
        described["standard"] = tables["board.memories.NAME.standard"] = {
            name: f"{row.channel_bits} bits, {row.peak_gbps(row.channel_bits):.1f} GB/s a channel"
            for name, row in STANDARDS.items()
        }
    else:
        described = {name: load_design(name).description for name in shipped_designs()}
        tables = {"": described}
    if as_json:
        click.echo(json.dumps(described, indent=2))
        return
    say(*in_order((head, [Table(("", ""), tuple(of.items()), 2)]) for head, of in tables.items()))
