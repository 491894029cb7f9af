"""What MLPs are worth in a model, and what replaying their outputs is worth: one row of figures.

Scenes of 8 frames, true codes fed. Layer 0 is exempt everywhere. Losses are nats per token of
frames 1 to 7 over dense decoding of the same scene:

* ``worth``: MLPs of all other layers add nothing in frames 1 to 7; ``worth_all`` in frame 0 and the
  prompt, too;
* ``random_*``: half of the eligible places, drawn at random: nothing is added (``zero``), the held
  output is replayed (``replay``), or half of it (``half``, halved again at each replay);
* ``tas_*``: the places at which TAS replays at a threshold for one half, found on tuning scenes:
  its replay, and at the same places nothing and half; ``tas_ratio`` is the share that replays, and
  ``tas_again`` the probability that a place that replayed replays in the next frame, too;
  ``tas_spread`` the difference in that share between the layers that replay most and least;
* ``even_*``: the same with a threshold for each layer, at which each replays one half of its scores
  in dense decoding;
* ``permuted``: TAS's decisions with the places permuted in each layer (equal counts and ages);
  ``permuted_clip`` with one permutation for all layers;
* ``redrawn``: TAS's counts at places drawn anew in each frame, so that ages are shorter;
* ``change``: TAS's counts at the places where the MLP's input changed least;
* ``periodic``: (layer + frame) odd.
"""

from dataclasses import replace as with_other
from typing import Any

import numpy as np
import pandas as pd

from carsim.base.statistics import bootstrap_mean
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.model import DecoderModel
from studies.content import TUNING, rows_of
from studies.record import Archive, Ask, Kept
from studies.rules import (
    Chance,
    ChangeScore,
    Counted,
    Damped,
    Given,
    Periodic,
    TasScore,
    counts_of,
    permuted,
)
from studies.thresholds import equal_shares, one_tau
from studies.whole import Bools, Rule, Seen

EXEMPT = (0,)
SHARE = 0.5


def losses(archive: Archive, clips: tuple[str, ...], seed: int = 0) -> pd.DataFrame:
    """A row for each scene and a column for each way to replace MLP outputs, nats over dense."""
    rows = rows_of(clips, n_frames=archive.config.n_frames)
    dense = archive.decode([Ask(None, row) for row in rows], "dense")
    table: dict[str, Any] = {"clip": list(clips), "dense": [each.loss for each in dense]}

    def book(name: str, rules: list[Rule]) -> list[Kept]:
        asked = [Ask(rule, row) for rule, row in zip(rules, rows, strict=True)]
        kept = archive.decode(asked, name)
        table[name] = [each.loss - own.loss for each, own in zip(kept, dense, strict=True)]
        return kept

    shape = dense[0].replay.shape
    later = np.arange(shape[0]) >= TOKENS_PER_FRAME
    eligible = later[:, None] & (np.arange(shape[1]) > 0)
    book("worth", [Damped(Given(eligible), 0.0)] * len(rows))
    drawn = [Given(eligible & _half(shape, seed, number)) for number in range(len(rows))]
    book("random_zero", [Damped(each, 0.0) for each in drawn])
    book("random_half", [Damped(each, 0.5) for each in drawn])
    book("random_replay", list(drawn))
    rule = one_tau(archive, TasScore(), SHARE, EXEMPT)
    kept = book("tas_replay", [rule] * len(rows))
    table["tas_ratio"] = [each.replay[later][:, 1:].mean() for each in kept]
    table["tas_again"] = [_again(each.replay) for each in kept]
    table["tas_spread"] = [_spread(each.replay[later][:, 1:]) for each in kept]
    places = [Given(each.replay) for each in kept]
    book("tas_zero", [Damped(each, 0.0) for each in places])
    book("tas_half", [Damped(each, 0.5) for each in places])
    others = [permuted(each.replay, TOKENS_PER_FRAME, seed) for each in kept]
    book("permuted", [Given(each) for each in others])
    alike = [permuted(each.replay, TOKENS_PER_FRAME, seed, per_layer=False) for each in kept]
    book("permuted_clip", [Given(each) for each in alike])
    counts = [counts_of(each.replay, TOKENS_PER_FRAME) for each in kept]
    book("redrawn", [Counted(Chance(seed), each) for each in counts])
    book("change", [Counted(ChangeScore(), each) for each in counts])
    book("periodic", [Periodic(EXEMPT)] * len(rows))
    even = equal_shares(archive, TasScore(), SHARE, EXEMPT)
    kept = book("even_replay", [even] * len(rows))
    table["even_ratio"] = [each.replay[later][:, 1:].mean() for each in kept]
    book("even_zero", [Damped(Given(each.replay), 0.0) for each in kept])
    bare = with_other(archive.model, arrays=_without_mlps(archive.model))
    other = Archive(bare, archive.folder, archive.config.n_frames, workers=1)
    zeroed = other.decode([Ask(None, row) for row in rows], "no MLP at all")
    table["worth_all"] = [each.loss - own.loss for each, own in zip(zeroed, dense, strict=True)]
    return pd.DataFrame(table)


