"""What foretells that an MLP output repeats? Dense decoding, looked at from inside.

    python -m studies.chance.signal

Forty held-out scenes of 8 frames (``--clips`` for fewer) are decoded densely with their true codes.
For each scene and layer: how alike MLP outputs of neighbouring frames are, and the rank
correlation of each measure with minus the length of the change of the output. And what each layer's
MLP is worth alone: the loss where it replays at every place and all others run, on the tuning
scenes.

Writes ``layers.csv`` (a row for each scene and layer), ``alone.csv`` and ``signal.png``.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from carsim.base.statistics import bootstrap_mean
from carsim.decisions.replay import Tas
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.report.figures import style as plots
from studies.content import CLIPS, TUNING, Row, pace_of, rows_of
from studies.drawing import drawing, with_intervals
from studies.ranks import auc, spearman
from studies.record import Archive, Ask
from studies.rules import Chance, ChangeScore, Counted, Measure, SameCode, TasScore
from studies.table import columns
from studies.whole import Seen

HERE = Path(__file__).parent
PAPER = (0.4, 0.8)
"""Cosines of FastCar's Figure 2 (and above)."""


def measures(n_heads: int) -> dict[str, Measure]:
    """Every measure by name."""
    return {
        "tas": TasScore(),
        "tas_released": TasScore(Tas()),
        "tas_one_later": TasScore(Tas(form="paper", offset=1)),
        **{f"tas_head_{head}": TasScore(Tas(form="paper", head=head)) for head in range(n_heads)},
        "input_change": ChangeScore(since="before"),
        "same_code": SameCode(),
    }


def look_into(archive: Archive, row: Row) -> pd.DataFrame:
    """One row per layer of a scene."""
    wanted = measures(archive.model.geometry.n_heads)
    seen_in: dict[int, list[dict[str, Any]]] = {}

    def look(seen: Seen) -> None:
        error = np.linalg.norm(seen.fresh - seen.held, axis=-1)
        length = np.linalg.norm(seen.fresh, axis=-1) * np.linalg.norm(seen.held, axis=-1)
        seen_in.setdefault(seen.layer, []).append(
            {
                "cosine": (seen.fresh * seen.held).sum(-1) / np.maximum(length, 1e-30),
                "change": error,
                "length": np.linalg.norm(seen.fresh, axis=-1),
                **{name: measure.score(seen) for name, measure in wanted.items()},
            }
        )

    archive.decoder.decode(None, row.prompt, row.codes, look=look)
    table = []
    for layer, frames in seen_in.items():
        joined = {name: np.concatenate([each[name] for each in frames]) for name in frames[0]}
        alike = joined["change"] < np.median(joined["change"])
        table.append(
            {
                "clip": row.clip,
                "layer": layer,
                "cosine": joined["cosine"].mean(),
                "relative_change": joined["change"].mean() / joined["length"].mean(),
                "auc_tas": auc(joined["tas"], alike),
                **{f"rank_{name}": spearman(joined[name], -joined["change"]) for name in wanted},
            }
        )
    return pd.DataFrame(table)


def alone(archive: Archive, rows: tuple[Row, ...]) -> pd.DataFrame:
    """Loss over dense where one layer replays at every eligible place: a row for each layer."""
    dense = archive.decode([Ask(None, row) for row in rows])
    table = []
    for layer in range(archive.n_layers):
        counts = np.zeros((archive.config.n_frames, archive.n_layers), np.int64)
        counts[1:, layer] = TOKENS_PER_FRAME
        rule = Counted(Chance(0), counts)
        kept = archive.decode([Ask(rule, row) for row in rows])
        excess = [each.loss - plain.loss for each, plain in zip(kept, dense, strict=True)]
        table.append({"layer": layer} | columns("excess", excess))
    return pd.DataFrame(table)


