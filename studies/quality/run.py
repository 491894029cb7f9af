"""Quality of generated clips against tau, decision scope, attention and sampling.

    python -m studies.quality.run

The first four clips of ``traces/vilau_8f.yaml`` (eight rows: one group) are decoded in every cell
of the grid below, greedily, by top-k and with their true tokens, and compared with the same decoded
without replay and with dense attention. A finished cell is in ``quality.csv`` at once and is never
decoded again: the run may be stopped at any time, and the same command goes on. Cells of other
weights or clips are never mixed: a file of those is refused.
"""

import argparse
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd

from carsim.cli.capture import progress_bar
from carsim.decoder.capture import prepare
from carsim.decoder.content import TOKENS_PER_FRAME, Codebook
from carsim.decoder.group import Decoded, Group, decode_group
from carsim.decoder.quality import Way, assess, variant, ways
from carsim.decoder.recipe import Method, Recipe, parse_recipe
from carsim.decoder.workers import run_in_workers
from carsim.errors import InputError
from carsim.spec.yaml_file import read_mapping
from carsim.trace import DenseAttention, StreamingAttention
from carsim.trace.meta import Quality
from carsim.trace.scope import Scope

FOLDER = Path(__file__).parent
RECIPE = FOLDER.parents[1] / "traces" / "vilau_8f.yaml"
N_CLIPS = 4
SAMPLINGS: tuple[Method, ...] = ("top_k", "greedy")
KEYS = ["frames", "scope", "window", "sampling", "tau"]
MEASURES = ("psnr_db", "ssim", "token_agreement")


@dataclass(frozen=True)
class Setting:
    """What is approximated. Window 0 is dense attention; tau infinite is no replay."""

    scope: Scope
    window: int
    tau: float

    def apply(self, recipe: Recipe) -> Recipe:
        """The recipe under this setting."""
        attention = StreamingAttention(window=self.window) if self.window else DenseAttention()
        skips = {"tau": self.tau} if self.tau < inf else {"tau": None, "exempt_layers": ()}
        return recipe.model_copy(
            update={**skips, "attention": attention, "decision_scope": self.scope}
        )


REFERENCE = Setting("row", 0, inf)
TAUS: dict[Scope, tuple[float, ...]] = {
    "row": (3.0, 2.0, 1.5, 1.0, 0.5),
    "pair": (3.0, 1.5, 0.5),
    "batch": (1.5, 0.5, -0.5),
}
"""Under scope row about 20, 35, 50, 65 and 80 % of the eligible steps replay at these."""
WINDOWS = (256, 16)
SETTINGS = (
    REFERENCE,
    *(Setting("row", 0, tau) for tau in TAUS["row"]),
    *(Setting("row", window, inf) for window in WINDOWS),
    *(Setting("row", window, tau) for window in WINDOWS for tau in TAUS["row"][2::2]),
    *(Setting(scope, 0, tau) for scope in ("pair", "batch") for tau in TAUS[scope]),
)
"""Every cell but sampling, the most telling first."""


def base_recipe(path: Path = RECIPE) -> Recipe:
    """The recipe that settings are applied to."""
    recipe = parse_recipe(read_mapping(path), path)
    return recipe.model_copy(update={"clips": recipe.clips[:N_CLIPS], "quality": None})


def measure(
    base: Recipe,
    folder: Path,
    settings: Iterable[Setting],
    table: Path,
    *,
    samplings: tuple[Method, ...] = SAMPLINGS,
    workers: int = 2,
) -> pd.DataFrame:
    """Measure the settings that are not in the table yet.

    Args:
        base: What is decoded.
        folder: Where its files are.
        settings: What to measure.
        table: CSV file to read and to write.
        samplings: Ways to choose tokens; a cell is a setting under one of them.
        workers: Processes.

    Returns:
        The whole table.

    Raises:
        InputError: The table was measured from other inputs.
    """
    codebook, groups = prepare(base, folder)
    known = _read(table, _inputs(base, groups[0]))
    due = [each for each in settings if not _measured(known, base, each, samplings)]
    if not due:
        return known
    plain = [(REFERENCE, way) for way in ways(samplings) if way[1] == "reference"]
    approximate = [way for way in ways(samplings) if way[1] == "approximate"]
    jobs = [*plain, *((each, way) for each in due if each != REFERENCE for way in approximate)]
    pieces = []
    for setting, way in jobs:
        group = prepare(setting.apply(base), folder)[1][0]
        pieces.append(partial(decode_group, variant(group, way)))
    found: dict[tuple[Setting, Way], Decoded] = {}

    def keep(number: int, decoded: Decoded) -> None:
        nonlocal known
        found[jobs[number]] = decoded
        if any(job not in found for job in plain):
            return
        for setting in [each for each in due if _complete(each, found, samplings)]:
            due.remove(setting)
            rows = _rows(base, codebook, setting, found, samplings)
            known = pd.concat([known, pd.DataFrame(rows)], ignore_index=True)
            _write(table, known)

    with progress_bar("quality") as progress:
        total = sum(piece.args[0].work for piece in pieces)
        run_in_workers(pieces, total=total, workers=workers, progress=progress, finished=keep)
    return known


