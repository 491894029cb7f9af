"""Rules of replay while the model generates: drift and sharpness beside the true clip.

    python -m studies.chance.free

The model in which the premise holds continues forty held-out scenes: two frames are given, six are
generated (among the ten likeliest codes, guidance scale 1.5), with carsim's own decoder and replays
really applied. All ways draw with the same noise; three seeds. Half of the steps of the layers but
the first replay from frame 1 on: thresholds were found on the tuning scenes, closed loop. Of each
generated frame:

* ``loss``: nats per token of the dense model that is fed the clip: how likely it finds the frame;
* ``psnr``: against the true frame, dB;
* ``edges`` and ``contrast``: mean absolute difference of neighbouring pixels, and standard
  deviation of pixels, over those of the true frame.

Writes ``free_cells.csv`` (means over seeds of each way, scene and frame), ``free.csv`` (means, and
paired differences to dense decoding with intervals over scenes, widened for the number of
comparisons) and ``free.png``. What is decoded once is kept.
"""

import argparse
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from carsim.base.yaml_file import read_mapping
from carsim.decisions.replay import NO_WORK, InputChange, Periodic, ReplayRule, Tas
from carsim.decisions.replay.base import MachineShape, Point, RuleWork
from carsim.decisions.replay.base import Seen as SeenRows
from carsim.decoder.calibrate import calibrate
from carsim.decoder.capture import prepare
from carsim.decoder.content import TOKENS_PER_FRAME, load_codebook
from carsim.decoder.content.tokens import FRAME_PIXELS, GRID, PATCH_PIXELS
from carsim.decoder.group import decode_group
from carsim.decoder.model import load_model
from carsim.decoder.recipe import Recipe, SceneRecipe, parse_recipe
from carsim.decoder.structures import Array
from carsim.report.figures import style as plots
from carsim.report.figures.policy_looks import policy_look
from studies.chance.benchmark import BY_LAYER, CHANGE, HERE, PERIODIC, RANDOM, gains_of
from studies.chance.own import by_layer
from studies.content import CLIPS, CODEBOOK, EXEMPT, ROOT, SCRATCH, TUNING, Row, rows_of
from studies.drawing import drawing, legend_below
from studies.record import Archive, Ask
from studies.table import columns
from studies.whole import Bools

RECIPE = ROOT / "traces/small_8f.yaml"
SEEDS, SHARE = 3, 0.5
DENSE = "dense"
MEASURES = {"loss": "nats per token", "psnr": "dB", "edges": "of the true frame's"}
COLOURS = {
    (DENSE, "replay"): (policy_look("dense, static").colour, "-"),
    ("TAS", "replay"): (policy_look("FastCar + DRS").colour, "-"),
    ("TAS", "nothing"): (policy_look("FastCar + DRS").colour, ":"),
    ("TAS", "gain"): (policy_look("FastCar + DRS").colour, "--"),
    (CHANGE, "replay"): (plots.GREEN, "-"),
    (PERIODIC, "replay"): (plots.ORANGE, "-"),
    (PERIODIC, "gain"): (plots.ORANGE, "--"),
    (BY_LAYER, "replay"): (plots.VERMILION, "-"),
    (RANDOM, "replay"): (plots.BLACK, "-"),
}


class Planned(ReplayRule):
    """Decisions that were made before, the same for all rows.

    Attributes:
        plan: bool[S, L].
    """

    label: ClassVar[str] = "plan"
    known_at: ClassVar[Point] = "q"

    kind: Literal["planned"] = "planned"
    plan: Any

    def score(self, state: None, layer: int, place: int, seen: SeenRows) -> Array:
        """1 where all rows replay, else 0, [B]."""
        replays = self.plan[seen.frame * seen.tokens_per_frame + place, layer]
        return np.full(len(seen.q), replays, seen.q.dtype)

    def work(self, shape: MachineShape) -> RuleWork:
        """None: no machine runs it."""
        return NO_WORK


def drawn(archive: Archive, seed: int) -> Bools:
    """Half of the places of each layer and frame, drawn anew, bool[S, L]."""
    rng = np.random.default_rng([seed, 11])
    shape = archive.config.n_frames, archive.n_layers, TOKENS_PER_FRAME
    half = rng.permuted(np.broadcast_to(np.arange(TOKENS_PER_FRAME), shape), axis=2) < round(
        SHARE * TOKENS_PER_FRAME
    )
    half[0], half[:, EXEMPT] = False, False
    return half.swapaxes(1, 2).reshape(-1, archive.n_layers)