def draw_cosines(axes: Axes, table: pd.DataFrame) -> None:
    """Cosine by layer for each pace."""
    axes.axhspan(*PAPER, color=plots.LIGHT_GREY, alpha=0.6, label="FastCar, most layers")
    colours = (plots.BLACK, plots.BLUE, plots.GREEN, plots.VERMILION, plots.ORANGE)
    paces = table.assign(pace=table["clip"].map(pace_of)).groupby("pace", sort=False)
    for colour, (pace, part) in zip(colours, paces, strict=False):
        axes.plot(part.groupby("layer")["cosine"].mean(), color=colour, label=str(pace))
    axes.set(xlabel="layer", ylabel="cosine of MLP outputs, frame to frame", ylim=(0.2, 1.0))
    axes.legend(ncol=3, loc="lower center")


def draw_ranks(axes: Axes, table: pd.DataFrame) -> None:
    """Rank correlation by layer for each measure."""
    for name, colour, style, label in (
        ("input_change", plots.GREEN, "-", "change of the MLP's input"),
        ("same_code", plots.SKY, "-", "same code fed"),
        ("tas", plots.BLUE, "-", "TAS, paper's form"),
        ("tas_released", plots.ORANGE, "--", "TAS, released form"),
        ("tas_one_later", plots.VERMILION, ":", "TAS, one place later"),
    ):
        layers = table.groupby("layer")[f"rank_{name}"].mean()
        axes.plot(layers, style, color=colour, label=label)
    axes.axhline(0, color=plots.GREY, linewidth=0.8, linestyle=":")
    axes.set(xlabel="layer", ylabel="rank correlation with a small change", ylim=(-0.2, 1.45))
    axes.legend(ncol=2, loc="upper center")


def draw_alone(axes: Axes, table: pd.DataFrame) -> None:
    """What each layer costs that replays alone."""
    look = {"fmt": "o", "color": plots.BLUE, "markersize": 3}
    with_intervals(axes, table["layer"], table, "excess", **look)
    axes.axhline(0, color=plots.GREY, linewidth=0.8, linestyle=":")
    axes.set_yscale("symlog", linthresh=0.01)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(-0.015, 3)
    axes.set(xlabel="the layer that replays alone", ylabel="loss over dense, nats per token")


def draw(table: pd.DataFrame, by_layer: pd.DataFrame) -> None:
    """Write the figure."""
    title = "What foretells an MLP output that repeats"
    with drawing(HERE / "signal.png", 14, 3.8, title) as figure:
        left, middle, right = figure.subplots(1, 3)
        draw_cosines(left, table)
        draw_ranks(middle, table)
        draw_alone(right, by_layer)


def main() -> None:
    """Write table and figure, and print what the README says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=len(CLIPS))
    options = parser.parse_args()
    archive = Archive()
    rows = rows_of(CLIPS[:: len(CLIPS) // options.clips])
    table = pd.concat([look_into(archive, row) for row in rows], ignore_index=True)
    table.round(4).to_csv(HERE / "layers.csv", index=False)
    by_layer = alone(archive, rows_of(TUNING))
    by_layer.round(5).to_csv(HERE / "alone.csv", index=False)
    print(by_layer.sort_values("excess", ascending=False).head(6).round(4).to_string(index=False))
    by_clip = table.groupby("clip", sort=False).mean(numeric_only=True)
    for name in by_clip.columns.drop("layer"):
        layers = table.groupby("layer")[name].mean()
        span = f"layers {layers.min():.2f} ({layers.idxmin()})"
        span += f" to {layers.max():.2f} ({layers.idxmax()})"
        print(f"{name:20} {bootstrap_mean(by_clip[name]).text(digits=2)}  {span}")
    heads = by_clip.filter(like="rank_tas_head")
    best = heads.mean().idxmax()
    difference = bootstrap_mean(heads[best] - by_clip["rank_tas"])
    print("best head less the mean of heads:", difference.text())
    print(by_clip.groupby(by_clip.index.map(pace_of))["cosine"].mean().round(3).to_string())
    draw(table, by_layer)


if __name__ == "__main__":
    main()
