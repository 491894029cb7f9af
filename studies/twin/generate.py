"""Scenes that the twin makes itself, as a picture, and how much of a picture they stay.

    python -m studies.twin.generate studies/twin/clips.png

One held-out scene of each pace: its first two frames are given, so that place and motion are known,
and the rest is generated, greedily and among the ten likeliest. Prints PSNR against the true scene,
beside that of the second frame standing still, and contrast: the standard deviation of what was
generated over that of the true frames. A clip that turns grey has none.
"""

import argparse
from pathlib import Path

import numpy as np

from carsim.decoder.content import TOKENS_PER_FRAME, load_codebook, psnr_db
from carsim.decoder.model import load_model
from carsim.decoder.sampling import Choose, greedy, top_k
from carsim.decoder.structures import DecoderPolicy
from studies.decisions.content import CODEBOOK, N_FRAMES, PACES, TWIN, rows_of
from studies.frames import draw_frames
from studies.twin.decoding import Codes, decode_rows

SCENES = tuple(f"{pace}_1" for pace in PACES)
_GIVEN, _TOP_K = 2, 10


def main() -> None:
    """Generate, draw, and print a line for each scene and way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model, codebook = load_model(TWIN), load_codebook(CODEBOOK)
    policy = DecoderPolicy((None,) * model.geometry.n_layers)
    scenes = rows_of(SCENES)
    truth = np.stack([row.codes.reshape(N_FRAMES, TOKENS_PER_FRAME) for row in scenes])
    prompts = [row.prompt.decode() for row in scenes]
    generators = [np.random.default_rng([options.seed, row]) for row in range(len(scenes))]
    ways: dict[str, Choose] = {"greedy": greedy, f"top {_TOP_K}": top_k(_TOP_K, 1.0, generators)}
    made = {
        way: decode_rows(model, policy, prompts, truth[:, :_GIVEN], N_FRAMES, choose)
        for way, choose in ways.items()
    }
    frozen = np.repeat(truth[:, _GIVEN - 1 : _GIVEN], N_FRAMES, axis=1)
    rows: list[tuple[str, Codes]] = []
    for number, scene in enumerate(scenes):
        rows.append((f"{scene.clip}, {scene.prompt.decode()}: true", truth[number]))
        real = codebook.decode(truth[number])[_GIVEN:]
        for way, codes in (made | {"frozen": frozen}).items():
            own = codebook.decode(codes[number])[_GIVEN:]
            by_frame = [psnr_db(a, b) for a, b in zip(real, own, strict=True)]
            contrast = own.std() / real.std()
            print(f"{scene.clip}: {way}, contrast {contrast:.2f}, PSNR dB", end=" ")
            print(*(f"{value:.1f}" for value in by_frame))
            if way in ways:
                label = f"{_GIVEN} frames given, the rest generated ({way})"
                rows.append((label, codes[number]))
    figure = draw_frames(rows, codebook, inches=(1.1, 1.22))
    figure.savefig(options.picture, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
