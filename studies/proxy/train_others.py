"""Train the recipes one after the other, and measure each at its checkpoints.

    python -m studies.proxy.train_others runs/premise --scenes runs/scenes
    python -m studies.proxy.train_others runs/premise --only NAME --device cuda --no-measure

Needs the extra ``carsim[train]``. The first command encodes the walks of
:mod:`studies.proxy.scenes` into ``codes.npz`` in the folder, which is all that later ones need of
them. Stop it at any time; the same command goes on where it stopped. Figures, on tuning scenes
only, go to ``checkpoints.csv`` in the folder; the model of each checkpoint stays beside it, and
those that were trained with ``--no-measure`` are measured by the next command without it
(``--minutes 0`` trains nothing).
"""

import argparse
import csv
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from carsim.decoder.content import load_codebook
from carsim.decoder.model import load_model, save_model
from studies.proxy.data import Batch, draw_batch
from studies.proxy.network import to_model
from studies.proxy.recipes import RECIPES, Recipe, named
from studies.proxy.scenes import TRAINING, file_of
from studies.proxy.training import CODEBOOK, Training, cut_log
from studies.proxy.worth import measure
from studies.record import Archive

TABLE, CHECKPOINT = "checkpoints.csv", "checkpoint.pt"
_SAVE_S = 180


def train(
    recipe: Recipe,
    own: Path,
    training: Training,
    last: int,
    until: float,
    batches: Iterator[Batch] | None,
    check: Callable[[], None],
) -> None:
    """Train one recipe to its end, or until a time, and keep its models.

    Args:
        recipe: The recipe.
        own: Its folder.
        training: At the step from which it goes on.
        last: Step after which it stops.
        until: Time of :func:`time.monotonic` at which it stops.
        batches: Drawn ahead; None draws them here.
        check: Called where a model was kept.
    """
    cut_log(own / "log.csv", training.step)
    checkpoint, loss, since = own / CHECKPOINT, 0.0, 0
    begun, saved = training.step, time.monotonic()
    while training.step < min(last, recipe.n_steps) and time.monotonic() < until:
        logged = training.advance(next(batches) if batches else None)
        loss, since = loss + logged["loss"], since + 1
        if training.step % 20 == 0:
            with (own / "log.csv").open("a") as file:
                stamp = time.strftime("%H:%M:%S", time.gmtime())
                csv.writer(file).writerow([training.step, f"{loss / since:.4f}", stamp])
            loss, since = 0.0, 0
        if training.step in recipe.checks or training.step == recipe.n_steps:
            training.save(checkpoint)
            save_model(_model_at(own, training.step), to_model(training.twin), overwrite=True)
            check()
        elif time.monotonic() - saved > _SAVE_S:
            training.save(checkpoint)
            saved = time.monotonic()
    if training.step > begun:
        training.save(checkpoint)


def load_codes(folder: Path, scenes: Path | None) -> list[NDArray[np.int16]]:
    """Codes of the training walks, int16[T, 256] each; encoded once, then read."""
    path = folder / "codes.npz"
    if not path.exists():
        if scenes is None:
            sys.exit(f"{path}: is missing; give --scenes, the folder of studies.proxy.scenes")
        codebook, found = load_codebook(CODEBOOK), {}
        for level in TRAINING:
            pixels = np.load(file_of(scenes, level))  # uint8[walks, T, 64, 64, 3]
            flat = pixels.reshape(-1, 4, *pixels.shape[2:])  # few frames at a time stay in cache
            codes = np.concatenate([codebook.encode(each) for each in flat])
            found[level[1]] = codes.astype(np.int16).reshape(*pixels.shape[:2], -1)
        np.savez_compressed(path, **found)
    with np.load(path) as stored:
        return [walk for level in TRAINING for walk in stored[level[1]]]