def of_scenes(clips: tuple[str, ...], **changes: Any) -> Recipe:
    """The recipe of the shipped trace with other scenes and fields; nothing is measured."""
    recipe = parse_recipe(read_mapping(RECIPE), RECIPE)
    assert isinstance(recipe, Recipe)
    captions = {row.clip: row.prompt.decode() for row in rows_of(clips)}
    scenes = tuple(SceneRecipe(scene=c, caption=captions[c].split(": ")[1]) for c in clips)
    return recipe.model_copy(update={"clips": scenes, "quality": None} | changes)


def rules_of(archive: Archive) -> dict[str, tuple[ReplayRule, float | None]]:
    """Rules with their thresholds, by name; those of the scores are found on the tuning scenes."""
    tas, change = Tas(form="paper"), InputChange()
    target = SHARE * (archive.n_layers - len(EXEMPT)) / archive.n_layers
    found = {}
    for name, rule, start in (("TAS", tas, -50.0), (CHANGE, change, -0.3)):
        recipe = of_scenes(TUNING, rule=rule, tau=start)

        def search(recipe: Recipe = recipe) -> dict[str, NDArray[Any]]:
            return {"tau": np.array(calibrate(recipe, RECIPE.parent, target, workers=0).tau)}

        tau = archive.once(("free tau", name, rule, target), search)["tau"]
        found[name] = rule, float(tau)
    return {DENSE: (tas, None)} | found | {PERIODIC: (Periodic(), 0.5)}


def generate(archive: Archive, seed: int, rule: ReplayRule, tau: float | None) -> Any:
    """Tokens int64[S, clips] that a rule generates, and the share that replays."""
    recipe = of_scenes(CLIPS, rule=rule, tau=tau, seed=seed)
    recipe = recipe.model_copy(update={"exempt_layers": EXEMPT if tau is not None else ()})

    def make() -> dict[str, NDArray[Any]]:
        parts = prepare(recipe, RECIPE.parent)
        group = replace(  # all rows at once take half of the time of eight at a time
            parts[0],
            prompts=tuple(prompt for part in parts for prompt in part.prompts),
            tokens=np.concatenate([part.tokens for part in parts], axis=1),
            seeds=tuple(each for part in parts for each in part.seeds),
        )
        decoded = decode_group(group, lambda done: None)
        return {"tokens": decoded.tokens, "ratio": decoded.replay[TOKENS_PER_FRAME:, 1:].mean()}

    plan = rule.plan.tobytes() if isinstance(rule, Planned) else b""
    what = ("free", seed, rule.kind, rule.gain, tau, plan, repr(rule) if not plan else "")
    return archive.once(what, make)


def ways_of(archive: Archive, seeds: int) -> list[tuple[str, str, int, ReplayRule, float | None]]:
    """All that is decoded: name, what is added, seed, rule, tau."""
    gains, plan = gains_of(archive), by_layer(archive)
    extras = {"replay": 1.0, "nothing": 0.0, "half": 0.5, "gain": gains}
    found: list[tuple[str, str, int, ReplayRule, float | None]] = []
    for seed in range(seeds):
        rules = rules_of(archive)
        rules[BY_LAYER] = Planned(plan=plan), 0.5
        rules[RANDOM] = Planned(plan=drawn(archive, seed)), 0.5
        for name, (rule, tau) in rules.items():
            wanted = {
                DENSE: ("replay",),
                RANDOM: ("replay",),
                CHANGE: ("replay", "nothing"),
                BY_LAYER: ("replay", "gain"),
            }.get(name, tuple(extras))
            for way in wanted:
                damped = rule.model_copy(update={"gain": extras[way]})
                found.append((name, way, seed, damped, tau))
    return found


