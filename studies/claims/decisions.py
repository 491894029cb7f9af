"""Tests of claims by what was decoded; ``claims.yaml`` names them with their arguments."""

import numpy as np

from carsim import load_trace
from carsim.base.statistics import bootstrap_mean
from studies.claims.draft_map import drawn_maps, summary
from studies.claims.tables import Finding, decide, detectable, table
from studies.table import percent

DRAWN_MAPS = (("drawn, independent", False), ("drawn, alike within blocks", True))
"""Name of drawn queries and keys, and whether those of a block are alike."""


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


# --------------------------------------------------------------------------- looked at


def evolves(least: float) -> Finding:
    """Queries and keys are more like those of the same place one frame before than of others.

    Args:
        least: Least difference of the cosines.
    """
    looked = table("claims/looked")
    texts = []
    verdicts = []
    for name, title in (("q", "queries"), ("k", "keys")):
        same = looked[f"{name}_same_1"]
        other = looked[f"{name}_other_1"]
        found = bootstrap_mean((same - other).to_numpy())
        later = looked[f"{name}_same_4"].mean()
        verdicts.append(decide(found, None, least))
        texts.append(
            f"{title}, same place {same.mean():.2f}, other places {other.mean():.2f}, "
            f"difference {found.text(digits=2)}, same place four frames before {later:.2f}"
        )
    return Finding(f"cosines of {'; '.join(texts)}", joined(verdicts))


def follows_meaning() -> Finding:
    """Queries and keys of places with one code are more alike than those with two codes."""
    looked = table("claims/looked")
    texts = []
    verdicts = []
    for name, title in (("q", "queries"), ("k", "keys")):
        same = looked[f"{name}_same_code"]
        other = looked[f"{name}_other_code"]
        found = bootstrap_mean((same - other).to_numpy())
        agrees = decide(found, None, 0.0)
        verdicts.append(agrees)
        texts.append(
            f"{title}, same code {same.mean():.2f}, other codes {other.mean():.2f}, "
            f"difference {found.text(digits=2)}{detectable(found, agrees)}"
        )
    return Finding(f"cosines of {'; '.join(texts)}", joined(verdicts))


def joined(verdicts: list[bool | None]) -> bool | None:
    """True if all agree, False if one contradicts, else None.

    >>> joined([True, None]), joined([True, False]), joined([True, True])
    (None, False, True)
    """
    if False in verdicts:
        return False
    return None if None in verdicts else True


def stretches(most: float) -> Finding:
    """No MLP of the model stretches a change by more than a factor.

    Args:
        most: The factor.
    """
    looked = table("claims/looked")
    largest = bootstrap_mean(looked["mlp_largest"].to_numpy())
    text = (
        f"largest quotient of a scene {largest.text(digits=1)}, median "
        f"{looked['mlp_median'].mean():.1f}, above {most:g} {percent(looked['mlp_above_1'].mean())}"
    )
    return Finding(text, decide(largest, most, None))


def mask_bound_holds() -> Finding:
    """No error of a draft mask is beyond its bound, on captured and on drawn queries and keys."""
    looked = table("claims/looked")
    beyond = [looked["map_violated"].mean()]
    texts = [f"captured {percent(beyond[0], 2)} beyond"]
    for name, smooth in DRAWN_MAPS:
        found = summary(drawn_maps(smooth))
        beyond.append(found["map_violated"])
        texts.append(
            f"{name} {percent(found['map_violated'], 2)} beyond, bound over error "
            f"{found['map_slack']:.0f}"
        )
    texts[0] += f", bound over error {looked['map_slack'].mean():.0f} (median)"
    return Finding("; ".join(texts), max(beyond) == 0)


def mask_bound_tells() -> Finding:
    """The bound of a mask's error is below the norm of the map, which bounds any mask's error."""
    looked = table("claims/looked")
    above = bootstrap_mean(looked["map_useless"].to_numpy())
    text = f"captured maps whose bound exceeds their own norm {percent(above.mean)}"
    for name, smooth in DRAWN_MAPS:
        text += f"; {name} {percent(summary(drawn_maps(smooth))['map_useless'])}"
    error = bootstrap_mean((looked["map_error"] - looked["map_by_chance"]).to_numpy())
    text += (
        f"; error over norm {looked['map_error'].mean():.2f}, random blocks "
        f"{looked['map_by_chance'].mean():.2f}, difference {error.text(digits=2)}"
    )
    return Finding(text, bool(above.mean < 0.5))


# --------------------------------------------------------------------------- prompts


def few_tokens(most: float) -> Finding:
    """A small share of a caption has 90 % of the attention to a long prompt that repeats it.

    Args:
        most: The share.
    """
    prompts = table("claims/prompts")
    needed = bootstrap_mean(prompts["needed_once"].to_numpy())
    text = (
        f"share of the caption with 90 % of the mass {needed.text()}, of all its copies "
        f"{prompts['needed'].mean():.3f}; 0.9 if all were alike"
    )
    return Finding(text, decide(needed, most, None))


def finds_mass() -> Finding:
    """AnnCA reads tokens with more of the prompt's mass than as many random ones have."""
    prompts = table("claims/prompts")
    found = bootstrap_mean((prompts["mass"] - prompts["read"]).to_numpy())
    agrees = decide(found, None, 0.0)
    text = (
        f"mass on the tokens read {prompts['mass'].mean():.3f}, on as many random ones "
        f"{prompts['read'].mean():.3f}; difference {found.text()}{detectable(found, agrees)}"
    )
    return Finding(text, agrees)


def cheaper_prompt(least: float) -> Finding:
    """AnnCA makes a video faster on some machine, by the reads of decoded scenes.

    Args:
        least: Least ratio of the times.
    """
    seconds = table("claims/prompt_machines").set_index("machine")
    gains = seconds["dense"] / seconds["ann_ca"]
    text = ", ".join(f"{name} {gain:.3f}" for name, gain in gains.items())
    return Finding(f"dense over AnnCA: {text}", bool(gains.max() >= least))
