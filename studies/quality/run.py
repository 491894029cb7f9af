"""What replay costs in the quality of generated clips: what the shipped traces measured.

    python -m studies.quality.run

Five traces of the same eight clips, seeds and noise, each at its own tau, hold their quality clip
by clip beside dense decoding's own (``quality`` in their recipes). This gathers it: ``cells.csv``
has a row for each clip and trace, ``quality.csv`` the means, as sweeps read them
(:mod:`carsim.explore.quality`), ``quality.png`` draws both.
"""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from carsim import load_trace
from carsim.base.statistics import bootstrap_mean
from carsim.decisions.trace import Trace
from carsim.report.figures import style as plots

FOLDER = Path(__file__).parent
TRACES = FOLDER.parents[1] / "traces"
NAMES = ("vilau_8f_r20", "vilau_8f_r30", "vilau_8f", "vilau_8f_r60", "vilau_8f_r80")
SAMPLING = "top_k"
MEASURES = {
    "loss": ("teacher_forced_nats", "teacher_forced_dense_nats"),
    "clip_nats": ("clip_nats", "dense_clip_nats"),
    "psnr_db": ("true_psnr_db", "dense_true_psnr_db"),
    "ssim": ("true_ssim", "dense_true_ssim"),
}
"""Measure -> its column, and that of dense decoding."""


def cells_of(trace: Trace) -> pd.DataFrame:
    """A row for each measured clip of a trace.

    Args:
        trace: With quality, whose clips are guidance pairs in the order of its rows.
    """
    quality = trace.meta.quality
    assert quality is not None
    (drawn,) = (each for each in quality.by_sampling if each.sampling == SAMPLING)
    (tau,) = {tau for tau in trace.meta.tau_per_layer if tau is not None and tau < float("inf")}
    eligible = trace.replay[trace.tokens_per_frame :]
    figures = {
        "loss": quality.teacher_forced_nats,
        "clip_nats": drawn.clip_nats,
        "psnr_db": drawn.psnr_db,
        "ssim": drawn.ssim,
    }
    rows = []
    for clip in range(quality.n_clips):
        row = {
            "frames": trace.n_frames,
            "scope": "row",
            "window": 0,
            "sampling": SAMPLING,
            "tau": tau,
            "clip": clip,
            "replay_eligible": eligible[..., 2 * clip : 2 * clip + 2].mean(),
        }
        for name, (own, dense) in MEASURES.items():
            row |= {own: figures[name].own[clip], dense: figures[name].dense[clip]}
        rows.append(row | {"token_agreement": drawn.token_agreement[clip]})
    return pd.DataFrame(rows)


def means_of(cells: pd.DataFrame) -> pd.DataFrame:
    """Means over clips, and the loss over dense with its interval of 95 % over clips."""
    keys = ["frames", "scope", "window", "sampling", "tau"]
    means = cells.drop(columns="clip").groupby(keys, sort=False).mean().reset_index()
    over = (cells["teacher_forced_nats"] - cells["teacher_forced_dense_nats"]).groupby(cells["tau"])
    found = {tau: bootstrap_mean(part.to_numpy()) for tau, part in over}
    return means.assign(
        loss_low=[found[tau].low for tau in means["tau"]],
        loss_high=[found[tau].high for tau in means["tau"]],
        n_clips=cells["clip"].nunique(),
    )


def draw(axes: Axes, cells: pd.DataFrame, own: str, dense: str, label: str) -> None:
    """A measure less that of dense decoding, over the replay ratio."""
    difference = (cells[own] - cells[dense]).groupby(cells["tau"])
    ratio = cells.groupby("tau")["replay_eligible"].mean()
    found = difference.apply(lambda values: bootstrap_mean(values.to_numpy()))
    spread = [[each.mean - each.low for each in found], [each.high - each.mean for each in found]]
    for _, clip in cells.groupby("clip"):
        over = clip[own] - clip[dense]
        axes.plot(clip["replay_eligible"], over, color=plots.LIGHT_GREY, zorder=0)
    means = [each.mean for each in found]
    axes.errorbar(ratio, means, spread, fmt="o", color=plots.BLUE, capsize=2)
    axes.axhline(0, color=plots.GREY, linewidth=0.8)
    axes.set(xlabel="replay ratio of eligible steps", ylabel=label, xlim=(0, 1))


def main() -> None:
    """Gather, write, draw and print."""
    cells = pd.concat([cells_of(load_trace(TRACES / f"{name}.npz")) for name in NAMES])
    means = means_of(cells)
    cells.round(5).to_csv(FOLDER / "cells.csv", index=False)
    means.round(5).to_csv(FOLDER / "quality.csv", index=False)
    print(means.round(3).to_string(index=False))
    with plots.style():
        title = "Generated clips less dense decoding's own; grey: each clip"
        figure = plots.new_figure(12, 3.2, title, misfit=False)
        labels = ("loss, true tokens fed (nats)", "dense's loss on it (nats)", "PSNR (dB)", "SSIM")
        for axes, pair, label in zip(figure.subplots(1, 4), MEASURES.values(), labels, strict=True):
            draw(axes, cells, *pair, label)
        figure.savefig(FOLDER / "quality.png", metadata={"Software": None})


if __name__ == "__main__":
    main()
