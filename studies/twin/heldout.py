"""Did it learn? Next-token loss and accuracy on clips never trained on, against trivial predictors.

    python -m studies.twin.heldout twin.safetensors --output studies/twin/heldout.csv

Frame 0 is left out: no predictor can copy it. The trivial predictors are

* unigram: how often each code occurs in training clips, whatever came before;
* copy: the code at the same place one frame before, with probability lambda, else the unigram;
  lambda is fitted for each speed on training clips, which tells this predictor the speed.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray

from carsim.decoder.content import (
    HELD_OUT_PHOTOS,
    SPEEDS,
    TRAINING_PHOTOS,
    Clip,
    Codebook,
    clip_catalogue,
    load_codebook,
    make_clip,
)
from carsim.decoder.model import load_model
from carsim.decoder.recipe import PROMPT
from studies.twin.data import assemble
from studies.twin.network import Twin, from_model
from studies.twin.train import CODEBOOK

UNSEEN_SPEEDS = (3.0, 6.0)
_SEED = 77  # no training clip has the seeds that follow from it

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Trivial:
    """The trivial predictors, fitted on training clips.

    Attributes:
        unigram: Frequency of each code, [K], sums to 1.
        copied: Speed in pixels per frame -> lambda.
    """

    unigram: NDArray[np.float64]
    copied: dict[float, float]


def held_out_clips() -> tuple[Clip, ...]:
    """Held-out photographs in every motion, at trained and untrained speeds, and digits."""
    return clip_catalogue(HELD_OUT_PHOTOS, speeds=sorted((*SPEEDS, *UNSEEN_SPEEDS)), seed=_SEED)


def fit_trivial(codebook: Codebook, speeds: tuple[float, ...], n_frames: int = 4) -> Trivial:
    """Fit on clips of the training photographs and digits."""
    clips = clip_catalogue(TRAINING_PHOTOS, speeds=speeds, seed=_SEED + 1)
    codes = [codebook.encode(make_clip(clip, n_frames)) for clip in clips]
    counts = np.bincount(np.concatenate(codes).ravel(), minlength=codebook.n_codes) + 1.0
    unigram = counts / counts.sum()
    lambdas = np.concatenate([np.linspace(0.0, 0.99, 100), 1 - np.logspace(-2.1, -5, 30)])
    copied = {}
    for speed in speeds:
        likelihood = np.zeros(len(lambdas))
        for clip, frames in zip(clips, codes, strict=True):
            if clip.speed == speed:
                kept, other = frames[1:] == frames[:-1], unigram[frames[1:]]
                for index, share in enumerate(lambdas):
                    likelihood[index] += np.log(share * kept + (1 - share) * other).sum()
        copied[speed] = float(lambdas[likelihood.argmax()])
    return Trivial(unigram, copied)


@torch.no_grad()
def score(
    twin: Twin, codebook: Codebook, trivial: Trivial, clips: tuple[Clip, ...], n_frames: int
) -> pd.DataFrame:
    """One row per clip and frame but the first: losses in nats per token, accuracies.

    Args:
        twin: The network; each step is fed the true codes before it.
        codebook: Of the visual tokens.
        trivial: Baselines.
        clips: What to predict.
        n_frames: T.
    """
    rows: list[dict[str, Any]] = []
    for clip in clips:
        codes = codebook.encode(make_clip(clip, n_frames))
        batch = assemble([(f"{PROMPT} {clip.caption}", codes.ravel(), 0)], codebook.n_codes)
        logits = twin(batch.tokens, batch.positions)[0, -codes.size :]
        truth = torch.from_numpy(codes.ravel())
        losses = F.cross_entropy(logits, truth, reduction="none").numpy().reshape(codes.shape)
        right = logits.argmax(-1).numpy().reshape(codes.shape) == codes
        kept = codes[1:] == codes[:-1]
        share, other = trivial.copied[clip.speed], trivial.unigram[codes[1:]]
        rows += [
            {
                "photo": clip.photo,
                "motion": clip.motion if clip.speed else "still",
                "speed": clip.speed,
                "frame": frame + 1,
                "loss": losses[frame + 1].mean(),
                "loss_copy": -np.log(share * kept[frame] + (1 - share) * other[frame]).mean(),
                "loss_unigram": -np.log(other[frame]).mean(),
                "accuracy": right[frame + 1].mean(),
                "accuracy_copy": kept[frame].mean(),
                "accuracy_unigram": (codes[frame + 1] == trivial.unigram.argmax()).mean(),
            }
            for frame in range(n_frames - 1)
        ]
    return pd.DataFrame(rows)


def summary(scores: pd.DataFrame, by: str) -> pd.DataFrame:
    """Means over clips and frames."""
    return scores.groupby(by).mean(numeric_only=True).filter(regex="loss|accuracy").round(3)


def main() -> None:
    """Print the tables, and write the scores of every clip and frame."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--every", type=int, default=1, help="take every n-th clip only")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, help="csv file for the scores of clips and frames")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    codebook, clips = load_codebook(CODEBOOK), held_out_clips()[:: options.every]
    trivial = fit_trivial(codebook, tuple(sorted({clip.speed for clip in clips})))
    twin = from_model(load_model(options.weights))
    scores = score(twin, codebook, trivial, clips, options.frames)
    if options.output:
        scores.round(4).to_csv(options.output, index=False)
    for by in ("speed", "motion", "photo", "frame"):
        print(summary(scores, by).to_string(), end="\n\n")


if __name__ == "__main__":
    main()
