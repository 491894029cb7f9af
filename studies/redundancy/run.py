"""How alike are the MLP outputs of neighbouring frames, by layer and by speed of content?

    python -m studies.redundancy.run

Eight clips of 8 frames are decoded densely with their true codes. Writes ``cosine.csv`` (a row
for each layer and clip) and ``cosine.png``, and prints what the README quotes.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from carsim.report.figures import style as plots
from studies.decisions.content import CALIBRATING, CLIPS, FAST, SLOW, rows_of
from studies.decisions.ranks import over_clips
from studies.decisions.record import Archive, Observed

HERE = Path(__file__).parent
PAPER = (0.4, 0.8)
"""Cosines of FastCar's Figure 2 (and above)."""


def by_layer_and_clip(seen: Observed, clips: tuple[int, ...]) -> pd.DataFrame:
    """Cosine and relative change of the MLP output, for each layer and clip.

    Args:
        seen: One row per clip.
        clips: Their numbers.
    """
    rows = []
    for index, number in enumerate(clips):
        clip = CLIPS[number]
        for layer, values in enumerate(seen.mlp_cosine[index]):
            low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
            length = seen.mlp_length[index, layer].mean()
            rows.append(
                {
                    "layer": layer,
                    "clip": number,
                    "photo": clip.photo,
                    "motion": clip.motion if clip.speed else "still",
                    "speed": clip.speed,
                    "cosine": values.mean(),
                    "cosine_q10": low,
                    "cosine_median": middle,
                    "cosine_q90": high,
                    "relative_change": seen.mlp_change[index, layer].mean() / length,
                }
            )
    return pd.DataFrame(rows)


def pace(speed: float) -> str:
    """Name of a speed's group."""
    return "slow" if speed <= SLOW else "fast" if speed >= FAST else "between"


def draw_layers(axes: Axes, table: pd.DataFrame) -> None:
    """Mean by layer, with the range of clips, and what the paper found."""
    layers = table.groupby("layer")
    axes.axhspan(*PAPER, color=plots.LIGHT_GREY, alpha=0.6, label="FastCar, most layers")
    axes.fill_between(
        layers.groups.keys(),
        layers["cosine_q10"].mean(),
        layers["cosine_q90"].mean(),
        color=plots.SKY,
        alpha=0.35,
        linewidth=0,
        label="tenth to ninetieth percentile of places",
    )
    axes.plot(layers["cosine"].mean(), color=plots.BLUE, label="mean")
    axes.set(xlabel="layer", ylabel="cosine to the frame before", ylim=(None, 1.0))
    axes.legend(loc="lower left")


def draw_speeds(axes: Axes, table: pd.DataFrame) -> None:
    """Mean by layer for slow and fast content."""
    colours = {"slow": plots.BLUE, "between": plots.GREEN, "fast": plots.VERMILION}
    labels = {
        "slow": f"{SLOW:g} px a frame and less",
        "between": "between",
        "fast": f"{FAST:g} px a frame and more",
    }
    for name, part in table.groupby("pace"):
        clips = part.pivot(index="layer", columns="clip", values="cosine")
        axes.plot(clips, color=colours[name], alpha=0.25, linewidth=0.8)
        axes.plot(clips.mean(axis=1), color=colours[name], linewidth=2, label=labels[name])
    axes.set(xlabel="layer", ylabel="cosine to the frame before", ylim=(None, 1.0))
    axes.legend(loc="lower right")


def main() -> None:
    """Write the table and the figure."""
    archive = Archive()
    rows = rows_of(CALIBRATING, blank=False)
    table = by_layer_and_clip(archive.observed(rows), CALIBRATING)
    table.round(4).to_csv(HERE / "cosine.csv", index=False)
    table["pace"] = table["speed"].map(pace)
    with plots.style():
        figure = plots.new_figure(
            10, 3.8, "MLP outputs of neighbouring frames, dense decoding", misfit=False
        )
        left, right = figure.subplots(1, 2, sharey=True)
        draw_layers(left, table)
        draw_speeds(right, table)
        figure.savefig(HERE / "cosine.png", metadata={"Software": None})
    layers = table.groupby("layer")["cosine"].mean()
    print(f"cosine by layer: {layers.min():.3f} (layer {layers.idxmin()}) to {layers.max():.3f}")
    print(f"(layer {layers.idxmax()}), mean {layers.mean():.3f}")
    print(f"layers of at least {PAPER[0]}: {(layers >= PAPER[0]).mean():.3f}")
    print(table.groupby("pace")["relative_change"].mean().round(3).to_string())
    for name, part in table.groupby("pace"):
        mean, half = over_clips(part.groupby("clip")["cosine"].mean())
        print(f"{name}: {mean:.3f} +- {half:.3f} over clips")
    thirds = table.assign(third=table["layer"] // 11).groupby(["pace", "third"])["cosine"].mean()
    print(thirds.round(3).unstack().to_string())


if __name__ == "__main__":
    main()
