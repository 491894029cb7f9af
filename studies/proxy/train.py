"""Train recipes one after the other, and measure each at its checkpoints.

    python -m studies.proxy.train runs/premise --scenes runs/scenes --only NAME

Needs the extra ``carsim[train]``. The first command encodes the walks of
:mod:`studies.proxy.scenes` into ``codes.npz`` in the folder, which is all that later ones need of
them. Stop it at any time; the same command goes on where it stopped, to the same bits on the same
machine. Models are kept in half precision, as the NumPy decoder takes them. Figures, on tuning
scenes only, go to ``checkpoints.csv`` in the folder.
"""

import argparse
import csv
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from carsim.decoder.content import load_codebook
from carsim.decoder.model import load_model, save_model
from studies.content import CODEBOOK
from studies.proxy.network import to_model
from studies.proxy.recipes import RECIPES, Recipe, named
from studies.proxy.scenes import TRAINING, load_walks
from studies.proxy.training import Training
from studies.proxy.worth import measure
from studies.record import Archive

TABLE, CHECKPOINT = "checkpoints.csv", "checkpoint.pt"
_SAVE_S, _LOG_STEPS = 180, 20


def train(recipe: Recipe, own: Path, training: Training, last: int) -> None:
    """Train one recipe to its end, or to a step, and keep its models.

    Args:
        recipe: The recipe.
        own: Its folder.
        training: At the step from which it goes on.
        last: Step after which it stops.
    """
    log = own / "log.csv"
    cut_log(log, training.step)
    recent: list[list[float]] = []
    end, saved = min(last, recipe.plan.n_steps), time.monotonic()
    while training.step < end:
        recent.append(list(training.advance().values()))
        step = training.step
        if step % _LOG_STEPS == 0:
            means = (f"{each:.4f}" for each in np.mean(recent, axis=0))
            with log.open("a") as file:
                csv.writer(file).writerow([step, *means, time.strftime("%H:%M:%S", time.gmtime())])
            recent = []
        if step in recipe.checks or step == end:
            save_model(model_at(own, step), to_model(training.twin), overwrite=True)
        if step in recipe.checks or step == end or time.monotonic() - saved > _SAVE_S:
            training.save(own / CHECKPOINT)
            saved = time.monotonic()


def cut_log(path: Path, step: int) -> None:
    """Drop what was logged after the checkpoint that training goes on from."""
    if path.exists():
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if int(line.split(",")[0]) <= step))


def load_codes(folder: Path, scenes: Path | None) -> list[NDArray[np.int16]]:
    """Codes of the training walks, int16[T, 256] each; encoded once, then read."""
    path = folder / "codes.npz"
    if not path.exists():
        if scenes is None:
            sys.exit(f"{path}: is missing; give --scenes, the folder of studies.proxy.scenes")
        np.savez_compressed(path, *load_walks(scenes, TRAINING, load_codebook(CODEBOOK)))
    with np.load(path) as stored:
        return list(stored.values())


def model_at(own: Path, step: int) -> Path:
    """File of the model after a step."""
    return own / f"step_{step:05d}.safetensors"


def measure_all(recipe: Recipe, folder: Path) -> None:
    """Measure the models that are there and have no row yet."""
    path, own = folder / TABLE, folder / recipe.name
    for step in (*recipe.checks, recipe.plan.n_steps):
        table = pd.read_csv(path) if path.exists() else pd.DataFrame({"recipe": [], "step": []})
        known = ((table["recipe"] == recipe.name) & (table["step"] == step)).any()
        if known or not model_at(own, step).exists():
            continue
        figures = measure(Archive(load_model(model_at(own, step)), own / "decoded"))
        shutil.rmtree(own / "decoded")
        cosines = [figures.pop(name) for name in list(figures) if name.startswith("cosine_")]
        row = {"recipe": recipe.name, "step": step} | figures
        row["cosines"] = " ".join(f"{each:.3f}" for each in cosines)
        partial = path.with_suffix(".partial")
        pd.concat([table, pd.DataFrame([row])]).round(4).to_csv(partial, index=False)
        partial.replace(path)


def main() -> None:
    """Train what is not finished yet, and measure what has not been measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenes", type=Path, help="folder of studies.proxy.scenes")
    parser.add_argument("--only", nargs="+", default=[RECIPES[-1].name], help="names of recipes")
    parser.add_argument("--products", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=10**9, help="stop after this one")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    walks, codebook = load_codes(options.folder, options.scenes), load_codebook(CODEBOOK)
    for recipe in map(named, options.only):
        kind = getattr(torch, options.products)
        training = Training(recipe.plan, walks, codebook, kind, options.device)
        own = options.folder / recipe.name
        own.mkdir(parents=True, exist_ok=True)
        if (own / CHECKPOINT).exists():
            training.load(own / CHECKPOINT)
        train(recipe, own, training, options.steps)
        measure_all(recipe, options.folder)


if __name__ == "__main__":
    main()
