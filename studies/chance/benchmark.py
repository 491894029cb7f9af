"""One benchmark of replay rules: equal ratio, equal ages, and what else could be added instead.

    python -m studies.chance.benchmark
    python -m studies.chance.benchmark --model MODEL.safetensors --name NAME

Held-out scenes of 8 frames, true codes fed, replays really applied. Every rule replays half of the
places of every layer but the first in each frame from frame 1 on, so that all have the same ratio
everywhere (FastCar's own rule, one threshold for all layers, is added as it is). Beside each rule
stand, at its own decisions:

* ``permuted``: the same decisions with the places permuted in each layer (equal ages, three seeds);
* ``nothing``: nothing is added instead of the cached output;
* ``half``: half of the cached output, halved again at each replay;
* ``gain``: the cached output times a number per layer, the regression of an output on the one
  before in dense decoding of the tuning scenes.

Writes ``benchmark_cells.csv`` (a row for each model, scene, rule and baseline), ``benchmark.png``
and ``benchmark.csv`` (means, and paired differences with intervals over scenes, widened for the
number of comparisons: Bonferroni). What is decoded once is kept; stop the run at any time.
"""

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from carsim.base.statistics import bootstrap_mean
from carsim.decisions.replay import Tas
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.model import load_model
from carsim.decoder.structures import Array
from carsim.report.figures import style as plots
from studies.content import CLIPS, EXEMPT, SCRATCH, TUNING, TWIN, rows_of
from studies.record import Archive, Ask, Kept
from studies.rules import (
    Chance,
    ChangeScore,
    Counted,
    Damped,
    Given,
    Measure,
    OutputChange,
    Periodic,
    SameCode,
    TasScore,
    permuted,
)
from studies.thresholds import one_tau
from studies.whole import Bools, Rule, Seen

