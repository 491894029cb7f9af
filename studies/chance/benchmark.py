"""One benchmark of replay rules: equal ratio, equal ages, and what else could be added instead.

    python -m studies.chance.benchmark
    python -m studies.chance.benchmark --model MODEL.safetensors --name NAME [--share 0.25]

Held-out scenes of 8 frames, true codes fed, replays really applied. Every rule replays the same
share of the places of every layer but the first in each frame from frame 1 on. Rules of *one
threshold* for all layers (found on the tuning scenes for the same share) and schedules place their
replays otherwise; the column ``ratio`` has what they replay. Beside each rule stand, at its own
decisions:

* ``permuted``: the same decisions with the places permuted in each layer (equal ages; three seeds
  at one half, else one);
* ``nothing``: nothing is added instead of the cached output;
* ``half``: half of the cached output, halved again at each replay;
* ``gain``: the cached output times a number per layer, the regression of an output on the one
  before in dense decoding of the tuning scenes.

Writes ``benchmark_cells.csv`` (a row for each model, share, scene, rule and baseline),
``benchmark.png`` and ``benchmark.csv`` (means, and paired differences with intervals over scenes,
widened for the number of comparisons: Bonferroni). What is decoded once is kept; stop the run at
any time.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from carsim.decisions.replay import Tas
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.model import load_model
from carsim.decoder.structures import Array
from carsim.report.figures import style as plots
from studies.chance.own import by_layer, counts_at, learned
from studies.content import CLIPS, SCRATCH, TUNING, TWIN, rows_of
from studies.drawing import drawing, legend_below
from studies.measured import FASTCAR, SHIPPED
from studies.record import Archive, Ask, Kept
from studies.rules import (
    Chance,
    ChangeScore,
    Counted,
    Damped,
    Given,
    Measure,
    OutputChange,
    SameCode,
    TasScore,
    permuted,
    schedule,
)
from studies.table import columns
from studies.thresholds import one_tau
from studies.whole import Bools, Rule, Seen

HERE = Path(__file__).parent
SEEDS = {0.5: 3}
"""By share; one at all others."""
RANDOM, PERIODIC = "random", "periodic"
CHANGE, LEARNED, BY_LAYER = "change of input", "learned score", "schedule by layer"
MEASURES: dict[str, Measure] = {
    "TAS": TasScore(),
    "TAS, released form": TasScore(Tas()),
    CHANGE: ChangeScore(),
    "same code": SameCode(),
    "change of output (oracle)": OutputChange(),
}
BASELINES = ("permuted", "nothing", "half", "gain")


@dataclass(frozen=True)
class Fresh:
    """Another measure, but a place that replayed in the frame before computes if any other can.

    Attributes:
        measure: Orders the places that did not replay, and those that did.
    """

    measure: Measure

    def score(self, seen: Seen) -> Array:
        """As :class:`~studies.rules.Measure` has it."""
        scores = self.measure.score(seen)
        order = np.lexsort([scores, seen.age <= 1])
        ranks = np.empty(len(scores), scores.dtype)
        ranks[order] = np.arange(len(scores))
        return ranks


def rules_of(archive: Archive, share: float) -> dict[str, Rule]:
    """Every rule of the benchmark by name."""
    counts, own = counts_at(archive, share), learned(archive)
    wanted = MEASURES | {LEARNED: own}
    if share == 0.5:
        wanted |= {f"{name}, age 1": Fresh(MEASURES[name]) for name in ("TAS", CHANGE)}
    scores: dict[str, Measure] = {"TAS": TasScore(), CHANGE: ChangeScore(), LEARNED: own}
    rules: dict[str, Rule] = {
        f"{name}, one threshold": one_tau(archive, measure, share)
        for name, measure in scores.items()
    }
    rules |= {name: Counted(measure, counts) for name, measure in wanted.items()}
    rules[PERIODIC] = Given(schedule(archive.config, share))
    if share == 0.5:
        rules[BY_LAYER] = Given(by_layer(archive))
    return rules | {
        f"{RANDOM} {seed}": Counted(Chance(seed), counts) for seed in range(SEEDS.get(share, 1))
    }


def gains_of(archive: Archive) -> tuple[float, ...]:
    """The regression of each layer's output on the one before, tuning scenes, dense."""
    sums = np.zeros((2, archive.n_layers))

    def look(seen: Seen) -> None:
        fresh, held = (each.astype(np.float64) for each in (seen.fresh, seen.held))
        sums[:, seen.layer] += (fresh * held).sum(), (held * held).sum()

    for row in rows_of(TUNING, n_frames=archive.config.n_frames):
        archive.decoder.decode(None, row.prompt, row.codes, look=look)
    return tuple(np.clip(sums[0] / sums[1], 0, 1).round(4).tolist())


