"""What the temporal attention score sees: its spread by layer, and whether it tells still content.

    python -m studies.twin.tas twin.safetensors --output studies/twin/tas.csv

Held-out clips are decoded densely with their true codes. A place counts as still where the code
that is fed equals the code fed one frame before. The score separates still from moving content as
well as its AUC says: the chance that a still place scores above a moving one (0.5: not at all).
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from carsim.decoder.content import TOKENS_PER_FRAME, Clip, Codebook, load_codebook, make_clip
from carsim.decoder.model import Model, load_model
from carsim.decoder.recipe import PROMPT
from carsim.decoder.structures import Config, Policy
from studies.decisions.ranks import auc, spearman
from studies.decisions.record import Eye
from studies.decisions.whole import Decoder
from studies.twin.heldout import held_out_clips
from studies.twin.train import CODEBOOK


def watch(model: Model, codebook: Codebook, clips: tuple[Clip, ...], n_frames: int) -> pd.DataFrame:
    """One row per clip, layer and step after the first frame."""
    config = Config(model.geometry, TOKENS_PER_FRAME, n_frames)
    decoder, dense = Decoder(model, config), Policy((None,) * model.geometry.n_layers)
    tables = []
    for number, clip in enumerate(clips):
        codes = codebook.encode(make_clip(clip, n_frames)).ravel()
        eye = Eye(model, config)
        decoder.decode(dense, f"{PROMPT} {clip.caption}".encode(), codes, eye)
        seen = eye.arrays()  # [L, E] each
        fed = np.concatenate([[-1], codes[:-1]])
        still = fed[TOKENS_PER_FRAME:] == fed[:-TOKENS_PER_FRAME]
        layers, steps = seen["paper"].shape
        tables.append(
            pd.DataFrame(
                {
                    "step": np.tile(np.arange(steps), layers),
                    "layer": np.repeat(np.arange(layers), steps),
                    "clip": number,
                    "speed": clip.speed,
                    "released": seen["released"].ravel(),
                    "paper": seen["paper"].ravel(),
                    "likeness": seen["mlp_cosine"].ravel(),
                    "still": np.tile(still, layers),
                }
            )
        )
    table = pd.concat(tables, ignore_index=True)
    # Without what every clip scores at a step: the unrotated query meets a key rotated by its
    # absolute position, which moves all scores of a step alike, whatever is seen.
    step_mean = table.groupby(["step", "layer"])["released"].transform("mean")
    table["centred"] = table["released"] - step_mean
    return table


def by_layer(table: pd.DataFrame) -> pd.DataFrame:
    """Spread of the released score, and what both forms separate, for each layer."""
    rows = []
    for layer, part in table.groupby("layer"):
        low, middle, high = part["released"].quantile([0.05, 0.5, 0.95])
        rows.append(
            {
                "layer": layer,
                "mean": part["released"].mean(),
                "std": part["released"].std(),
                "q05": low,
                "median": middle,
                "q95": high,
                "mean_still": part.loc[part["still"], "released"].mean(),
                "mean_moving": part.loc[~part["still"], "released"].mean(),
                "auc_released": auc(part["released"], part["still"]),
                "auc_centred": auc(part["centred"], part["still"]),
                "auc_paper": auc(part["paper"], part["still"]),
                "mlp_cosine_still": part.loc[part["still"], "likeness"].mean(),
                "mlp_cosine_moving": part.loc[~part["still"], "likeness"].mean(),
                "rank_corr_released": spearman(part["released"], part["likeness"]),
                "rank_corr_paper": spearman(part["paper"], part["likeness"]),
            }
        )
    return pd.DataFrame(rows).set_index("layer")


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("--frames", type=int, default=4)
    parser.add_argument("--every", type=int, default=8, help="take every n-th held-out clip")
    parser.add_argument("--output", type=Path, help="csv file for the table by layer")
    options = parser.parse_args()
    clips = held_out_clips()[:: options.every]
    table = watch(load_model(options.weights), load_codebook(CODEBOOK), clips, options.frames)
    layers = by_layer(table).round(4)
    print(layers.to_string(), end="\n\n")
    print(table.groupby("speed")[["released", "paper", "likeness", "still"]].mean().to_string())
    if options.output:
        layers.to_csv(options.output)


if __name__ == "__main__":
    main()
