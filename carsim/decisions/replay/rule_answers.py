"""Checks of what a rule of replay from outside answers; see :mod:`carsim.base.answers`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.answers import Check
from carsim.decisions.replay.base import ReplayRule
from carsim.decisions.replay.seen import Seen
from carsim.decisions.replay.shapes import MachineShape, RuleWork
from carsim.decisions.replay.tracked import bare


def _score(
    answer: NDArray[Any], rule: ReplayRule, state: Any, layer: int, place: int, seen: Seen
) -> str:
    """Problem of scores: another number than rows, or no finite numbers; or none."""
    scores = np.asarray(bare(answer))  # the contract hands out arrays that refuse conversions
    rows = seen.n_rows
    if scores.shape != (rows,):
        return f"gives scores of shape {scores.shape} for {rows} rows"
    if scores.dtype.kind not in "fiu" or not np.isfinite(scores).all():
        return "gives a score that is no finite number"
    return ""


def _work(answer: RuleWork, rule: ReplayRule, shape: MachineShape) -> str:
    """Problem of some work: an amount is no whole number of at least 0; or none."""
    for name, amount in answer._asdict().items():
        if not isinstance(amount, int | np.integer) or amount < 0:
            return f"gives {name} of {amount!r}: a whole number of at least 0 can be"
    return ""


def _key_distance(answer: int, rule: ReplayRule, tokens_per_frame: int) -> str:
    if not isinstance(answer, int | np.integer) or answer < 0:
        return f"gives {answer!r}: a whole number of tokens, 0 or more, can be"
    return ""


def _at_width(answer: ReplayRule, rule: ReplayRule, decoded: int, simulated: int) -> str:
    return "" if isinstance(answer, ReplayRule) else f"gives {type(answer).__name__}, no rule"


CHECKS: Mapping[str, Check] = {
    "score": _score,
    "work": _work,
    "key_distance": _key_distance,
    "at_width": _at_width,
}
"""Method of a rule of replay -> check of its answers."""
