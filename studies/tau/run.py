"""What a threshold buys and costs: quality against tau, and replay by layer.

    python -m studies.tau.run

Reads ``studies/quality/quality.csv`` and the shipped traces of three thresholds; decodes nothing.
Writes ``tau.csv``, ``layers.csv``, ``clips.csv``, ``paper_taus.csv`` and ``tau.png``.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.report.figures import style as plots
from carsim.trace import Trace, load_trace
from studies.decisions.content import FIRST_LAYER, N_FRAMES, ROOT
from studies.decisions.ranks import spearman

HERE = Path(__file__).parent
QUALITY = ROOT / "studies/quality/quality.csv"
TRACES = ("vilau_8f_r20", "vilau_8f", "vilau_8f_r80")
PAPER_TAUS = (0.0, -0.5, -1.0, -2.0, -2.5, -4.0, -8.0)


def own_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Of the measured quality: each row alone, full attention; ``excess`` is loss over dense."""
    chosen = (table["frames"] == N_FRAMES) & (table["scope"] == "row") & (table["window"] == 0)
    part = table[chosen].sort_values("replay_eligible")
    return part.assign(excess=part["teacher_forced_nats"] - part["teacher_forced_dense_nats"])


def by_layer(traces: dict[str, Trace]) -> pd.DataFrame:
    """Replay ratio of eligible steps, a column a trace."""
    return pd.DataFrame(
        {
            name: trace.replay[trace.tokens_per_frame :].mean(axis=(0, 2))
            for name, trace in traces.items()
        }
    ).rename_axis("layer")


def by_clip(trace: Trace) -> pd.DataFrame:
    """Speed and replay ratio of eligible steps of each clip."""
    ratio = trace.replay[trace.tokens_per_frame :].mean(axis=(0, 1))
    table = pd.DataFrame(trace.meta.content["clips"])
    return table.assign(
        ratio_eligible=[ratio[list(pair)].mean() for pair in trace.meta.guidance_pairs]
    )


def draw_quality(axes: Axes, table: pd.DataFrame, measure: str, label: str) -> None:
    """A measure of generated clips over the ratio, a line for each sampling."""
    replaying = table[table["replay_eligible"] > 0]
    for (sampling, part), colour in zip(
        replaying.groupby("sampling"), (plots.BLUE, plots.ORANGE), strict=False
    ):
        axes.plot(part["replay_eligible"], part[measure], "o-", ms=3, color=colour, label=sampling)
    axes.set(xlabel="replay ratio, eligible steps", ylabel=label, xlim=(0, 1))
    axes.legend(loc="best")


def draw_loss(axes: Axes, table: pd.DataFrame) -> None:
    """Teacher-forced loss over dense against the threshold; ratios beside the points."""
    part = table[np.isfinite(table["tau"])].drop_duplicates("tau").sort_values("tau")
    axes.plot(part["tau"], part["excess"], "o-", ms=3, color=plots.BLACK)
    for _, row in part.iterrows():
        axes.annotate(
            f"{row['replay_eligible']:.0%}",
            (row["tau"], row["excess"]),
            xytext=(-4, 4),
            textcoords="offset points",
            ha="right",
        )
    axes.invert_xaxis()
    axes.set(xlabel="tau (falling)", ylabel="loss over dense, nats a token")


def draw_layers(axes: Axes, layers: pd.DataFrame) -> None:
    """Replay ratio by layer, a line for each trace."""
    for name, style in zip(layers, (":", "-", "--"), strict=True):
        axes.plot(layers[name], style, color=plots.BLUE, label=name)
    axes.set(xlabel="layer", ylabel="replay ratio, eligible steps", ylim=(0, 1))
    axes.legend(loc="best", fontsize=7)


def main() -> None:
    """Write tables and figure."""
    quality = own_rows(pd.read_csv(QUALITY))
    traces = {name: load_trace(ROOT / f"traces/{name}.npz") for name in TRACES}
    layers, clips = by_layer(traces), by_clip(traces["vilau_8f"])
    scores = traces["vilau_8f"].tas[TOKENS_PER_FRAME:, FIRST_LAYER:].astype(np.float64)
    at_paper = pd.DataFrame(
        {"tau": PAPER_TAUS, "share": [(scores > tau).mean() for tau in PAPER_TAUS]}
    )
    kept = ["sampling", "tau", "replay_eligible", "psnr_db", "ssim", "token_agreement", "excess"]
    quality[kept].round(4).to_csv(HERE / "tau.csv", index=False)
    layers.round(4).to_csv(HERE / "layers.csv")
    clips.round(4).to_csv(HERE / "clips.csv", index=False)
    at_paper.round(4).to_csv(HERE / "paper_taus.csv", index=False)
    with plots.style():
        figure = plots.new_figure(12, 3.6, "Replay by threshold, closed loop", misfit=False)
        left, middle, right = figure.subplots(1, 3)
        draw_loss(left, quality)
        draw_quality(middle, quality, "psnr_db", "PSNR against dense, dB")
        draw_layers(right, layers)
        figure.savefig(HERE / "tau.png", metadata={"Software": None})
    print(quality[kept].to_string(), at_paper.round(3).to_string(), sep="\n\n", end="\n\n")
    print(layers.round(2).T.to_string())
    thirds = layers.loc[3:].groupby(pd.cut(layers.loc[3:].index, [2, 11, 21, 31]), observed=True)
    print(thirds.mean().round(3).to_string(), end="\n\n")
    print(clips[["photo", "motion", "speed", "ratio_eligible"]].round(3).to_string())
    print("rank correlation of speed and ratio", spearman(clips["speed"], clips["ratio_eligible"]))


if __name__ == "__main__":
    main()