def cells(archive: Archive, model: str, clips: tuple[str, ...], share: float) -> pd.DataFrame:
    """A row for each scene, rule and baseline: nats per token over dense, ratio, mean age."""
    rows = rows_of(clips, n_frames=archive.config.n_frames)
    dense = archive.decode([Ask(None, row) for row in rows])
    gains, table = gains_of(archive), list[dict[str, Any]]()

    def book(rule: str, what: str, rules: list[Rule]) -> list[Kept]:
        asked = [Ask(each, row) for each, row in zip(rules, rows, strict=True)]
        kept = archive.decode(asked)
        for row, each, plain in zip(rows, kept, dense, strict=True):
            free = each.replay[TOKENS_PER_FRAME:, 1:]
            figures = {"loss": each.loss - plain.loss, "ratio": free.mean(), "age": _age(free)}
            named = RANDOM if rule.startswith(RANDOM) else rule
            names = {"model": model, "share": share, "rule": named, "baseline": what}
            table.append(names | {"clip": row.clip} | figures)
        return kept

    for name, rule in rules_of(archive, share).items():
        kept = book(name, "replay", [rule] * len(rows))
        drawn = not name.startswith((RANDOM, PERIODIC, BY_LAYER))
        for seed in range(SEEDS.get(share, 1) * drawn):
            others = [permuted(each.replay, TOKENS_PER_FRAME, seed) for each in kept]
            book(name, "permuted", [Given(each) for each in others])
        for what, gain in {"nothing": 0.0, "half": 0.5, "gain": gains}.items():
            book(name, what, [Damped(Given(each.replay), gain) for each in kept])
    return pd.DataFrame(table)


def _age(free: Bools) -> float:
    """Mean frames since a replayed output was computed; free: bool[S - N, L]."""
    frames = free.reshape(-1, TOKENS_PER_FRAME, free.shape[1])
    age, total = np.zeros(frames.shape[1:]), 0.0
    for frame in frames:
        age = np.where(frame, age + 1, 0)
        total += age.sum()
    return total / max(frames.sum(), 1)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each rule of one model and share: means, and paired differences of interest."""
    losses = table.pivot_table("loss", ["rule", "clip"], "baseline", sort=False)
    shared = {
        f"{name}_less_replay": losses.loc[rule, "replay"]
        for name, rule in ((RANDOM, RANDOM), ("tas", FASTCAR), (PERIODIC, PERIODIC))
        if rule in losses.index
    }
    rows = []
    for rule, part in table.groupby("rule", sort=False):
        loss = losses.loc[rule].dropna(axis="columns")
        replay = part[part["baseline"] == "replay"]
        against = {f"{name}_less_replay": loss[name] for name in BASELINES if name in loss} | shared
        row: dict[str, Any] = replay[["model", "share"]].iloc[0].to_dict()
        row |= {"rule": rule, "scenes": len(loss)}
        row |= replay[["ratio", "age"]].mean().to_dict() | loss.mean().to_dict()
        for key, values in against.items():
            row |= columns(key, values - loss["replay"], _level(table))
        rows.append(row)
    return pd.DataFrame(rows)


def _level(table: pd.DataFrame) -> float:
    """Of each interval, so that all of one model and share hold together in 95 % of experiments."""
    pairs = table[["rule", "baseline"]].drop_duplicates()
    return 1 - 0.05 / (len(pairs) - 1)


def draw(found: pd.DataFrame) -> None:
    """Write the figure: a panel for each model, a line for each rule, a mark for each baseline."""
    marks = {
        "replay": ("o", plots.BLUE, "cached output (replay)"),
        "permuted": ("x", plots.BLACK, "replay, places permuted"),
        "nothing": ("s", plots.VERMILION, "nothing added"),
        "half": ("<", plots.ORANGE, "half of it"),
        "gain": ("d", plots.GREEN, "times a gain per layer"),
    }
    names = list(dict.fromkeys(found["rule"]))
    models = list(found[found["share"] == 0.5].groupby("model", sort=False))
    title = "What to replay, and what to add instead"
    with drawing(HERE / "benchmark.png", 10, 4.2, title) as figure:
        panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
        for axes, (model, part) in zip(panels, models, strict=True):
            lines = part["rule"].map(names.index)
            for name, (mark, colour, label) in marks.items():
                axes.plot(part[name], lines, mark, color=colour, label=label, markersize=5)
            axes.axvline(0, color=plots.GREY, linewidth=0.8)
            axes.set(xlabel="loss over dense, nats per token", title=model)
        panels[0].set_yticks(range(len(names)), names)
        panels[0].invert_yaxis()
        legend_below(figure, panels[0], 5)


def main() -> None:
    """Measure one model, keep the others' rows, write and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=TWIN)
    parser.add_argument("--name", default=SHIPPED, help="of the model in the tables")
    parser.add_argument("--share", type=float, default=0.5, help="of the places that replay")
    parser.add_argument("--clips", type=int, default=len(CLIPS))
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    folder = SCRATCH / options.model.stem
    archive = Archive(load_model(options.model), folder, workers=options.workers)
    path = HERE / "benchmark_cells.csv"
    kept = pd.read_csv(path) if path.exists() else pd.DataFrame({"model": [], "share": []})
    made = cells(archive, options.name, CLIPS[:: len(CLIPS) // options.clips], options.share)
    same = (kept["model"] == options.name) & (kept["share"] == options.share)
    table = pd.concat([kept[~same], made.round(5)])
    table.to_csv(path, index=False)
    groups = table.groupby(["model", "share"], sort=False)
    found = pd.concat([summary(part) for _, part in groups])
    found.round(4).to_csv(HERE / "benchmark.csv", index=False)
    draw(found)
    print(found.round(4).T.to_string())


if __name__ == "__main__":
    main()
