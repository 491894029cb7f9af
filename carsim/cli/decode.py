"""``carsim decode``: run the reference decoder against golden vectors."""

import click


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--check", is_flag=True, help="Exit with status 1 if an array differs.")
@click.pass_context
def decode(ctx: click.Context, files: tuple[str, ...], check: bool) -> None:
    """Decode the inputs of golden FILES and compare with what the FastCar authors' code gave.

    Decisions must be identical, and values equal within 1e-5 (float32) or 1e-10 (float64). A file
    is reproduced if it holds every array of the format, and none differs.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from carsim.decoder.golden import check_golden

    console = Console()
    reports = [check_golden(file) for file in files]
    for report in reports:
        table = Table(
            title=escape(f"{report.path.name}: {report.dtype}, TAS {report.tas_form}"),
            caption=escape(report.note),
            title_justify="left",
            caption_justify="left",
        )
        table.add_column("array")
        table.add_column("max abs error", justify="right")
        table.add_column("tolerance", justify="right")
        table.add_column("")
        for item in report.checks:
            error = (
                f"{item.max_abs_error:.0f} differ"
                if item.name == "skip"
                else f"{item.max_abs_error:.2e}"
            )
            table.add_row(
                item.name,
                error,
                f"{item.tolerance:.0e}" if item.tolerance else "identical",
                "[green]OK[/]" if item.ok else "[bold red]FAIL[/]",
            )
        console.print(table)
        if report.missing:
            console.print(
                f"{len(report.checks)} arrays checked; not in the file, so not checked: "
                f"{', '.join(report.missing)}"
            )
    partly = sum(report.ok and not report.reproduced for report in reports)
    console.print(
        f"{sum(report.reproduced for report in reports)} of {len(files)} files reproduced"
        + (f", {partly} more only as far as their arrays go" if partly else "")
    )
    if check and not all(report.ok for report in reports):
        ctx.exit(1)
