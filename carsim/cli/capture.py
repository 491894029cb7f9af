"""``carsim capture``: from a recipe to a trace."""

from pathlib import Path

import click


@click.command()
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File to write; by default the recipe's output, in the recipe's folder.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=2,
    show_default=True,
    help="Processes; changes the time and no bit of the result.",
)
@click.option(
    "--calibrate",
    type=float,
    metavar="RATIO",
    help="Write nothing; search the tau that replays RATIO (0 to 1) of the eligible steps.",
)
def capture(
    recipe: Path, out: Path | None, overwrite: bool, workers: int, calibrate: float | None
) -> None:
    """Decode the content of RECIPE (a YAML file) with the reference decoder and write its trace."""
    import time

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    from carsim.decoder.calibrate import calibrate as search_tau
    from carsim.decoder.capture import capture as decode_recipe
    from carsim.decoder.recipe import parse_recipe
    from carsim.spec.yaml_file import read_mapping
    from carsim.trace import captured as decisions_of
    from carsim.trace import replay_ratio, save_trace
    from carsim.trace.npz import refuse_existing

    parsed = parse_recipe(read_mapping(recipe), recipe)
    target = out or recipe.parent / parsed.output
    if calibrate is None:
        refuse_existing(target, overwrite=overwrite)
    started = time.monotonic()
    columns = (TextColumn("decoding {task.fields[name]}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("", name=parsed.name)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        if calibrate is not None:
            found = search_tau(parsed, recipe.parent, calibrate, workers=workers, progress=progress)
        else:
            trace = decode_recipe(parsed, recipe.parent, workers=workers, progress=progress)
    if calibrate is not None:
        click.echo(
            f"tau: {found.tau}  # replays {found.ratio:.1%} of eligible steps, found in "
            f"{found.decodings} decodings"
        )
        return
    saved = save_trace(target, trace, overwrite=overwrite)
    overall, eligible = replay_ratio(decisions_of(saved), saved.tokens_per_frame)
    click.echo(
        f"{target}: {saved.n_steps} steps, {saved.n_layers} layers, {saved.n_rows} rows; replayed "
        f"{overall:.1%} of all steps, {eligible:.1%} of eligible steps (first frame left out)\n"
        f"{target.stat().st_size:,} bytes in {time.monotonic() - started:.0f} s, "
        f"sha256 {saved.sha256}"
    )
