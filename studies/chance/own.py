"""Two rules of our own, made on the tuning scenes: a score from cheap features, and a schedule.

Both rest on how much each layer matters (:func:`worths`).

* **Learned score**: a linear prediction, for each layer, of the relative change of the MLP's output
  from four features (the root of the relative change of an eighth of its input, kept in 4 bits; the
  log of the age of the held output; whether the code that is fed is that of one frame before; a
  constant), times the root of the layer's worth over its mean squared change. One threshold for all
  layers then replays where little is lost. The machine holds a sixteenth of the bytes that the
  whole input in 8 bits takes.
* **Schedule by layer**: the third of the layers that matters most replays in one frame of four, all
  others in two of three. It looks at nothing.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.replay import InputChange
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.structures import Array
from studies.content import EXEMPT, TUNING, rows_of
from studies.record import Archive, Ask
from studies.rules import Chance, Counted, schedule
from studies.whole import Bools, Seen

PART, BITS = 8, 4
MOST_CHANGE = 3.0
"""Larger relative changes count as this in the fit, which a few short outputs would rule."""

OFTEN, RARELY = Fraction(2, 3), Fraction(1, 4)


@dataclass(frozen=True)
class Learned:
    """Minus the predicted harm of a replay.

    Attributes:
        weights: Of the four features, for each layer.
    """

    weights: tuple[tuple[float, ...], ...]

    def score(self, seen: Seen) -> Array:
        """As :class:`~studies.rules.Measure` has it."""
        harm = features(seen) @ np.array(self.weights[seen.layer])
        return -harm.astype(seen.u.dtype)


def features(seen: Seen) -> NDArray[np.float64]:
    """The features of each place, [N, 4]."""
    rule = InputChange(elements=max(1, seen.u.shape[1] // PART), bits=BITS)
    change = -rule.against(seen.u, rule.stored(seen.u_held))
    same = seen.fed == seen.fed_before
    return np.stack([np.ones(len(same)), np.sqrt(change), np.log(seen.age), same], axis=1)


def counts_at(archive: Archive, share: float, layers: Any = slice(None)) -> NDArray[np.int64]:
    """Places that replay, int[T, L]: a share of some layers, exempt ones left out."""
    counts = np.zeros((archive.config.n_frames, archive.n_layers), np.int64)
    counts[1:, layers] = round(share * TOKENS_PER_FRAME)
    counts[:, EXEMPT] = 0
    return counts


def worths(archive: Archive) -> NDArray[np.float64]:
    """Loss over dense where a random half of the places of one layer replays, for each layer."""
    rows = rows_of(TUNING, n_frames=archive.config.n_frames)

    def loss(layers: list[int]) -> float:
        rule = Counted(Chance(0), counts_at(archive, 0.5, layers))
        kept = archive.decode([Ask(rule, row) for row in rows])
        return float(np.mean([each.loss for each in kept]))

    return np.array([loss([layer]) for layer in range(archive.n_layers)]) - loss([])


def learned(archive: Archive) -> Learned:
    """The score, fitted where half of the places replay at random."""
    seen_in: dict[int, list[NDArray[np.float64]]] = {}

    def look(seen: Seen) -> None:
        error, length = (
            np.linalg.norm(each, axis=-1) for each in (seen.fresh - seen.held, seen.fresh)
        )
        change = np.minimum(error / np.maximum(length, 1e-9), MOST_CHANGE)
        seen_in.setdefault(seen.layer, []).append(np.column_stack([features(seen), change]))

    rule = Counted(Chance(0), counts_at(archive, 0.5))
    for row in rows_of(TUNING, n_frames=archive.config.n_frames):
        archive.decoder.decode(rule, row.prompt, row.codes, look=look)
    weights = []
    for layer, worth in enumerate(worths(archive)):
        table = np.concatenate(seen_in[layer])
        matters = np.sqrt(max(worth, 0.0) / np.mean(table[:, -1] ** 2))
        fitted, *_ = np.linalg.lstsq(table[:, :-1], table[:, -1] * matters, rcond=None)
        weights.append(tuple(fitted.round(6).tolist()))
    return Learned(tuple(weights))


def by_layer(archive: Archive) -> Bools:
    """The schedule, bool[S, L]."""
    found = worths(archive)
    free = [layer for layer in np.argsort(found) if layer not in EXEMPT]
    rare = free[-max(1, round(len(free) / 3)) :]
    decisions = schedule(archive.config, OFTEN)
    decisions[:, rare] = schedule(archive.config, RARELY)[:, rare]
    return decisions
