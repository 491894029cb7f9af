"""``carsim capture``: from a recipe, or a checkpoint, to a trace."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from carsim.cli.capture_hf import hf_options, refuse_stray, run_hf
from carsim.cli.options import STUDIES

if TYPE_CHECKING:
    from carsim.decisions.trace import Trace
    from carsim.decoder.workers import Progress as ProgressReport


@click.command()
@click.argument(
    "recipes",
    metavar="[RECIPE]...",
    nargs=-1,
    type=click.Path(path_type=Path),
    shell_complete=STUDIES,
)
@click.option(
    "--hf",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Drive the LLaMA-type Hugging Face checkpoint in this local folder; needs the extra hf.",
)
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
@hf_options
@click.pass_context
def capture(
    ctx: click.Context,
    /,
    recipes: tuple[Path, ...],
    hf: Path | None,
    out: Path | None,
    overwrite: bool,
    workers: int,
    calibrate: float | None,
    **options: Any,
) -> None:
    """Decode a video, really replaying, and write its trace.

    Either decode the content of each RECIPE (a YAML file) with the reference decoder, or let a
    checkpoint make a video: the options from --frames on belong to --hf.
    """
    import time

    from carsim.decisions.trace.npz import refuse_existing

    started = time.monotonic()
    if hf is None:
        refuse_stray(ctx, options, "needs --hf")
        if not recipes:
            raise click.UsageError("Give a RECIPE, or --hf FOLDER", ctx)
        if out is not None and len(recipes) > 1:
            raise click.UsageError("--out names one file: give one RECIPE with it", ctx)
        if calibrate is not None:
            _calibrate(recipes, calibrate, workers)
        else:
            _capture_recipes(recipes, out, overwrite, workers)
        return
    if recipes:
        raise click.UsageError("A recipe does not go with --hf", ctx)
    refuse_stray(ctx, ("workers", "calibrate"), "does not go with --hf")
    if out is None:
        raise click.UsageError("--hf needs --out FILE", ctx)
    refuse_existing(out, overwrite=overwrite)
    with progress_bar(hf.name) as progress:
        trace = run_hf(hf, options, progress)
    _save(out, trace, overwrite, started)


def _capture_recipes(
    recipes: tuple[Path, ...], out: Path | None, overwrite: bool, workers: int
) -> None:
    import time

    from carsim.base.yaml_file import read_mapping
    from carsim.decisions.trace.npz import refuse_existing
    from carsim.decoder.capture import References, check_needs
    from carsim.decoder.capture import capture as decode_recipe
    from carsim.decoder.recipe import parse_recipe

    parsed = [(path, parse_recipe(read_mapping(path), path)) for path in recipes]
    targets = [out or path.parent / recipe.output for path, recipe in parsed]
    for (path, recipe), target in zip(parsed, targets, strict=True):
        refuse_existing(target, overwrite=overwrite)
        check_needs(recipe, path.parent)
    references: References = {}
    for (path, recipe), target in zip(parsed, targets, strict=True):
        started = time.monotonic()
        with progress_bar(recipe.name) as progress:
            trace = decode_recipe(
                recipe, path.parent, workers=workers, progress=progress, references=references
            )
        _save(target, trace, overwrite, started)


def _calibrate(recipes: tuple[Path, ...], ratio: float, workers: int) -> None:
    from carsim.base.yaml_file import read_mapping
    from carsim.cli.console import say
    from carsim.decoder.calibrate import calibrate as search_tau
    from carsim.decoder.capture import check_needs
    from carsim.decoder.recipe import parse_recipe

    parsed = [(path, parse_recipe(read_mapping(path), path)) for path in recipes]
    for path, recipe in parsed:
        check_needs(recipe.model_copy(update={"quality": None}), path.parent)
    for path, recipe in parsed:
        with progress_bar(recipe.name) as progress:
            found = search_tau(recipe, path.parent, ratio, workers=workers, progress=progress)
        say(
            f"tau: {found.tau}  # {recipe.name} replays {found.ratio:.1%} of eligible steps, found "
            f"in {found.decodings} decodings"
        )


@contextmanager
def progress_bar(name: str) -> Iterator["ProgressReport"]:
    """A progress bar in the terminal, as the function that moves it; it leaves nothing behind.

    Where standard error is no terminal, a line a minute.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    from carsim.cli.console import signs_of_life

    console = Console(stderr=True)
    if not console.is_terminal:  # rich before 15 would leave a blank line even if disabled
        with signs_of_life(f"decoding {name}") as say_next:
            yield lambda done, total: say_next(f"decoding {name}: {done / total:.0%}")
        return
    columns = (TextColumn("decoding {task.fields[name]}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", name=name)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield progress


def _save(target: Path, trace: "Trace", overwrite: bool, started: float) -> None:
    import time

    from carsim.base.text import count
    from carsim.cli.console import say
    from carsim.decisions.trace import captured as decisions_of
    from carsim.decisions.trace import replay_ratio, save_trace

    saved = save_trace(target, trace, overwrite=overwrite)
    overall, eligible = replay_ratio(decisions_of(saved).replay, saved.tokens_per_frame)
    say(
        f"{target}: {saved.size}; replayed "
        f"{overall:.1%} of all steps, {eligible:.1%} of eligible steps (first frame left out)",
        f"{count(target.stat().st_size, 'byte')} in {time.monotonic() - started:.0f} s, "
        f"sha256 {saved.sha256}",
    )
