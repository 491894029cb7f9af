"""Train the recipes one after the other, and measure each at its checkpoints.

    python -m studies.proxy.train_others runs/premise --scenes runs/scenes

Needs the extra ``carsim[train]``, and the walks of :mod:`studies.proxy.scenes`. Stop it at any
time; the same command goes on where it stopped. Rows of figures, on tuning scenes only, go to
``checkpoints.csv`` in the folder; the model of each checkpoint stays beside it.
"""

import argparse
import csv
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from carsim.decoder.content import load_codebook
from carsim.decoder.model import load_model, save_model
from studies.proxy.network import to_model
from studies.proxy.recipes import RECIPES, Recipe
from studies.proxy.scenes import TRAINING, file_of
from studies.proxy.training import CODEBOOK, Training, cut_log
from studies.proxy.worth import measure
from studies.record import Archive

TABLE = "checkpoints.csv"


def train(recipe: Recipe, folder: Path, walks: list[Any], products: torch.dtype) -> None:
    """Train one recipe to its end, measuring as it goes."""
    own = folder / recipe.name
    own.mkdir(parents=True, exist_ok=True)
    checkpoint = own / "checkpoint.pt"
    training = Training(recipe.plan, walks, load_codebook(CODEBOOK), products, "cpu")
    if checkpoint.exists():
        training.load(checkpoint)
    cut_log(own / "log.csv", training.step)
    loss, since = 0.0, 0
    while training.step < recipe.n_steps:
        logged = training.advance()
        loss, since = loss + logged["loss"], since + 1
        if training.step % 20 == 0:
            with (own / "log.csv").open("a") as file:
                stamp = time.strftime("%H:%M:%S", time.gmtime())
                csv.writer(file).writerow([training.step, f"{loss / since:.4f}", stamp])
            loss, since = 0.0, 0
        if training.step % recipe.check_every == 0 or training.step == recipe.n_steps:
            training.save(checkpoint)
            save_model(_model_at(own, training.step), to_model(training.twin), overwrite=True)
        elif training.step % 50 == 0:
            training.save(checkpoint)
        if _model_at(own, training.step).exists():
            _measure(recipe, folder, training.step)


def cached_walks(scenes: Path, folder: Path) -> list[NDArray[np.int16]]:
    """Codes of the training walks, int16[T, 256] each; encoded once, then read."""
    codebook, walks = load_codebook(CODEBOOK), []
    for level in TRAINING:
        path = folder / "codes" / f"{level[1]}.npy"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.load(file_of(scenes, level))  # uint8[walks, T, 64, 64, 3]
            flat = pixels.reshape(-1, 4, *pixels.shape[2:])  # few frames at a time stay in cache
            codes = np.concatenate([codebook.encode(each) for each in flat])
            np.save(path, codes.astype(np.int16).reshape(*pixels.shape[:2], -1))
        walks += list(np.load(path))
    return walks


def _model_at(own: Path, step: int) -> Path:
    return own / f"step_{step:05d}.safetensors"


def _measure(recipe: Recipe, folder: Path, step: int) -> None:
    """Measure a checkpoint, unless its row is there."""
    path = folder / TABLE
    done = path.read_text().splitlines() if path.exists() else []
    if any(line.startswith(f"{recipe.name},{step},") for line in done):
        return
    scratch = folder / recipe.name / "decoded"
    archive = Archive(load_model(_model_at(folder / recipe.name, step)), scratch, workers=1)
    figures = measure(archive)
    shutil.rmtree(scratch)
    cosines = [f"{figures.pop(f'cosine_{layer}'):.3f}" for layer in range(recipe.shape.n_layers)]
    row = {"recipe": recipe.name, "step": step, **{k: f"{v:.4f}" for k, v in figures.items()}}
    row["cosines"] = " ".join(cosines)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        if not done:
            writer.writeheader()
        writer.writerow(row)


def main() -> None:
    """Train what is not finished yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenes", type=Path, required=True, help="folder of studies.proxy.scenes")
    parser.add_argument("--only", nargs="+", help="names of recipes")
    parser.add_argument("--products", choices=["float32", "bfloat16"], default="bfloat16")
    options = parser.parse_args()
    torch.set_num_threads(1)
    walks = cached_walks(options.scenes, options.folder)
    for recipe in RECIPES:
        if not options.only or recipe.name in options.only:
            print(recipe.name, asdict(recipe.shape), flush=True)
            train(recipe, options.folder, walks, getattr(torch, options.products))


if __name__ == "__main__":
    main()
