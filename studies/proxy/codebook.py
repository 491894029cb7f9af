"""The codebook of visual tokens, fitted to the levels and photographs of the training.

python -m studies.proxy.codebook runs/scenes traces/codebook_512.npz
"""

import argparse
from pathlib import Path

import numpy as np

from carsim.decoder.content import TRAINING_PHOTOS, clip_catalogue, fit_codebook, make_clip
from studies.proxy.scenes import TRAINING, file_of

_EVERY_SCENE, _EVERY_PHOTO = 25, 5


def main() -> None:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenes", type=Path, help="folder of studies.proxy.scenes")
    parser.add_argument("codebook", type=Path)
    options = parser.parse_args()
    frames = [np.load(file_of(options.scenes, level))[:, ::_EVERY_SCENE] for level in TRAINING]
    clips = clip_catalogue(TRAINING_PHOTOS, digits=False)
    frames += [make_clip(clip, 8)[None, ::_EVERY_PHOTO] for clip in clips]
    fit_codebook(np.concatenate([each.reshape(-1, *each.shape[2:]) for each in frames])).save(
        options.codebook, overwrite=True
    )


if __name__ == "__main__":
    main()
