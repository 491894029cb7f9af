"""The same clips at five replay ratios, as pictures, with the same noise in every draw.

    python -m studies.quality.pictures

Two clips of ``traces/vilau_8f.yaml`` are continued from their two given frames: densely, and at the
thresholds of the five traces. Writes ``pictures.png``: a row for each, with the true clip on top.
"""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from carsim.base.yaml_file import read_mapping
from carsim.cli.capture import progress_bar
from carsim.decoder.capture import prepare
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.group import RowGroup, decode_group
from carsim.decoder.recipe import Recipe, parse_recipe
from carsim.decoder.workers import run_in_workers
from studies.frames import Codes, draw_frames
from studies.quality.run import FOLDER, NAMES, TRACES

CLIPS = (3, 0)
"""Numbers among the recipes' clips: a still one and a lively one."""


def recipe_of(path: Path) -> Recipe:
    """A recipe, of the clips that are shown and no quality."""
    recipe = parse_recipe(read_mapping(path), path)
    clips = recipe.clips[: max(CLIPS) + 1]
    return recipe.model_copy(update={"clips": clips, "quality": None})


def pair_of(group: RowGroup, clip: int) -> RowGroup:
    """The group of one guidance pair."""
    return replace(
        group,
        policy=replace(group.policy, pairs=((0, 1),)),
        prompts=group.prompts[2 * clip : 2 * clip + 2],
        tokens=group.tokens[:, clip : clip + 1],
        seeds=group.seeds[clip : clip + 1],
    )


def lines_of(
    recipes: list[Recipe], folder: Path, clips: tuple[int, ...]
) -> list[tuple[str, Codes]]:
    """Label and codes int64[T, 256] of every line, true clips first.

    Args:
        recipes: Of the same clips; before them, the first without replay is shown.
        folder: Where their files are.
        clips: Numbers of the clips.
    """
    dense = recipes[0].model_copy(update={"tau": None, "exempt_layers": ()})
    ways = [dense, *recipes]
    groups = [prepare(each, folder)[1][0] for each in ways]
    jobs = [(clip, way) for clip in clips for way in range(len(ways))]
    pairs = [pair_of(groups[way], clip) for clip, way in jobs]
    with progress_bar("pictures") as progress:
        pieces = [partial(decode_group, pair) for pair in pairs]
        total = sum(pair.work for pair in pairs)
        made = run_in_workers(pieces, total=total, workers=2, progress=progress)
    lines = []
    for (clip, way), pair, decoded in zip(jobs, pairs, made, strict=True):
        if way == 0:
            lines.append((f"{dense.clips[clip].caption}: true", pair.tokens))
            label = "dense"
        else:
            ratio = decoded.replay[TOKENS_PER_FRAME:].mean()
            label = f"tau {ways[way].tau:g}: {ratio:.0%} replayed"
        lines.append((label, decoded.tokens))
    return [(label, codes.reshape(-1, TOKENS_PER_FRAME)) for label, codes in lines]


def main() -> None:
    """Decode and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=FOLDER / "pictures.png")
    options = parser.parse_args()
    recipes = [recipe_of(TRACES / f"{name}.yaml") for name in NAMES]
    lines, codebook = lines_of(recipes, TRACES, CLIPS), prepare(recipes[0], TRACES)[0]
    figure = draw_frames(lines, codebook, inches=(1.0, 1.14))
    figure.savefig(options.output, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
