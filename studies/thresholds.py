"""Thresholds for a wanted replay ratio, found closed-loop on scenes that nothing is measured on."""

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.content import TOKENS_PER_FRAME
from studies.content import EXEMPT, TUNING, rows_of
from studies.record import Archive, Ask
from studies.rules import Measure, Threshold

_CLOSE, _MOST_TRIES = 0.004, 7


def dense_scores(archive: Archive, measure: Measure) -> NDArray[np.float32]:
    """Scores of the tuning scenes where nothing replays, [places, L]; frame 0 left out."""
    rows = rows_of(TUNING, n_frames=archive.config.n_frames)
    kept = archive.decode([Ask(Threshold(measure, np.inf), row) for row in rows])
    return np.concatenate([each.score[TOKENS_PER_FRAME:] for each in kept])


def one_tau(archive: Archive, measure: Measure, share: float) -> Threshold:
    """One threshold for all layers but the exempt, at which so many eligible steps replay.

    Bisection over quantiles of the dense scores, as replaying changes the scores.

    Args:
        archive: Decodes.
        measure: The score.
        share: Of the eligible steps of the layers that are not exempt.
    """
    rows = rows_of(TUNING, n_frames=archive.config.n_frames)
    free = [layer for layer in range(archive.n_layers) if layer not in EXEMPT]
    scores = dense_scores(archive, measure)[:, free]
    low, high, guess = 0.0, 1.0, share
    for _ in range(_MOST_TRIES):
        tau = round(float(np.quantile(scores, 1 - guess)), 4)
        rule = Threshold.of_all(measure, [tau] * archive.n_layers)
        kept = archive.decode([Ask(rule, row) for row in rows])
        got = float(np.mean([each.replay[TOKENS_PER_FRAME:, free].mean() for each in kept]))
        if abs(got - share) < _CLOSE:
            break
        low, high = (guess, high) if got < share else (low, guess)
        # Replays beget replays or not: aim by the ratio of what was got, within what is known.
        aimed = guess * share / max(got, 1e-3)
        guess = aimed if low < aimed < high else (low + high) / 2
    return rule


def equal_shares(archive: Archive, measure: Measure, share: float) -> Threshold:
    """A threshold per layer, at which each replays the same share of its dense scores."""
    scores = dense_scores(archive, measure)
    taus = np.quantile(scores, 1 - share, axis=0)
    return Threshold.of_all(measure, [round(float(tau), 4) for tau in taus])
