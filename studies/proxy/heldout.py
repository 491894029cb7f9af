"""Did it learn? Loss on scenes never trained on, beside copying and a counted mixture.

    python -m studies.proxy.heldout runs/scenes --output studies/proxy/heldout.csv

Forty scenes of 8 frames from levels that training never saw, and pieces of two films of another
kind (``other.npz``), true codes fed. Frame 0 is left out: no rival can foretell it. The rivals:

* copy: the code at the same place one frame before with one probability, else its plain frequency;
* counted: copying, motion and bigrams, mixed by what stood around (:mod:`studies.proxy.counted`).

Both are fitted on the walks that the proxy model trained on. Writes a row for each scene and frame.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from carsim.base.statistics import bootstrap_mean
from carsim.decoder.content import TOKENS_PER_FRAME, load_codebook
from studies.content import CLIPS, CODEBOOK, N_FRAMES, Row, pace_of, rows_of
from studies.proxy.counted import Codes, Counted, fit
from studies.proxy.scenes import TRAINING, load_walks
from studies.record import Archive, Ask

OTHER = Path(__file__).parent / "other.npz"
OTHER_CLIPS = tuple(f"{film}_{number}" for film in ("street", "animation") for number in range(4))
_FITTED_CLIPS, _SEED = 2000, 77


def training_clips(folder: Path, n_codes: int) -> list[Codes]:
    """Pieces of training walks, int64[8, 256] each, drawn with a seed.

    Args:
        folder: Of :mod:`studies.proxy.scenes`.
        n_codes: K.
    """
    walks = load_walks(folder, TRAINING, load_codebook(CODEBOOK))
    rng = np.random.default_rng(_SEED)
    clips = []
    for _ in range(_FITTED_CLIPS):
        walk = walks[rng.integers(len(walks))]
        start = rng.integers(len(walk) - N_FRAMES + 1)
        clips.append(walk[start : start + N_FRAMES].astype(np.int64))
    return clips


class Copy:
    """The code of the frame before with one probability, else the plain frequency."""

    def __init__(self, clips: list[Codes], n_codes: int) -> None:
        counts = np.bincount(np.concatenate(clips).ravel(), minlength=n_codes) + 1.0
        self._unigram = counts / counts.sum()
        self._share = float(np.mean([(clip[1:] == clip[:-1]).mean() for clip in clips]))

    def nats(self, codes: Codes) -> np.ndarray:
        """Loss of each place after frame 0, nats, [T - 1, 256]."""
        kept, other = codes[1:] == codes[:-1], self._unigram[codes[1:]]
        return -np.log(self._share * kept + (1 - self._share) * other)


def score(archive: Archive, rows: list[Row], copy: Copy, counted: Counted) -> pd.DataFrame:
    """Loss by scene and frame, nats per token."""
    tables = []
    for row, kept in zip(rows, archive.decode([Ask(None, row) for row in rows]), strict=True):
        codes = row.codes.reshape(-1, TOKENS_PER_FRAME)
        tables.append(
            pd.DataFrame(
                {
                    "clip": row.clip,
                    "frame": np.arange(1, len(codes)),
                    "kept": (codes[1:] == codes[:-1]).mean(axis=1),
                    "twin": kept.nats.reshape(codes.shape)[1:].mean(axis=1),
                    "counted": counted.nats(codes).mean(axis=1),
                    "copy": copy.nats(codes).mean(axis=1),
                }
            )
        )
    return pd.concat(tables, ignore_index=True)


def main() -> None:
    """Score, write, and print means and differences with intervals over scenes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenes", type=Path, help="folder of studies.proxy.scenes")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    n_codes = load_codebook(CODEBOOK).n_codes
    clips = training_clips(options.scenes, n_codes)
    rows = [*rows_of(CLIPS), *rows_of(OTHER_CLIPS, scenes=OTHER)]
    table = score(Archive(), rows, Copy(clips, n_codes), fit(clips, n_codes))
    table.round(4).to_csv(options.output, index=False)
    by_clip = table.groupby("clip", sort=False).mean(numeric_only=True).drop(columns="frame")
    print(by_clip.groupby(by_clip.index.map(pace_of), sort=False).mean().round(3).to_string())
    held_out = by_clip.loc[[name for name in CLIPS if pace_of(name) != "cut"]]
    for rival in ("counted", "copy"):
        difference = held_out["twin"] - held_out[rival]
        text = bootstrap_mean(difference.to_numpy()).text(" nats")
        print(f"twin less {rival}: {text} on {len(difference)} scenes")
        print(f"  better on {int((difference < 0).sum())}")


if __name__ == "__main__":
    main()