class Drawers:
    """Processes that draw batches ahead of training, in their order."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._pool = ProcessPoolExecutor(workers, get_context("spawn"), _ready, (folder,))
        self._ahead = 4 * workers

    def batches(self, recipe: Recipe, step: int) -> Iterator[Batch]:
        """The batches of a recipe from a step on."""
        due = deque(self._pool.submit(_draw, recipe.name, step + i) for i in range(self._ahead))
        for last in range(step + self._ahead, recipe.n_steps + self._ahead):
            arrays = due.popleft().result()
            due.append(self._pool.submit(_draw, recipe.name, min(last, recipe.n_steps - 1)))
            yield Batch(*(torch.from_numpy(each) for each in arrays))


_walks: list[NDArray[np.int16]]


def _ready(folder: Path) -> None:
    global _walks
    torch.set_num_threads(1)
    _walks = load_codes(folder, None)


def _draw(name: str, step: int) -> tuple[NDArray[Any], ...]:
    plan, codebook = named(name).plan, load_codebook(CODEBOOK)
    batch = draw_batch(plan.stage(step), _walks, codebook, plan.seed, step, plan.photo_share)
    return tuple(getattr(batch, each.name).numpy() for each in fields(batch))


def _model_at(own: Path, step: int) -> Path:
    return own / f"step_{step:05d}.safetensors"


def _measure(recipe: Recipe, folder: Path, step: int) -> None:
    """Measure a checkpoint, unless its row is there."""
    path = folder / TABLE
    rows: list[dict[str, str]] = []
    if path.exists():
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    if any((row["recipe"], row["step"]) == (recipe.name, str(step)) for row in rows):
        return
    scratch = folder / recipe.name / "decoded"
    archive = Archive(load_model(_model_at(folder / recipe.name, step)), scratch, workers=1)
    figures = measure(archive)
    shutil.rmtree(scratch)
    cosines = [f"{figures.pop(f'cosine_{layer}'):.3f}" for layer in range(recipe.shape.n_layers)]
    row = {"recipe": recipe.name, "step": f"{step}"}
    row |= {name: f"{value:.4f}" for name, value in figures.items()}
    rows.append(row | {"cosines": " ".join(cosines)})
    names = dict.fromkeys(name for each in rows[::-1] for name in each)
    partial_path = path.with_suffix(".partial")
    with partial_path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    partial_path.replace(path)


def main() -> None:
    """Train what is not finished yet, and measure what has not been measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenes", type=Path, help="folder of studies.proxy.scenes")
    parser.add_argument("--only", nargs="+", default=[RECIPES[0].name], help="names of recipes")
    parser.add_argument("--products", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=0, help="processes that draw batches ahead")
    parser.add_argument("--steps", type=int, default=10**9, help="stop after this one")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--no-measure", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    walks, codebook = load_codes(options.folder, options.scenes), load_codebook(CODEBOOK)
    drawers = Drawers(options.folder, options.workers) if options.workers else None
    until = time.monotonic() + 60 * options.minutes
    for recipe in map(named, options.only):
        print(recipe.name, asdict(recipe.shape), flush=True)
        kind = getattr(torch, options.products)
        training = Training(recipe.plan, walks, codebook, kind, options.device)
        own = options.folder / recipe.name
        own.mkdir(parents=True, exist_ok=True)
        if (own / CHECKPOINT).exists():
            training.load(own / CHECKPOINT)
        check = partial(measure_all, recipe, options.folder, unless=options.no_measure)
        batches = drawers.batches(recipe, training.step) if drawers else None
        train(recipe, own, training, options.steps, until, batches, check)
        check()


def measure_all(recipe: Recipe, folder: Path, *, unless: bool = False) -> None:
    """Measure the models that are there and have no row, unless told not to."""
    for step in (*recipe.checks, recipe.n_steps):
        if not unless and _model_at(folder / recipe.name, step).exists():
            _measure(recipe, folder, step)


if __name__ == "__main__":
    main()