def frames_of(tokens: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Pixels of a clip, uint8[T, 64, 64, 3], from its tokens int64[S]."""
    patches = load_codebook(CODEBOOK).codes[tokens]
    grid = patches.reshape(-1, GRID, GRID, PATCH_PIXELS, PATCH_PIXELS, 3)
    return grid.swapaxes(2, 3).reshape(-1, FRAME_PIXELS, FRAME_PIXELS, 3)


def pictures(tokens: NDArray[np.int64], truth: NDArray[np.int64]) -> pd.DataFrame:
    """PSNR, edges and contrast of each frame, beside the true one.

    Args:
        tokens: int64[S], of a clip.
        truth: The true ones.
    """

    def edges(frame: NDArray[Any]) -> float:
        pixels = frame.astype(float)
        return float(np.mean([np.abs(np.diff(pixels, axis=axis)).mean() for axis in (0, 1)]))

    def psnr(frame: NDArray[Any], true: NDArray[Any]) -> float:
        error = np.mean((frame.astype(float) - true) ** 2)
        return float(min(10 * np.log10(255**2 / error), 58.9)) if error else 58.9

    pairs = zip(frames_of(tokens), frames_of(truth), strict=True)
    return pd.DataFrame(
        {
            "frame": number,
            "psnr": psnr(frame, true),
            "edges": edges(frame) / edges(true),
            "contrast": frame.std() / true.std(),
        }
        for number, (frame, true) in enumerate(pairs)
    )


def cells(archive: Archive, seeds: int = SEEDS) -> pd.DataFrame:
    """A row for each way, scene and frame, meaned over seeds."""
    rows, table = rows_of(CLIPS), []
    for name, way, seed, rule, tau in ways_of(archive, seeds):
        found = generate(archive, seed, rule, tau)
        made = [
            Row(row.clip, row.prompt, codes)
            for row, codes in zip(rows, found["tokens"].T, strict=True)
        ]
        read = archive.decode([Ask(None, row) for row in made])
        for row, own, kept in zip(rows, made, read, strict=True):
            frames = pictures(own.codes, row.codes)
            loss = kept.nats.reshape(-1, TOKENS_PER_FRAME).mean(axis=1)
            names = {"rule": name, "way": way, "clip": row.clip, "ratio": float(found["ratio"])}
            table.append(frames.assign(loss=loss, **names)[2:])
    keys = ["rule", "way", "clip", "frame"]
    return pd.concat(table).groupby(keys, sort=False).mean().reset_index()


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each way: means over scenes and frames, and differences to dense with intervals."""
    measures = [*MEASURES, "contrast"]
    by_clip = table.groupby(["rule", "way", "clip"], sort=False)[["ratio", *measures]].mean()
    dense, keys = by_clip.loc[DENSE, "replay"], by_clip.index.droplevel("clip").unique()
    level = 1 - 0.05 / (len(measures) * (len(keys) - 1))
    rows = []
    for rule, way in keys:
        own = by_clip.loc[rule, way]
        row: dict[str, Any] = {"rule": rule, "way": way, "scenes": len(own)} | own.mean().to_dict()
        for name in measures:
            row |= columns(f"{name}_less_dense", own[name] - dense[name], level)
        rows.append(row)
    return pd.DataFrame(rows)


def draw_measure(axes: Axes, table: pd.DataFrame, measure: str) -> None:
    """A measure by frame, a line for each way that is shown."""
    means = table.groupby(["rule", "way", "frame"], sort=False)[measure].mean()
    for (rule, way), (colour, style) in COLOURS.items():
        label = rule if way == "replay" else f"{rule}: {way}"
        axes.plot(means.loc[rule, way], style, color=colour, label=label)
    axes.set(xlabel="frame", ylabel=f"{measure}, {MEASURES[measure]}")


def main() -> None:
    """Generate, measure, write, draw and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args()
    path = HERE / "free_cells.csv"
    model = ROOT / "studies/proxy/small.safetensors"
    archive = Archive(load_model(model), SCRATCH / model.stem)
    cells(archive, options.seeds).round(4).to_csv(path, index=False)
    table = pd.read_csv(path)
    found = summary(table)
    found.round(4).to_csv(HERE / "free.csv", index=False)
    print(found.round(3).to_string(index=False))
    with drawing(HERE / "free.png", 11, 3.8, "While the model generates") as figure:
        panels = figure.subplots(1, len(MEASURES))
        for axes, measure in zip(panels, MEASURES, strict=True):
            draw_measure(axes, table, measure)
        legend_below(figure, panels[0], 5)


if __name__ == "__main__":
    main()
