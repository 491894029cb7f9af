"""What the temporal attention score sees: its spread by layer, and whether it tells still content.

    python -m studies.twin.tas twin.safetensors --output studies/twin/tas.csv

Held-out clips are decoded densely with their true codes. A place counts as still where the code
that is fed equals the code fed one frame before. The score separates still from moving content as
well as its AUC says: the chance that a still place scores above a moving one (0.5: not at all).
"""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from carsim.decoder.content import TOKENS_PER_FRAME, Clip, Codebook, load_codebook, make_clip
from carsim.decoder.layers import temporal_attention_score
from carsim.decoder.model import Model, load_model
from carsim.decoder.recipe import PROMPT
from carsim.decoder.structures import LayerRecord, Policy
from studies.twin.decoding import decode_rows
from studies.twin.heldout import held_out_clips
from studies.twin.train import CODEBOOK

Array = NDArray[np.float32]


@dataclass(eq=False)
class Watch:
    """Collects, for each step after the first frame, scores and how much the MLP output changed.

    Attributes:
        released: TAS with the query before the rotary embedding, one [B] per step and layer.
        paper: TAS with the query after it.
        likeness: Cosine between the MLP outputs of a place in this frame and in the one before.
    """

    released: list[Array] = field(default_factory=list)
    paper: list[Array] = field(default_factory=list)
    likeness: list[Array] = field(default_factory=list)
    _mlp: dict[tuple[int, int], Array] = field(default_factory=dict)

    def __call__(self, seen: LayerRecord) -> None:
        """Look at a layer."""
        place = seen.step % TOKENS_PER_FRAME, seen.layer
        before, now = self._mlp.get(place), seen.mlp.copy()
        self._mlp[place] = now
        if seen.tas is None or seen.k_aligned is None or before is None:
            return
        self.released.append(seen.tas.copy())
        self.paper.append(temporal_attention_score(seen.q, seen.q_rotated, seen.k_aligned, "paper"))
        lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(now, axis=1)
        self.likeness.append((before * now).sum(axis=1) / np.maximum(lengths, 1e-30))


def watch(model: Model, codebook: Codebook, clips: tuple[Clip, ...], n_frames: int) -> pd.DataFrame:
    """One row per clip, layer and step after the first frame."""
    policy = Policy((np.inf,) * model.geometry.n_layers)  # scores, and never replays
    codes = np.stack([codebook.encode(make_clip(clip, n_frames)) for clip in clips])
    prompts = [f"{PROMPT} {clip.caption}" for clip in clips]
    eye = Watch()
    decode_rows(model, policy, prompts, codes, n_frames, record=eye)
    fed = np.concatenate([np.full((len(clips), 1), -1), codes.reshape(len(clips), -1)], axis=1)
    still = fed[:, TOKENS_PER_FRAME:-1] == fed[:, : -TOKENS_PER_FRAME - 1]  # [B, steps]
    steps, layers = still.shape[1], model.geometry.n_layers
    index = pd.MultiIndex.from_product(
        [range(steps), range(layers), range(len(clips))], names=["step", "layer", "clip"]
    )
    table = pd.DataFrame(
        {
            "released": np.concatenate(eye.released),
            "paper": np.concatenate(eye.paper),
            "likeness": np.concatenate(eye.likeness),
            "still": np.repeat(still.T[:, None], layers, axis=1).ravel(),
        },
        index,
    ).reset_index()
    # Without what every clip scores at a step: the unrotated query meets a key rotated by its
    # absolute position, which moves all scores of a step alike, whatever is seen.
    step_mean = table.groupby(["step", "layer"])["released"].transform("mean")
    table["centred"] = table["released"] - step_mean
    table["speed"] = np.array([clip.speed for clip in clips])[table["clip"]]
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
                "rank_corr_released": part["released"].corr(part["likeness"], "spearman"),
                "rank_corr_paper": part["paper"].corr(part["likeness"], "spearman"),
            }
        )
    return pd.DataFrame(rows).set_index("layer")


def auc(scores: pd.Series, positive: pd.Series) -> float:
    """Chance that a positive scores above a negative; ties count half."""
    ranks, n = scores.rank(), int(positive.sum())
    others = len(scores) - n
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * others))


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
