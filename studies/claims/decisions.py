"""Tests of claims by what was decoded; ``claims.yaml`` names them with their arguments."""

import numpy as np

from carsim import load_trace
from carsim.base.statistics import bootstrap_mean
from studies.claims.tables import Finding, decide, table
from studies.table import percent


def cosine() -> Finding:
    """Every layer's mean cosine of neighbouring outputs is 0.4 or more."""
    layers = table("chance/layers")
    found = bootstrap_mean(layers.groupby("clip")["cosine"].mean().to_numpy())
    by_layer = layers.groupby("layer")["cosine"].mean()
    ends = f"layers {by_layer.min():.2f} to {by_layer.max():.2f}"
    return Finding(f"{found.text(digits=2)}; {ends}", bool(by_layer.min() >= 0.4))


def theorem_holds() -> Finding:
    """Fewer than 1 % of held-out changes are beyond the bound whose constants others gave."""
    bound = table("claims/bound")
    violated, slack = bound["violated"].mean(), bound["slack"].median()
    text = f"{percent(violated, 2)} beyond; the bound is {slack:.1f} times the change (median)"
    return Finding(text, bool(violated < 0.01))


def middle_layers() -> Finding:
    """The middle third of layers 1 to 31 replays less than the outer thirds."""
    trace = load_trace("vilau_8f")
    replay = trace.replay[trace.meta.tokens_per_frame :].mean(axis=0)  # [L, R]
    thirds = replay[1:11], replay[11:22], replay[22:]
    rows = thirds[1].mean(axis=0) - np.concatenate(thirds[::2]).mean(axis=0)
    found = bootstrap_mean(rows.reshape(-1, 2).mean(axis=1))  # a guidance pair is a clip
    text = ", ".join(percent(part.mean()) for part in thirds)
    return Finding(f"{text} by third; middle less outer {found.text()}", decide(found, 0.0, None))
