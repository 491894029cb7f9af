"""Choose the held-out scenes that traces and studies decode, and keep them as tokens.

    python -m studies.proxy.archive runs/scenes traces/codebook_512.npz traces/scenes.npz

Pieces of 32 frames from walks through levels that training never sees, by pace: eight each of
still, slow, lively and fast in their first 8 frames, eight that cut from one walk to another after
3 or 5 frames of each 8, and eight (``tune_*``: two of each pace) on which thresholds are chosen, so
that no study chooses on what it measures.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.trace.npz import npz_bytes, write_bytes
from carsim.decoder.content import load_codebook, scene_caption
from studies.proxy.scenes import HELD_OUT, load_walks

Codes = NDArray[np.int16]

N_FRAMES, PACED_FRAMES = 32, 8
PACES = ("still", "slow", "lively", "fast")
_EACH, _TUNING = 8, 2
_SEED = 7


def choose(walks: list[Codes], seed: int = _SEED) -> dict[str, Codes]:
    """Scenes by name, int16[32, 256] each, of different walks where there are enough.

    Args:
        walks: Codes of all walks, int16[T, 256] each.
        seed: Of the draws.
    """
    rng = np.random.default_rng(seed)
    wanted = _EACH + _TUNING
    found: dict[str, list[Codes]] = {pace: [] for pace in PACES}
    order = [(each, start) for each in range(len(walks)) for start in _starts(walks[each])]
    used: set[tuple[str, int]] = set()
    for again in (False, True):
        for index in rng.permutation(len(order)):
            walk, start = order[index]
            scene = walks[walk][start : start + N_FRAMES]
            pace = scene_caption(scene[:PACED_FRAMES]).rsplit(" ", 1)[1]
            if len(found[pace]) < wanted and (again or (pace, walk) not in used):
                found[pace].append(scene)
                used.add((pace, walk))
    scenes = {
        f"{pace}_{number}": found[pace][number] for pace, number in product(PACES, range(_EACH))
    }
    for number in range(_EACH):
        first, second = found["slow"][number], found["slow"][(number + 1) % _EACH]
        scenes[f"cut_{number}"] = _cut(first, second, 3 if number % 2 else 5)
    tuning = [scene for pace in PACES for scene in found[pace][_EACH:]]
    return scenes | {f"tune_{number}": scene for number, scene in enumerate(tuning)}


def _starts(walk: Codes) -> range:
    return range(0, len(walk) - N_FRAMES + 1, PACED_FRAMES)


def _cut(first: Codes, second: Codes, every: int) -> Codes:
    """One walk, then another, in turn, ``every`` frames each."""
    own = np.arange(N_FRAMES) // every % 2 == 0
    return np.where(own[:, None], first, second)


def main() -> None:
    """Choose, say how fast each is, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenes", type=Path, help="folder of studies.proxy.scenes")
    parser.add_argument("codebook", type=Path)
    parser.add_argument("archive", type=Path)
    options = parser.parse_args()
    scenes = choose(load_walks(options.scenes, HELD_OUT, load_codebook(options.codebook)))
    for name, codes in scenes.items():
        print(f"{name:10} {scene_caption(codes[:PACED_FRAMES])}")
    arrays = {name: codes.astype(np.uint16) for name, codes in scenes.items()}
    write_bytes(options.archive, npz_bytes(arrays), overwrite=True)


if __name__ == "__main__":
    main()
