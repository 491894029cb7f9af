"""The codebook of visual tokens, fitted to the levels and photographs of the training.

python -m studies.proxy.codebook runs/scenes traces/codebook_512.npz
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np

from carsim.base.errors import InputError
from carsim.decoder.content import Codebook
from carsim.decoder.content.tokens import frames_to_patches
from studies.proxy.photos import PHOTO_MOTIONS, SPEEDS, TRAINING_PHOTOS, Clip, make_clip
from studies.proxy.scenes import TRAINING, file_of

_EVERY_SCENE, _EVERY_PHOTO = 25, 5


def main() -> None:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenes", type=Path, help="folder of studies.proxy.scenes")
    parser.add_argument("codebook", type=Path)
    options = parser.parse_args()
    frames = [np.load(file_of(options.scenes, level))[:, ::_EVERY_SCENE] for level in TRAINING]
    kinds = [
        (photo, motion, speed)
        for photo, motion, speed in product(TRAINING_PHOTOS, PHOTO_MOTIONS, SPEEDS)
        if speed > 0 or motion == PHOTO_MOTIONS[0]  # all motions of speed 0 are alike
    ]
    clips = [Clip(*kind, seed=seed) for seed, kind in enumerate(kinds)]
    frames += [make_clip(clip, 8)[None, ::_EVERY_PHOTO] for clip in clips]
    fit_codebook(np.concatenate([each.reshape(-1, *each.shape[2:]) for each in frames])).save(
        options.codebook, overwrite=True
    )


def fit_codebook(
    frames: np.ndarray, n_codes: int = 512, seed: int = 0, most_patches: int = 120_000
) -> Codebook:
    """Learn a codebook by k-means over distinct patches of some frames.

    A patch is drawn the more often the more colourful it is: by 1 + 4 c / 255, c being the distance
    of the largest from the smallest of its mean red, green and blue. Grey prevails in pictures, and
    else would take the codes.

    Args:
        frames: uint8[T, 64, 64, 3]; a few hundred frames of varied clips.
        n_codes: K.
        seed: Of the patches drawn, and of the first centres.
        most_patches: Distinct patches to draw; where there are fewer, all are taken.

    Raises:
        InputError: The frames have fewer distinct patches than K.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    patches = np.unique(frames_to_patches(frames).reshape(-1, 48), axis=0)
    if len(patches) < n_codes:
        raise InputError(
            "codebook",
            f"{n_codes} codes from {len(patches)} distinct patches",
            "give more frames, or ask for fewer codes",
        )
    if len(patches) > most_patches:
        colour = np.ptp(patches.reshape(len(patches), -1, 3).mean(axis=1), axis=1)
        odds = 1 + 4 * colour / 255
        rng = np.random.default_rng(seed)
        patches = patches[rng.choice(len(patches), most_patches, False, odds / odds.sum())]
    means = KMeans(n_clusters=n_codes, n_init=1, max_iter=60, random_state=seed)
    with threadpool_limits(limits=1):  # sums must not depend on the number of threads
        centres = means.fit(patches.astype(np.float64)).cluster_centers_
    codes = np.rint(centres).clip(0, 255).astype(np.uint8)
    order = np.lexsort([*codes.T, codes.sum(axis=1)])  # by brightness, ties by value
    return Codebook(codes[order])


if __name__ == "__main__":
    main()