def _complete(
    setting: Setting, found: dict[tuple[Setting, Way], Decoded], samplings: tuple[Method, ...]
) -> bool:
    if setting == REFERENCE:
        return True
    return all((setting, way) in found for way in ways(samplings) if way[1] == "approximate")


def _rows(
    base: Recipe,
    codebook: Codebook,
    setting: Setting,
    found: dict[tuple[Setting, Way], Decoded],
    samplings: tuple[Method, ...],
) -> list[dict[str, Any]]:
    """One row of the table for each way of sampling."""
    decoded = {
        (method, kind): found[
            (REFERENCE, (method, "reference"))
            if kind == "reference" or setting == REFERENCE
            else (setting, (method, kind))
        ]
        for method, kind in ways(samplings)
    }
    tokens = {way: each.tokens for way, each in decoded.items()}
    nats = {way: each.nats for way, each in decoded.items()}
    quality = assess(codebook, base.fed_frames, samplings, tokens, nats)
    return [
        _row(base, setting, quality, number, decoded[method, "approximate"])
        for number, method in enumerate(samplings)
    ]


def _row(
    base: Recipe, setting: Setting, quality: Quality, number: int, decoded: Decoded
) -> dict[str, Any]:
    measured = quality.by_sampling[number]
    by_frame = {
        f"{name}_f{quality.first_frame + frame}": value
        for name in MEASURES
        for frame, value in enumerate(getattr(measured, f"{name}_by_frame"))
    }
    return {
        "frames": base.n_frames,
        "scope": setting.scope,
        "window": setting.window,
        "sampling": measured.sampling,
        "tau": setting.tau,
        "replay_eligible": round(float(decoded.replay[TOKENS_PER_FRAME:].mean()), 4),
        **{name: getattr(measured, name) for name in MEASURES},
        "teacher_forced_nats": quality.teacher_forced_nats,
        "teacher_forced_dense_nats": quality.teacher_forced_dense_nats,
        "n_clips": quality.n_clips,
        **by_frame,
    }


def _measured(
    known: pd.DataFrame, base: Recipe, setting: Setting, samplings: tuple[Method, ...]
) -> bool:
    if known.empty:
        return False
    same = known[
        (known["frames"] == base.n_frames)
        & (known["scope"] == setting.scope)
        & (known["window"] == setting.window)
        & (known["tau"] == setting.tau)
    ]
    return set(samplings) <= set(same["sampling"])


def _inputs(base: Recipe, group: Group) -> str:
    """A hash of all that does not vary over the grid: weights, clips, seed, sampling."""
    fixed = base.model_dump_json(exclude={"tau", "attention", "decision_scope", "name", "output"})
    return hashlib.sha256(f"{fixed} {group.model.source}".encode()).hexdigest()


def _read(table: Path, inputs: str) -> pd.DataFrame:
    stamp = table.with_suffix(".inputs")
    if not table.exists():
        stamp.write_text(f"{inputs}\n", encoding="utf-8")
        return pd.DataFrame()
    if not stamp.exists() or stamp.read_text(encoding="utf-8").strip() != inputs:
        raise InputError(
            str(table),
            "was measured with other weights, clips or sampling",
            f"remove it and {stamp.name} to measure all cells again",
        )
    return pd.read_csv(table)


def _write(table: Path, rows: pd.DataFrame) -> None:
    unfinished = table.with_suffix(".unfinished")
    rows.sort_values(KEYS).to_csv(unfinished, index=False)
    unfinished.replace(table)


def main() -> None:
    """Measure what is missing, and print the table without its columns by frame."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--table", type=Path, default=FOLDER / "quality.csv")
    options = parser.parse_args()
    try:
        table = measure(
            base_recipe(), RECIPE.parent, SETTINGS, options.table, workers=options.workers
        )
    except InputError as error:
        raise SystemExit(f"quality: {error}") from None
    print(
        table.sort_values(KEYS).drop(columns=table.filter(regex=r"_f\d+$")).to_string(index=False)
    )


if __name__ == "__main__":
    main()
