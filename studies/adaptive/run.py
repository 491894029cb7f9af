"""A threshold that adapts, against one that is fixed: loss, latency and its spread over scenes.

    python -m studies.adaptive.run

Twenty held-out scenes of 8 frames as guidance pairs, true codes fed. Three ways to set tau, each at
several settings: fixed; steered after every frame to a target ratio; steered to a budget of harm
(the change of the MLP's input that replays ignore). They are compared at equal mean loss (by
interpolation between settings): mean and worst latency over scenes on the machine ``zcu102``, a
pair at a time. Thresholds and budgets are chosen on other scenes.

Writes ``cells.csv`` (a row for each scene and setting), ``compared.csv`` and ``adaptive.png``.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from carsim import Design, load_design, load_trace, run
from carsim.base.statistics import bootstrap_mean
from carsim.decisions.trace import Trace
from carsim.report.figures import style as plots
from studies.decisions.content import EXEMPT, FEW, ROOT, TUNING, pace_of, rows_of
from studies.decisions.record import Archive, Ask, Kept
from studies.decisions.rules import ChangeScore, Controlled, TasScore, Threshold
from studies.decisions.simulated import of_pairs
from studies.decisions.thresholds import dense_scores, one_tau
from studies.decisions.whole import Rule

HERE = Path(__file__).parent
SHARES = (0.3, 0.5, 0.8)
FIXED, RATIO, HARM = "fixed tau", "target ratio", "budget of harm"
_PULL = 1.0
"""A ratio that is off by 10 points moves tau by a tenth of the spread of dense scores, and likewise
a harm that is off by a tenth of its budget."""
COLOURS = {FIXED: plots.BLACK, RATIO: plots.BLUE, HARM: plots.VERMILION}


def ways(archive: Archive, share: float) -> dict[str, Rule]:
    """The three ways at one strength, each set on the tuning scenes."""
    measure = TasScore()
    fixed = one_tau(archive, measure, share, EXEMPT)
    spread = float(dense_scores(archive, measure).std())
    harm = _mean_harm(archive, fixed)
    return {
        FIXED: fixed,
        RATIO: Controlled(measure, fixed.lowest, share, _PULL * spread, "ratio", EXEMPT),
        HARM: Controlled(measure, fixed.lowest, harm, _PULL * spread / harm, "harm", EXEMPT),
    }


def _mean_harm(archive: Archive, rule: Threshold) -> float:
    """Mean harm of a rule over the tuning scenes."""
    seen: list[float] = []

    class Watching:
        """The rule, and what its replays ignored."""

        def decide(self, place: Any, memory: Any) -> Any:
            replay, scores = rule.decide(place, memory)
            if place.layer not in EXEMPT:
                seen.append(float((-ChangeScore().score(place) * replay).mean()))
            return replay, scores

    for row in rows_of(TUNING):
        archive.decoder.decode(Watching(), row.prompt, row.codes)
    return round(float(np.mean(seen)), 6)


def cells(archive: Archive, like: Trace, design: Design, clips: tuple[str, ...]) -> pd.DataFrame:
    """A row for each scene, way and strength: ratio, loss over dense, and latency."""
    rows = rows_of(clips, blank=True)
    dense = archive.decode([Ask(None, row) for row in rows], "dense")
    table: list[dict[str, Any]] = []
    for share in SHARES:
        for way, rule in ways(archive, share).items():
            kept = archive.decode([Ask(rule, row) for row in rows], f"{way}, {share:.0%}")
            for number, clip in enumerate(clips):
                pair, plain = kept[2 * number : 2 * number + 2], dense[2 * number]
                table.append(
                    {
                        "clip": clip,
                        "way": way,
                        "share": share,
                        "ratio": np.mean([each.ratio for each in pair]),
                        "excess": pair[0].loss - plain.loss,
                        "seconds": _seconds(design, like, pair, f"{way}, {share:.0%}, {clip}"),
                    }
                )
    return pd.DataFrame(table)


def _seconds(design: Design, like: Trace, pair: list[Kept], label: str) -> float:
    replay = np.stack([each.replay for each in pair], axis=-1)
    report = run(design, [of_pairs(like, replay, label)], allow_misfit=True)
    return report.chosen.latency_s


def at_equal_loss(table: pd.DataFrame, losses: tuple[float, ...]) -> pd.DataFrame:
    """Latencies of each way where its mean loss over dense is so much, by interpolation.

    Args:
        table: Of :func:`cells`.
        losses: Nats a token.

    Returns:
        A row for each way and loss: mean, standard deviation over scenes and worst latency, and the
        mean over fixed tau with its 95 % interval over scenes.
    """
    rows = []
    for loss in losses:
        by_way = {way: _interpolated(part, loss) for way, part in table.groupby("way", sort=False)}
        for way, seconds in by_way.items():
            over = bootstrap_mean((seconds - by_way[FIXED]).to_numpy())
            rows.append(
                {
                    "loss": loss,
                    "way": way,
                    "mean_s": seconds.mean(),
                    "spread_s": seconds.std(),
                    "worst_s": seconds.max(),
                    "over_fixed_s": over.mean,
                    "over_fixed_low_s": over.low,
                    "over_fixed_high_s": over.high,
                }
            )
    return pd.DataFrame(rows)


def _interpolated(part: pd.DataFrame, loss: float) -> pd.Series:
    """Latency of each scene at the strength where the mean loss is ``loss``."""
    mean = part.groupby("share")["excess"].mean().sort_index()
    excess = np.concatenate([[0.0], np.maximum.accumulate(mean)])
    share = float(np.interp(loss, excess, [0.0, *mean.index]))
    seconds = part.pivot(index="clip", columns="share", values="seconds").sort_index(axis=1)
    return seconds.apply(lambda row: float(np.interp(share, row.index, row)), axis=1)


def draw_spread(axes: Axes, table: pd.DataFrame) -> None:
    """Mean latency of each way over its mean loss, with the range over scenes."""
    for way, part in table.groupby("way", sort=False):
        means = part.groupby("share")[["excess", "seconds"]].mean()
        worst = part.groupby("share")["seconds"].max()
        axes.plot(means["excess"], means["seconds"], "o-", color=COLOURS[str(way)], label=way)
        axes.plot(means["excess"], worst, "^:", color=COLOURS[str(way)], alpha=0.7)
    axes.set(
        xlabel="mean loss over dense, nats a token",
        ylabel="seconds a video",
        title="circles: mean of scenes; triangles: the slowest",
    )
    axes.legend()


def draw_ratios(axes: Axes, table: pd.DataFrame, share: float) -> None:
    """Replay ratio of each scene by pace, at one strength."""
    part = table[table["share"] == share]
    paces = list(dict.fromkeys(map(pace_of, part["clip"])))
    for shift, (way, each) in enumerate(part.groupby("way", sort=False)):
        places = [paces.index(pace_of(clip)) + 0.2 * (shift - 1) for clip in each["clip"]]
        axes.plot(places, each["ratio"], "o", color=COLOURS[str(way)], label=way, alpha=0.7)
    axes.set_xticks(range(len(paces)), paces)
    axes.set(ylabel="replay ratio of eligible steps", ylim=(0, 1), title=f"aimed at {share:.0%}")
    axes.legend()


def main() -> None:
    """Measure, write, draw, and print what the README says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=len(FEW))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    like = load_trace(ROOT / "traces/vilau_8f.npz")
    design = load_design(ROOT / "configs/zcu102.yaml")
    clips = FEW[:: len(FEW) // options.clips]
    table = cells(Archive(workers=options.workers), like, design, clips)
    table.round(5).to_csv(HERE / "cells.csv", index=False)
    means = table.groupby(["way", "share"], sort=False)
    print(means[["ratio", "excess", "seconds"]].agg(["mean", "min", "max"]).round(3).to_string())
    fixed = table[table["way"] == FIXED].groupby("share")["excess"].mean()
    compared = at_equal_loss(table, tuple(round(float(fixed[share]), 4) for share in SHARES[1:2]))
    compared.round(4).to_csv(HERE / "compared.csv", index=False)
    print(compared.round(3).to_string(index=False))
    with plots.style():
        figure = plots.new_figure(10, 4.0, "A threshold that adapts", misfit=False)
        left, right = figure.subplots(1, 2)
        draw_spread(left, table)
        draw_ratios(right, table, SHARES[1])
        figure.savefig(HERE / "adaptive.png", metadata={"Software": None})


if __name__ == "__main__":
    main()
