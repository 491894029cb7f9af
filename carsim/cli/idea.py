"""``carsim idea``: from an idea in one file to a page."""

from pathlib import Path

import click

from carsim.cli.console import progress_bar, say

STEPS = ("contract", "cost", "capture", "price", "loss", "page")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of results; by default the name of the file without .py.",
)
@click.option("--kind", metavar="NAME", help="The idea, where the file registers several.")
@click.option(
    "--until",
    type=click.Choice(STEPS),
    help="Do the steps up to this one. Steps that were done before are not done again.",
)
@click.option("--tau", type=float, help="Threshold of a rule, in place of a search.")
@click.option(
    "--ratio",
    type=float,
    help="Of a rule: search the threshold at which this share of the eligible steps of the "
    "held-out scenes replays, such as 0.3, to compare ideas at equal ratio.",
)
@click.option("--full", is_flag=True, help="Forty scenes of eight frames instead of five of four.")
@click.option("--workers", type=click.IntRange(1, 256), default=2, help="Processes.")
def idea(  # noqa: PLR0913 - the options of the command
    file: Path,
    out: Path | None,
    kind: str | None,
    until: str | None,
    tau: float | None,
    ratio: float | None,
    full: bool,
    workers: int,
) -> None:
    """Test an idea: FILE registers a rule of replay or an attention policy.

    Or it defines a function replays(seen), which gives the rows that replay, or an array DECISIONS.
    The steps: contract tests; what a machine has to do for it; a capture with the small model;
    seconds and joules on three machines, next to FastCar, periodic and random replay of the same
    share; the loss on held-out scenes, with its baselines; one page and one PDF.
    """
    from carsim.idea.steps import FULL, SHORT, Threshold, Trial

    folder = out or Path(file.stem)
    with progress_bar("decoding") as progress:
        trial = Trial(
            file,
            folder,
            size=FULL if full else SHORT,
            workers=workers,
            kind=kind,
            threshold=Threshold(tau=tau, ratio=ratio),
            say=say,
            progress=progress,
        )
        trial.run(until)
