"""``carsim measure``: times of a small decoder with replay on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from carsim.base.errors import InputError
from carsim.base.text import Table, number
from carsim.cli.console import progress_bar, say, show_json
from carsim.cli.options import JSON, FiniteRange

MOST_ROWS = 64
MOST_WORKERS = 64

if TYPE_CHECKING:
    CountsType = click.ParamType[tuple[int, ...]]
else:
    CountsType = click.ParamType  # generic from version 8.4 on


class Counts(CountsType):
    """Whole numbers between commas, in ascending order, each once."""

    name = "numbers"

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """The numbers of a text such as ``1,2,4``; fails for anything else."""
        if isinstance(value, tuple):
            return value
        words = str(value).split(",")
        if not all(word.strip().isdecimal() for word in words):
            self.fail(f"{value!r} is no list of numbers; say 1,2,4", param, ctx)
        counts = tuple(sorted({int(word) for word in words}))
        if not self.least <= counts[0] <= counts[-1] <= self.most:
            self.fail(f"{value!r} leaves the range {self.least} to {self.most}", param, ctx)
        return counts


@click.command()
@click.option(
    "--model",
    default="medium",
    show_default=True,
    metavar="NAME",
    help="Decoder: tiny (0.8 MB of weights), medium (13 MB), large (158 MB), or a model's preset.",
)
@click.option(
    "--rows",
    default="1,2,4,8",
    show_default=True,
    type=Counts(1, MOST_ROWS),
    help="Batches.",
)
@click.option(
    "--ratios",
    default="20,40,60,80",
    show_default=True,
    type=Counts(1, 100),
    help="Replay ratios in percent.",
)
@click.option(
    "--workers",
    default="1",
    show_default=True,
    type=Counts(1, MOST_WORKERS),
    help="Numbers of worker processes, say 1,2.",
)
@click.option(
    "--threads",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1),
    help="Threads of each worker; more are not measured.",
)
@click.option(
    "--backend",
    default="numpy",
    show_default=True,
    type=click.Choice(["numpy", "torch"]),
    help="Library of arrays; torch uses a GPU if there is one.",
)
@click.option(
    "--minutes",
    default=3.0,
    show_default=True,
    type=FiniteRange(0.01, 1440),
    help="Time for all workers together; three rounds are measured in any case.",
)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0, 2**32 - 1),
    help="Draws weights, decisions and the order of steps.",
)
@click.option(
    "--out", required=True, metavar="DIR", help="Folder of the results; may be continued."
)
@JSON
def measure(model: str, out: str, minutes: float, as_json: bool, **options: Any) -> None:
    """Time a small decoder with FastCar's replay on this machine.

    Steps of all settings run in random order in one process per worker. The folder gets dense.csv
    (for carsim calibrate), blocks.csv, replay.csv, noise.csv, traces, setup.yaml and host.yaml, a
    design of this machine. Ctrl-C keeps complete rounds, and a second call adds rounds.
    """
    from carsim.measure.measuring import Wish
    from carsim.measure.measuring import measure as measure_rounds

    wish = Wish(
        model=model,
        batches=options["rows"],
        workers=options["workers"],
        percents=options["ratios"],
        backend=options["backend"],
        seed=options["seed"],
    )
    with progress_bar("measuring") as tell:
        outcome = measure_rounds(wish, Path(out), minutes, tell)
    if not outcome.replay:
        raise InputError(out, "has too few rounds", "give more --minutes")
    if as_json:
        document = {"folder": out, "rounds": outcome.rounds}
        show_json({**document, "replay": outcome.replay, "noise": outcome.noise})
        return
    columns = ("workers", "schedule", "batch", "ratio", "agreement", "speedup", "noise")
    lines = [tuple(_shown(row[name]) for name in columns) for row in outcome.replay]
    of_noise = [float(row["noise"]) for row in outcome.noise]
    rounds = ", ".join(f"{done} with {workers}" for workers, done in outcome.rounds.items())
    say(
        Table(columns, tuple(lines), text_columns=2),
        f"Rounds by number of workers: {rounds}. Dense against dense differs by "
        f"{100 * max(of_noise):.1f} % at most.",
        f"Written to {out}. Next: carsim validate replay {out}",
    )


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else number(value)
