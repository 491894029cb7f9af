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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from carsim.cli.capture import progress_bar
from carsim.decoder.capture import prepare
from carsim.decoder.content import TOKENS_PER_FRAME, Codebook
from carsim.decoder.group import Decoded, Group, decode_group
from carsim.decoder.quality import assess, mean_loss, variant
from carsim.decoder.recipe import Method, Recipe, parse_recipe
from carsim.decoder.workers import run_in_workers
from carsim.errors import InputError
from carsim.files import write_whole
from carsim.policy import Dense, Streaming
from carsim.replay import Scope
from carsim.yaml_file import read_mapping

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
        attention = Streaming(window=self.window) if self.window else Dense()
        skips = {"tau": self.tau} if self.tau < inf else {"tau": None, "exempt_layers": ()}
        return recipe.model_copy(
            update={**skips, "attention": attention, "decision_scope": self.scope}
        )


Job = tuple[Setting, Method | Literal["given"]]

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
    losses = {each: loss for each in (REFERENCE, *due) for loss in _loss(known, base, each)}
    jobs: list[Job] = [(REFERENCE, sampling)]
    jobs += [(REFERENCE, "given")] if REFERENCE not in losses else []
    for setting in due:
        if setting != REFERENCE:
            jobs += [(setting, sampling)]
            jobs += [(setting, "given")] if setting not in losses else []
    at = {REFERENCE: groups[0]}
    for setting in due:
        if setting != REFERENCE:
            at[setting] = prepare(setting.apply(base), folder)[1][0]
    pieces = [partial(decode_group, _variant(at, *job)) for job in jobs]
    tokens: dict[Setting, Decoded] = {}

    def keep(number: int, decoded: Decoded) -> None:
        nonlocal known
        setting, way = jobs[number]
        if way == "given":
            losses[setting] = mean_loss(decoded.nats, base.fed_frames)
        else:
            tokens[setting] = decoded
        if not {REFERENCE} <= losses.keys() & tokens.keys():
            return
        for ready in [each for each in due if each in losses and each in tokens]:
            due.remove(ready)
            row = _row(base, codebook, ready, sampling, tokens, losses)
            known = pd.concat([known, pd.DataFrame([row])], ignore_index=True)
            _write(table, known)

    with progress_bar(f"quality, {sampling}") as progress:
        total = sum(piece.args[0].work for piece in pieces)
        run_in_workers(pieces, total=total, workers=workers, progress=progress, finished=keep)
    return known


def _variant(
    at: Mapping[Setting, Group], setting: Setting, way: Method | Literal["given"]
) -> Group:
    """What is decoded of a setting: eight rows, tokens sampled or given."""
    return variant(at[setting], (way, "reference" if setting == REFERENCE else "approximate"))


def _row(
    base: Recipe,
    codebook: Codebook,
    setting: Setting,
    sampling: Method,
    decoded: Mapping[Setting, Decoded],
    losses: Mapping[Setting, float],
) -> dict[str, Any]:
    """A finished cell."""
    quality = assess(
        codebook,
        base.fed_frames,
        (sampling,),
        {
            (sampling, "approximate"): decoded[setting].tokens,
            (sampling, "reference"): decoded[REFERENCE].tokens,
        },
        {"approximate": losses[setting], "reference": losses[REFERENCE]},
    )
    measured = quality.by_sampling[0]
    by_frame = {
        f"{name}_f{quality.first_frame + frame}": value
        for name in MEASURES
        for frame, value in enumerate(getattr(measured, f"{name}_by_frame"))
    }
    return {
        "frames": base.n_frames,
        "scope": setting.scope,
        "window": setting.window,
        "sampling": sampling,
        "tau": setting.tau,
        "replay_eligible": round(float(decoded[setting].replay[TOKENS_PER_FRAME:].mean()), 4),
        **{name: getattr(measured, name) for name in MEASURES},
        "teacher_forced_nats": quality.teacher_forced_nats,
        "teacher_forced_dense_nats": quality.teacher_forced_dense_nats,
        "n_clips": quality.n_clips,
        **by_frame,
    }


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


def _loss(known: pd.DataFrame, base: Recipe, setting: Setting) -> list[float]:
    """The loss of a setting, which is the same under every sampling, if it is known."""
    same = _same(known, base, setting)
    return [] if same.empty else [float(same["teacher_forced_nats"].iloc[0])]


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
    write_whole(table, lambda path: rows.sort_values(KEYS).to_csv(path, index=False))


def main() -> None:
    """Measure what is missing, and print the table without its columns by frame."""
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
        table.sort_values(KEYS).drop(columns=table.filter(regex=r"_f\d+$")).to_string(index=False)
    )


if __name__ == "__main__":
    main()