HERE = Path(__file__).parent
SHIPPED = "shipped, 32 layers"
HALF = TOKENS_PER_FRAME // 2
SEEDS = 3
RANDOM, FASTCAR = "random", "TAS, one threshold"
MEASURES: dict[str, Measure] = {
    "TAS": TasScore(),
    "TAS, released form": TasScore(Tas()),
    "change of input": ChangeScore(),
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
        aged = (seen.u_held != seen.u_before).any(axis=-1)
        order = np.lexsort([scores, ~aged])
        ranks = np.empty(len(scores), scores.dtype)
        ranks[order] = np.arange(len(scores))
        return ranks


def rules_of(archive: Archive) -> dict[str, Rule]:
    """Every rule of the benchmark by name."""
    counts = np.zeros((archive.config.n_frames, archive.n_layers), np.int64)
    counts[1:, 1:] = HALF
    fresh = {f"{name}, age 1": Fresh(MEASURES[name]) for name in ("TAS", "change of input")}
    rules: dict[str, Rule] = {FASTCAR: one_tau(archive, TasScore(), 0.5, EXEMPT)}
    rules |= {name: Counted(each, counts) for name, each in (MEASURES | fresh).items()}
    rules["periodic"] = Periodic(EXEMPT)
    return rules | {f"{RANDOM} {seed}": Counted(Chance(seed), counts) for seed in range(SEEDS)}


def gains_of(archive: Archive) -> tuple[float, ...]:
    """The regression of each layer's output on the one before, tuning scenes, dense."""
    sums = np.zeros((2, archive.n_layers))

    def look(seen: Seen) -> None:
        fresh, held = (each.astype(np.float64) for each in (seen.fresh, seen.held))
        sums[:, seen.layer] += (fresh * held).sum(), (held * held).sum()

    for row in rows_of(TUNING, n_frames=archive.config.n_frames):
        archive.decoder.decode(None, row.prompt, row.codes, look=look)
    return tuple(np.clip(sums[0] / sums[1], 0, 1).round(4).tolist())


def cells(archive: Archive, model: str, clips: tuple[str, ...]) -> pd.DataFrame:
    """A row for each scene, rule and baseline: nats per token over dense, ratio, mean age."""
    rows = rows_of(clips, n_frames=archive.config.n_frames)
    dense = archive.decode([Ask(None, row) for row in rows], "dense")
    gains, table = gains_of(archive), list[dict[str, Any]]()

    def book(rule: str, what: str, rules: list[Rule]) -> list[Kept]:
        asked = [Ask(each, row) for each, row in zip(rules, rows, strict=True)]
        kept = archive.decode(asked, f"{rule}: {what}")
        for row, each, plain in zip(rows, kept, dense, strict=True):
            free = each.replay[TOKENS_PER_FRAME:, 1:]
            figures = {"loss": each.loss - plain.loss, "ratio": free.mean(), "age": _age(free)}
            named = RANDOM if rule.startswith(RANDOM) else rule
            names = {"model": model, "rule": named, "baseline": what}
            table.append(names | {"scene": row.clip} | figures)
        return kept

    for name, rule in rules_of(archive).items():
        kept = book(name, "replay", [rule] * len(rows))
        for seed in range(0 if name.startswith((RANDOM, "periodic")) else SEEDS):
            alike = partial(permuted, tokens_per_frame=TOKENS_PER_FRAME, seed=seed)
            book(name, "permuted", [Given(alike(each.replay)) for each in kept])
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
    """A row for each rule of one model: means over scenes, and paired differences of interest."""
    losses = table.pivot_table("loss", ["rule", "scene"], "baseline", sort=False)
    other = losses.loc[RANDOM, "replay"]
    rows = []
    for rule, part in table.groupby("rule", sort=False):
        loss = losses.loc[rule].dropna(axis="columns")
        replay = part[part["baseline"] == "replay"]
        against = {name: loss[name] for name in BASELINES if name in loss} | {RANDOM: other}
        row: dict[str, Any] = {"model": replay["model"].iloc[0], "rule": rule, "scenes": len(loss)}
        row |= replay[["ratio", "age"]].mean().to_dict() | loss.mean().to_dict()
        for name, values in against.items():
            found = bootstrap_mean((values - loss["replay"]).to_numpy(), level=_level(table))
            key = f"{name}_less_replay"
            row |= {key: found.mean, f"{key}_low": found.low, f"{key}_high": found.high}
        rows.append(row)
    return pd.DataFrame(rows)


def _level(table: pd.DataFrame) -> float:
    """Of each interval, so that all of one model hold together in 95 % of experiments."""
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
    models = list(found.groupby("model", sort=False))
    with plots.style():
        figure = plots.new_figure(10, 4.2, "What to replay, and what to add instead", misfit=False)
        panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
        for axes, (model, part) in zip(panels, models, strict=True):
            lines = np.arange(len(part))[::-1]
            for name, (mark, colour, label) in marks.items():
                axes.plot(part[name], lines, mark, color=colour, label=label, markersize=5)
            axes.axvline(0, color=plots.GREY, linewidth=0.8)
            axes.set_yticks(lines, part["rule"])
            axes.set(xlabel="loss over dense, nats per token", title=model)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncol=5)
        figure.savefig(HERE / "benchmark.png", metadata={"Software": None})


def main() -> None:
    """Measure one model, keep the others' rows, write and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=TWIN)
    parser.add_argument("--name", default=SHIPPED, help="of the model in the tables")
    parser.add_argument("--clips", type=int, default=len(CLIPS))
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    folder = SCRATCH / options.model.stem
    archive = Archive(load_model(options.model), folder, workers=options.workers)
    path = HERE / "benchmark_cells.csv"
    kept = pd.read_csv(path) if path.exists() else pd.DataFrame({"model": []})
    made = cells(archive, options.name, CLIPS[:: len(CLIPS) // options.clips])
    table = pd.concat([kept[kept["model"] != options.name], made.round(5)])
    table.to_csv(path, index=False)
    found = pd.concat([summary(part) for _, part in table.groupby("model", sort=False)])
    found.round(4).to_csv(HERE / "benchmark.csv", index=False)
    draw(found)
    print(found.round(4).T.to_string())


if __name__ == "__main__":
    main()
