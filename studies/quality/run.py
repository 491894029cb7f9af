"""Quality of generated clips against tau, decision scope, attention and sampling.

    python -m studies.quality.run

The first four clips of ``traces/vilau_8f.yaml`` (eight rows: one group) are decoded in every cell
of the grid below, greedily, by top-k and with their true tokens, beside the same decoded without
replay and with dense attention; what a cell generates is then read by the dense model. A finished
cell is in ``quality.csv`` at once and is never decoded again: the run may be stopped at any time,
and the same command goes on. Cells of other weights, clips or measures are never mixed: a file of
those is refused.
"""

import argparse
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from carsim.cli.capture import progress_bar
from carsim.decoder.capture import prepare
from carsim.decoder.content import TOKENS_PER_FRAME, Codebook
from carsim.decoder.group import Group, decode_group
from carsim.decoder.quality import Generated, clip_means, compare, reading, variant
from carsim.decoder.recipe import Method, Recipe, parse_recipe
from carsim.decoder.workers import Advance, run_in_workers
from carsim.errors import InputError
from carsim.files import write_whole
from carsim.policy import Dense, Streaming
from carsim.replay import Scope
from carsim.trace.meta import PerClip
from carsim.yaml_file import read_mapping

FOLDER = Path(__file__).parent
RECIPE = FOLDER.parents[1] / "traces" / "vilau_8f.yaml"
N_CLIPS = 4
SAMPLINGS: tuple[Method, ...] = ("top_k", "greedy")
KEYS = ["frames", "scope", "window", "sampling", "tau"]
MEASURES = {"clip_nats": "clip_nats", "psnr_db": "true_psnr_db", "ssim": "true_ssim"}
"""Of what was generated: figure of a trace's metadata -> column, beside that of dense decoding."""

FORMAT = 2
"""Of the table: 1 held PSNR and SSIM against dense decoding, pooled over clips."""


@dataclass(frozen=True)
class Setting:
    """What is approximated. Window 0 is dense attention; tau infinite is no replay."""

    scope: Scope
    window: int
    tau: float

    def apply(self, recipe: Recipe) -> Recipe:
        """The recipe under this setting."""
        attention = Streaming(window=self.window) if self.window else Dense()
        skips = {"tau": self.tau} if self.tau < inf else {"tau": None, "exempt_layers": ()}
        return recipe.model_copy(
            update={**skips, "attention": attention, "decision_scope": self.scope}
        )


class Cell(NamedTuple):
    """A decoded setting: tokens int64[S, n] of n clips, losses [S, n], and its replay ratio.

    Losses are the dense model's where tokens were generated, and the setting's own where given.
    """

    tokens: NDArray[np.int64]
    nats: NDArray[np.float64]
    replay_eligible: float


Job = tuple[Setting, Method | Literal["given"]]
Losses = tuple[float, ...]
"""Teacher-forced loss of each clip."""

BY_CLIP = "teacher_forced_nats_c"
"""Columns of :data:`Losses`, with the number of the clip behind it."""

REFERENCE = Setting("row", 0, inf)
TAUS: dict[Scope, tuple[float, ...]] = {
    "row": (1.87, 1.43, 1.05, 0.67, 0.13),
    "pair": (1.87, 1.05, 0.13),
    "batch": (1.05, 0.13, -0.6),
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
    sampling: Method,
    table: Path,
    *,
    workers: int = 2,
) -> pd.DataFrame:
    """Measure the cells that are not in the table yet.

    Args:
        base: What is decoded.
        folder: Where its files are.
        settings: What to measure.
        sampling: How tokens are chosen; a cell is a setting under a sampling.
        table: CSV file to read and to write.
        workers: Processes.

    Returns:
        The whole table.

    Raises:
        InputError: The table was measured from other inputs.
    """
    codebook, groups = prepare(base, folder)
    known = _read(table, _inputs(base, groups[0]))
    due = [each for each in settings if _same(known, base, each, sampling).empty]
    if not due:
        return known
    forced = {each: nats for each in (REFERENCE, *due) for nats in _forced(known, base, each)}
    at = {REFERENCE: groups[0]}
    at |= {each: prepare(each.apply(base), folder)[1][0] for each in due if each != REFERENCE}
    jobs: list[Job] = []
    for setting in at:
        jobs += [(setting, sampling)]
        jobs += [(setting, "given")] if setting not in forced else []
    pieces = [partial(decode, _variant(at, *job)) for job in jobs]
    generated: dict[Setting, Cell] = {}

    def keep(number: int, cell: Cell) -> None:
        nonlocal known
        setting, way = jobs[number]
        if way == "given":
            forced[setting] = clip_means(cell.nats, base.fed_frames)
        else:
            generated[setting] = cell
        if not {REFERENCE} <= forced.keys() & generated.keys():
            return
        for ready in [each for each in due if each in forced and each in generated]:
            due.remove(ready)
            row = _row(base, codebook, groups[0], ready, sampling, generated, forced)
            known = pd.concat([known, pd.DataFrame([row])], ignore_index=True)
            _write(table, known)

    with progress_bar(f"quality, {sampling}") as progress:
        total = sum(piece.args[0].work * (1 + _is_read(piece.args[0])) for piece in pieces)
        run_in_workers(pieces, total=total, workers=workers, progress=progress, finished=keep)
    return known


