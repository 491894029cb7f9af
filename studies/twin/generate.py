"""Clips that the twin makes itself, as a picture.

    python -m studies.twin.generate twin.safetensors studies/twin/clips.png

Held-out clips: their first frames are given, so that place and motion are known, and the rest is
generated. Clips of training photographs: from the prompt alone.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from carsim.decoder.content import DIGITS, Clip, Codebook, load_codebook, make_clip, psnr_db
from carsim.decoder.model import load_model
from carsim.decoder.recipe import PROMPT
from carsim.decoder.sampling import Choose, greedy, top_k
from carsim.decoder.structures import Policy
from studies.twin.decoding import Codes, decode_rows
from studies.twin.train import CODEBOOK

CONTINUED = (
    Clip("chelsea", "rotate", 1.0, 9),
    Clip("coins", "pan", 1.0, 7),
    Clip("rocket", "zoom", 0.5, 6),
    Clip(DIGITS, "bounce", 1.0, 8),
    Clip("chelsea", "pan", 4.0, 5),
)
FROM_PROMPT = (
    Clip("astronaut", "pan", 1.0),
    Clip("coffee", "pan", 1.0),
    Clip(DIGITS, "bounce", 1.0),
)
_GIVEN, _TOP_K = 2, 10


def draw(codebook: Codebook, rows: list[tuple[str, Codes]], path: Path) -> None:
    """Rows of frames, each with its label."""
    n_frames = max(len(codes) for _, codes in rows)
    figure = Figure(figsize=(1.1 * n_frames, 1.22 * len(rows)))
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(rows), n_frames, squeeze=False)
    for line, (label, codes) in zip(axes, rows, strict=True):
        for axis, frame in zip(line, codebook.decode(codes), strict=True):
            axis.imshow(frame, interpolation="nearest")
            axis.set_xticks([])
            axis.set_yticks([])
        line[0].set_title(label, fontsize=7, loc="left", pad=2)
    figure.subplots_adjust(0.01, 0.005, 0.99, 0.985, wspace=0.04, hspace=0.22)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _generators(n_rows: int, seed: int) -> list[np.random.Generator]:
    return [np.random.default_rng([seed, row]) for row in range(n_rows)]


def main() -> None:
    """Generate, draw, and print PSNR by frame against the true clip and against a frozen one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model, codebook = load_model(options.weights), load_codebook(CODEBOOK)
    policy = Policy((None,) * model.geometry.n_layers)
    truth = np.stack([codebook.encode(make_clip(clip, options.frames)) for clip in CONTINUED])
    prompts = [f"{PROMPT} {clip.caption}" for clip in CONTINUED]
    sampled = top_k(_TOP_K, 1.0, _generators(len(CONTINUED), options.seed))
    ways: dict[str, Choose] = {"greedy": greedy, f"top {_TOP_K}": sampled}
    given = truth[:, :_GIVEN]
    made = {
        way: decode_rows(model, policy, prompts, given, options.frames, choose)
        for way, choose in ways.items()
    }
    made["frozen"] = np.repeat(truth[:, _GIVEN - 1 : _GIVEN], options.frames, axis=1)
    rows: list[tuple[str, Codes]] = []
    for index, clip in enumerate(CONTINUED):
        real = codebook.decode(truth[index])
        rows.append((f"{clip.caption}: true", truth[index]))
        for way, codes in made.items():
            own = codebook.decode(codes[index])
            by_frame = [psnr_db(real[t], own[t]) for t in range(_GIVEN, options.frames)]
            print(f"{clip.caption}: {way}, PSNR dB", *(f"{value:.1f}" for value in by_frame))
            if way in ways:
                rows.append((f"{_GIVEN} frames given, the rest generated ({way})", codes[index]))
    prompts = [f"{PROMPT} {clip.caption}" for clip in FROM_PROMPT]
    nothing = np.zeros((len(prompts), 0, truth.shape[2]), np.int64)
    sampled = top_k(_TOP_K, 1.0, _generators(len(FROM_PROMPT), options.seed))
    drawn = decode_rows(model, policy, prompts, nothing, options.frames, sampled)
    rows += [
        (f"{clip.caption}: from the prompt alone (top {_TOP_K})", codes)
        for clip, codes in zip(FROM_PROMPT, drawn, strict=True)
    ]
    draw(codebook, rows, options.picture)


if __name__ == "__main__":
    main()
