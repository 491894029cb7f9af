"""``carsim config``: shipped designs, resolved designs, and the schema of the YAML."""

import json

import click


@click.group()
def config() -> None:
    """Show resolved designs and the schema of the YAML."""


@config.command(short_help="Print a design as it is resolved.")
@click.argument("design")
@click.option(
    "--set",
    "overrides",
    metavar="PATH=VALUE",
    multiple=True,
    help="Change the design, say machine.cores=8; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of YAML.")
def show(design: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Print DESIGN with presets, defaults and changes written out; it loads as the same design."""
    from carsim.design import load_design
    from carsim.design.document import design_yaml

    loaded = load_design(design, overrides)
    if as_json:
        click.echo(json.dumps(loaded.model_dump(mode="json"), indent=2))
    else:
        click.echo(design_yaml(loaded), nl=False)


@config.command(short_help="Print the JSON schema of a design file.")
def schema() -> None:
    """Print the JSON schema of a design file, for editors and checkers."""
    from carsim.design.document import design_schema

    click.echo(json.dumps(design_schema(), indent=2))


@config.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def list_designs(as_json: bool) -> None:
    """List the designs that ship with carsim."""
    from carsim.design import load_design, shipped_designs

    described = {name: load_design(name).description for name in shipped_designs()}
    if as_json:
        click.echo(json.dumps(described, indent=2))
        return

    from rich.table import Table

    from carsim.cli.console import output_console, show

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, description in described.items():
        grid.add_row(name, description)
    show(output_console(), [grid])
