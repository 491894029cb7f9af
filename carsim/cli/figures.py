"""The option of commands that write figures."""

import click

FORMAT = click.Choice(["png", "svg", "pdf"])

FIGURES = click.option(
    "--figures", type=FORMAT, help="Format of the figures that are written  [default: png]."
)
