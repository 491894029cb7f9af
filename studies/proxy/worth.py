"""What MLPs are worth in a model, and what replaying their outputs is worth: one row of figures.

Scenes of 8 frames, true codes fed. Layer 0 is exempt everywhere. Losses are nats per token of
frames 1 to 7 over dense decoding of the same scene:

* ``worth``: MLPs of all other layers add nothing in frames 1 to 7;
* ``random_*``: half of the eligible places, drawn at random: nothing is added (``zero``), the held
  output is replayed (``replay``), or half of it (``half``, halved again at each replay);
* ``tas_*``: the places at which TAS replays at a threshold for one half, found on tuning scenes:
  its replay, and at the same places nothing; ``tas_ratio`` is the share that replays;
* ``even_*``: the same with a threshold for each layer, at which each replays one half of its scores
  in dense decoding;
* ``permuted``: TAS's decisions with the places permuted in each layer (equal counts and ages).

``studies.chance.benchmark`` has more rules and baselines.
"""

from typing import Any

import numpy as np
import pandas as pd

from carsim.decoder.content import TOKENS_PER_FRAME
from studies.content import TUNING, rows_of
from studies.record import Archive, Ask, Kept
from studies.rules import Damped, Given, TasScore, permuted
from studies.table import columns
from studies.thresholds import equal_shares, one_tau
from studies.whole import Rule, Seen

SHARE = 0.5


def losses(archive: Archive, clips: tuple[str, ...], seed: int = 0) -> pd.DataFrame:
    """A row for each scene and a column for each way to replace MLP outputs, nats over dense."""
    rows = rows_of(clips, n_frames=archive.config.n_frames)
    dense = archive.decode([Ask(None, row) for row in rows])
    table: dict[str, Any] = {"clip": list(clips), "dense": [each.loss for each in dense]}

    def book(name: str, rules: list[Rule]) -> list[Kept]:
        asked = [Ask(rule, row) for rule, row in zip(rules, rows, strict=True)]
        kept = archive.decode(asked)
        table[name] = [each.loss - own.loss for each, own in zip(kept, dense, strict=True)]
        return kept

    shape = dense[0].replay.shape
    later = np.arange(shape[0]) >= TOKENS_PER_FRAME
    eligible = later[:, None] & (np.arange(shape[1]) > 0)
    book("worth", [Damped(Given(eligible), 0.0)] * len(rows))
    halves = (np.random.default_rng([seed, 5, i]).random(shape) < SHARE for i in range(len(rows)))
    drawn = [Given(eligible & half) for half in halves]
    book("random_zero", [Damped(each, 0.0) for each in drawn])
    book("random_half", [Damped(each, 0.5) for each in drawn])
    book("random_replay", list(drawn))
    rules = {"tas": one_tau(archive, TasScore(), SHARE)}
    rules["even"] = equal_shares(archive, TasScore(), SHARE)
    for name, rule in rules.items():
        kept = book(f"{name}_replay", [rule] * len(rows))
        table[f"{name}_ratio"] = [each.replay[later][:, 1:].mean() for each in kept]
        book(f"{name}_zero", [Damped(Given(each.replay), 0.0) for each in kept])
        if name == "tas":
            others = [permuted(each.replay, TOKENS_PER_FRAME, seed) for each in kept]
            book("permuted", [Given(each) for each in others])
    return pd.DataFrame(table)


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
        row |= columns(name, table[one] - table[other])
    row |= {f"cosine_{each.layer}": each.cosine for each in layers.itertuples()}
    row["cosine"] = float(layers["cosine"].mean())
    row["error_age_1"] = float(layers["error_age_1"][1:].mean())
    return row