def decode(group: Group, advance: Advance) -> Cell:
    """Decode a cell; what it generates with anything approximated, the dense model reads."""
    decoded = decode_group(group, advance)
    nats = decoded.nats
    if _is_read(group):
        nats = decode_group(reading(group, decoded.tokens), advance).nats
    ratio = float(decoded.replay[TOKENS_PER_FRAME:].mean())
    return Cell(decoded.tokens, nats, round(ratio, 4))


def _is_read(group: Group) -> bool:
    return group.sampling is not None and group.policy != variant(group, ("given", "dense")).policy


def _variant(
    at: Mapping[Setting, Group], setting: Setting, way: Method | Literal["given"]
) -> Group:
    """What is decoded of a setting: eight rows, tokens sampled or given."""
    return variant(at[setting], (way, "dense" if setting == REFERENCE else "approximate"))


def _row(
    base: Recipe,
    codebook: Codebook,
    group: Group,
    setting: Setting,
    sampling: Method,
    generated: Mapping[Setting, Cell],
    forced: Mapping[Setting, Losses],
) -> dict[str, Any]:
    """A finished cell."""
    cell, dense = generated[setting], generated[REFERENCE]
    measured = compare(
        codebook,
        base.fed_frames,
        sampling,
        group.tokens,
        {
            "approximate": Generated(cell.tokens, cell.nats),
            "dense": Generated(dense.tokens, dense.nats),
        },
    )
    loss = PerClip(own=forced[setting], dense=forced[REFERENCE])
    row: dict[str, Any] = {
        "frames": base.n_frames,
        "scope": setting.scope,
        "window": setting.window,
        "sampling": sampling,
        "tau": setting.tau,
        "replay_eligible": cell.replay_eligible,
        "teacher_forced_nats": loss.own_mean,
        "teacher_forced_dense_nats": loss.dense_mean,
        "loss_low": loss.difference.low,
        "loss_high": loss.difference.high,
    }
    for name, column in MEASURES.items():
        figures: PerClip = getattr(measured, name)
        row |= {column: figures.own_mean, f"dense_{column}": figures.dense_mean}
    row |= {"token_agreement": measured.token_agreement_mean, "n_clips": len(loss.own)}
    rounded = {key: round(at, 5) if isinstance(at, float) else at for key, at in row.items()}
    return rounded | {f"{BY_CLIP}{clip}": nats for clip, nats in enumerate(loss.own)}


def _same(
    known: pd.DataFrame, base: Recipe, setting: Setting, sampling: Method | None = None
) -> pd.DataFrame:
    """Rows of a setting, of one sampling or any."""
    if known.empty:
        return known
    same = known[
        (known["frames"] == base.n_frames)
        & (known["scope"] == setting.scope)
        & (known["window"] == setting.window)
        & (known["tau"] == setting.tau)
    ]
    return same if sampling is None else same[same["sampling"] == sampling]


def _forced(known: pd.DataFrame, base: Recipe, setting: Setting) -> list[Losses]:
    """The losses of a setting, which are the same under every sampling, if they are known."""
    same = _same(known, base, setting)
    if same.empty:
        return []
    return [tuple(map(float, same.filter(regex=rf"^{BY_CLIP}\d+$").iloc[0]))]


def _inputs(base: Recipe, group: Group) -> str:
    """A hash of all that does not vary over the grid: weights, clips, seed, sampling, measures."""
    fixed = base.model_dump_json(exclude={"tau", "attention", "decision_scope", "name", "output"})
    text = f"{fixed} {group.model.source} format {FORMAT}"
    return hashlib.sha256(text.encode()).hexdigest()


def _read(table: Path, inputs: str) -> pd.DataFrame:
    stamp = table.with_suffix(".inputs")
    if not table.exists():
        stamp.write_text(f"{inputs}\n", encoding="utf-8")
        return pd.DataFrame()
    if not stamp.exists() or stamp.read_text(encoding="utf-8").strip() != inputs:
        raise InputError(
            str(table),
            "was measured with other weights, clips or sampling, or holds other measures",
            f"remove it and {stamp.name} to measure all cells again",
        )
    return pd.read_csv(table)


def _write(table: Path, rows: pd.DataFrame) -> None:
    write_whole(table, lambda path: rows.sort_values(KEYS).to_csv(path, index=False))


def main() -> None:
    """Measure what is missing, and print the table without its columns by clip."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--table", type=Path, default=FOLDER / "quality.csv")
    options = parser.parse_args()
    base, folder, workers = base_recipe(), RECIPE.parent, options.workers
    try:
        for sampling in SAMPLINGS:
            table = measure(base, folder, SETTINGS, sampling, options.table, workers=workers)
    except InputError as error:
        raise SystemExit(f"quality: {error}") from None
    print(
        table.sort_values(KEYS).drop(columns=table.filter(regex=r"_c\d+$")).to_string(index=False)
    )


if __name__ == "__main__":
    main()