def _half(shape: tuple[int, ...], seed: int, number: int) -> Bools:
    half: Bools = np.random.default_rng([seed, 5, number]).random(shape) < 0.5
    return half


def _spread(replay: Bools) -> float:
    """Difference between the layers that replay most and least, shares of their steps."""
    shares = replay.mean(axis=0)
    return float(shares.max() - shares.min())


def _again(replay: Bools) -> float:
    """Probability that a place that replayed replays in the next frame, too."""
    frames = replay.reshape(-1, TOKENS_PER_FRAME, replay.shape[1])
    return float(frames[1:][frames[:-1]].mean()) if frames[:-1].any() else 0.0


def _without_mlps(model: DecoderModel) -> dict[str, Any]:
    down = model.arrays["w_down"].copy()
    down[1:] = 0
    return model.arrays | {"w_down": down}


def likeness(archive: Archive, clips: tuple[str, ...]) -> pd.DataFrame:
    """Cosine and relative error at age 1 of MLP outputs, dense decoding: a row for each layer."""
    found: dict[int, list[tuple[float, float]]] = {}

    def look(seen: Seen) -> None:
        error = np.linalg.norm(seen.fresh - seen.held, axis=-1)
        fresh, held = (np.linalg.norm(each, axis=-1) for each in (seen.fresh, seen.held))
        cosine = (seen.fresh * seen.held).sum(-1) / np.maximum(fresh * held, 1e-30)
        figures = float(cosine.mean()), float((error / np.maximum(fresh, 1e-30)).mean())
        found.setdefault(seen.layer, []).append(figures)

    for row in rows_of(clips, n_frames=archive.config.n_frames):
        archive.decoder.decode(None, row.prompt, row.codes, look=look)
    means = {layer: np.mean(each, axis=0) for layer, each in found.items()}
    return pd.DataFrame(
        [{"layer": layer, "cosine": m[0], "error_age_1": m[1]} for layer, m in means.items()]
    )


def measure(archive: Archive, clips: tuple[str, ...] = TUNING) -> dict[str, float]:
    """One row: means over scenes, differences that matter with intervals, cosine by layer."""
    table, layers = losses(archive, clips), likeness(archive, clips)
    row = {name: float(values.mean()) for name, values in table.drop(columns="clip").items()}
    for name, one, other in (
        ("zero_less_replay", "tas_zero", "tas_replay"),
        ("even_zero_less_replay", "even_zero", "even_replay"),
        ("permuted_less_tas", "permuted", "tas_replay"),
    ):
        found = bootstrap_mean((table[one] - table[other]).to_numpy())
        row |= {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
    row |= {f"cosine_{each.layer}": each.cosine for each in layers.itertuples()}
    row["cosine"] = float(layers["cosine"].mean())
    row["error_age_1"] = float(layers["error_age_1"][1:].mean())
    return row
