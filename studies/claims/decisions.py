"""Tests of claims by what was decoded; ``claims.yaml`` names them with their arguments."""

import numpy as np
import pandas as pd

from carsim import load_trace
from carsim.base.statistics import bootstrap_mean
from studies.claims.machines import percent
from studies.claims.tables import Finding, decide, row_of, table


def cosine() -> Finding:
    """Every layer's mean cosine of neighbouring outputs is 0.4 or more."""
    layers = table("chance/layers")
    found = bootstrap_mean(layers.groupby("clip")["cosine"].mean().to_numpy())
    by_layer = layers.groupby("layer")["cosine"].mean()
    ends = f"layers {by_layer.min():.2f} to {by_layer.max():.2f}"
    return Finding(f"{found.text(digits=2)}; {ends}", bool(by_layer.min() >= 0.4))


def positive(name: str, column: str, beside: str, less: str = "") -> Finding:
    """A mean over scenes is positive.

    Args:
        name: Table with columns ``clip`` and ``layer``.
        column: Quantity.
        beside: Another, for comparison.
        less: A quantity that is taken from the first.
    """
    clips = table(name).groupby("clip").mean(numeric_only=True)
    values = clips[column] - (clips[less] if less else 0)
    found, other = (bootstrap_mean(each.to_numpy()) for each in (values, clips[beside]))
    label = f"{column} less {less}" if less else column
    agrees = decide(found, 0.0)
    text = f"{label} {found.text()}; {beside} {other.text()}"
    return Finding(text, None if agrees is None else not agrees)


def theorem_holds() -> Finding:
    """Fewer than 1 % of held-out changes are beyond the bound whose constants others gave."""
    bound = table("claims/bound")
    violated, slack = bound["violated"].mean(), bound["slack"].median()
    text = f"{percent(violated, 2)} beyond; the bound is {slack:.1f} times the change (median)"
    return Finding(text, bool(violated < 0.01))


def one_tau() -> Finding:
    """One tau for all layers loses less than a tau per layer, at about equal ratio."""
    cells = table("chance/cells").query("share == 0.5 and kind == 'own'")
    one, each = (
        cells[cells["rule"] == rule].set_index("clip") for rule in ("TAS", "TAS, a tau per layer")
    )
    found = bootstrap_mean((one["excess"] - each["excess"]).to_numpy())
    texts = [f"{way['excess'].mean():.3f} at {percent(way['ratio'].mean())}" for way in (one, each)]
    chance = row_of(table("chance/chance"), {"rule": "chance", "share": 0.5})["excess"]
    text = f"one {texts[0]}, per layer {texts[1]}, random places {chance:.3f}"
    return Finding(f"{text}; one less per layer {found.text(' nats')}", decide(found, 0.0))


def middle_layers() -> Finding:
    """The middle third of layers 1 to 31 replays less than the outer thirds."""
    trace = load_trace("vilau_8f")
    replay = trace.replay[trace.meta.tokens_per_frame :].mean(axis=0)  # [L, R]
    thirds = replay[1:11], replay[11:22], replay[22:]
    rows = thirds[1].mean(axis=0) - np.concatenate(thirds[::2]).mean(axis=0)
    found = bootstrap_mean(rows.reshape(-1, 2).mean(axis=1))  # a guidance pair is a clip
    text = ", ".join(percent(part.mean()) for part in thirds)
    return Finding(f"{text} by third; middle less outer {found.text()}", decide(found, 0.0))


def windows(first: tuple[int, float], second: tuple[int, float]) -> Finding:
    """The first loses less than the second, paired over scenes.

    Args:
        first: Window (0: none) and aimed replay ratio; so is ``second``.
        second: The same.
    """
    cells = table("fastcar_sparse/windows_cells")
    clips = cells.groupby(["window", "share", "clip"])["nats"].mean()
    found = bootstrap_mean((clips[tuple(first)] - clips[tuple(second)]).to_numpy())
    rows = table("chance/chance").query("share == @first[1]").set_index("rule")["excess"]
    text = f"difference {found.text(' nats')}"
    if first[1]:
        text += f"; replay loses {rows['TAS']:+.3f}, as many random places {rows['chance']:+.3f}"
    return Finding(text, decide(found, 0.0))


def recovers() -> Finding:
    """Replay takes back most of what a window of 16 loses."""
    rows = table("fastcar_sparse/windows").query("window == 16").set_index("share")
    share = -rows.loc[0.5, "over_window"] / rows.loc[0.0, "over_dense"]
    return Finding(f"{percent(share)} of {rows.loc[0.0, 'over_dense']:.2f} nats", bool(share > 0.5))


def doubles(rule: str = "TAS") -> Finding:
    """The loss less than doubles from the least to the highest replay ratio."""
    rows = table("chance/chance")
    parts = [rows[rows["rule"] == name].set_index("share") for name in (rule, "chance")]
    texts = [
        f"{percent(row['ratio'])}: {row['excess']:+.3f} [{row['excess_low']:.3f}, "
        f"{row['excess_high']:.3f}] (random {parts[1].loc[share, 'excess']:+.3f})"
        for share, row in parts[0].iterrows()
    ]
    loss = parts[0]["excess"]
    return Finding(f"nats over dense at {'; '.join(texts)}", bool(loss.iloc[-1] < 2 * loss.iloc[0]))


def psnr() -> Finding:
    """PSNR against the true clip falls by less than 0.5 dB from 20 to 80 % replay."""
    rows = table("proxy/quality").query("frames == 8 and scope == 'row' and window == 0")
    low, high = rows["true_psnr_db"].iloc[0], rows["true_psnr_db"].iloc[-1]
    text = f"{low:.1f} to {high:.1f} dB; dense {rows['dense_true_psnr_db'].iloc[0]:.1f} dB"
    return Finding(text, bool(low - high < 0.5))


def _taus(exempt: int) -> pd.DataFrame:
    return table("claims/taus").query("exempt == @exempt").set_index("tau")


def taus_saturate(tau: float) -> Finding:
    """At a tau 87 % of all steps replay (no layer exempt), within a point."""
    rows = _taus(0)
    text = ", ".join(f"{at:g}: {percent(ratio, 1)}" for at, ratio in rows["ratio_all"].items())
    return Finding(
        f"share of all steps by tau: {text}", bool(abs(rows.loc[tau, "ratio_all"] - 0.87) < 0.01)
    )


def taus_level(tau: float) -> Finding:
    """Below a tau the loss rises no more: by less than 5 % of what it is at the lowest."""
    rows = _taus(1)
    last = rows["replay"].iloc[-1]
    before = rows["replay"][[at for at in rows.index if at >= tau]].iloc[-1]
    texts = [
        f"{at:g}: {row['replay']:+.3f} (nothing {row['zero']:+.3f}, permuted "
        f"{row['permuted']:+.3f})"
        for at, row in rows.iterrows()
    ]
    return Finding(f"nats over dense by tau: {', '.join(texts)}", bool(last - before < 0.05 * last))


def held_stays(contestant: str, most: float) -> Finding:
    """The tokens that a cache holds grow by at most so much from 8 to 32 frames."""
    row = table("league/quality").set_index("contestant").loc[contestant]
    longer = table("league/longer").query("contestant == @contestant")["held_most"].mean()
    growth = longer * 32 / (row["held_most"] * 8)
    return Finding(
        f"tokens held at 32 over 8 frames: {growth:.2f} (all tokens: 4)", bool(growth <= most)
    )
