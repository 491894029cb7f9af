"""Losses of replay on true tokens, gathered from the shipped traces.

    python -m studies.proxy.quality

Five traces of the same eight clips, seeds and noise, each at its own tau, hold their quality clip
by clip beside dense decoding's own (``quality`` in their recipes). Writes their means over clips to
``quality.csv``, which other studies join to their points (:mod:`studies.measured`).
"""

from pathlib import Path

import pandas as pd

from carsim import load_trace
from carsim.base.statistics import bootstrap_mean
from carsim.decisions.trace import Trace
from studies.content import ROOT

NAMES = ("vilau_8f_r20", "vilau_8f_r30", "vilau_8f", "vilau_8f_r60", "vilau_8f_r80")
SAMPLING = "top_k"


def cells_of(trace: Trace) -> pd.DataFrame:
    """A row for each measured clip of a trace.

    Args:
        trace: With quality, whose clips are guidance pairs in the order of its rows.
    """
    quality = trace.meta.quality
    assert quality is not None
    losses = quality.teacher_forced_nats
    (tau,) = {tau for tau in trace.meta.tau_per_layer if tau is not None and tau < float("inf")}
    eligible = trace.replay[trace.tokens_per_frame :]
    same = {"frames": trace.n_frames, "scope": "row", "window": 0, "sampling": SAMPLING, "tau": tau}
    return pd.DataFrame(
        same
        | {
            "clip": clip,
            "replay_eligible": eligible[..., 2 * clip : 2 * clip + 2].mean(),
            "teacher_forced_nats": losses.own[clip],
            "teacher_forced_dense_nats": losses.dense[clip],
        }
        for clip in range(quality.n_clips)
    )


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


def main() -> None:
    """Gather, write and print."""
    traces = (load_trace(ROOT / f"traces/{name}.npz") for name in NAMES)
    means = means_of(pd.concat([cells_of(trace) for trace in traces]))
    means.round(5).to_csv(Path(__file__).with_name("quality.csv"), index=False)
    print(means.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
