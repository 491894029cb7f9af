"""Search for the threshold that gives a wanted replay ratio, closed loop.

Model: fixed-point iteration. Decoding at one tau gives scores, and the tau that would give the
ratio on these scores is the next; a replay changes later scores only a little, so that few
decodings are needed.
"""

from dataclasses import dataclass
from math import inf, isfinite, nan
from pathlib import Path

import numpy as np

from carsim.base.errors import InputError
from carsim.decisions.attention.base import Array
from carsim.decisions.trace import Trace, replay_ratio
from carsim.decoder.capture import capture
from carsim.decoder.recipe import Recipe
from carsim.decoder.workers import Progress

TOLERANCE = 0.005
_MOST_DECODINGS = 6
_HALVINGS = 30


@dataclass(frozen=True)
class FoundTau:
    """A threshold and the replay ratio that it gives.

    Attributes:
        tau: One threshold for all layers but exempt ones, rounded to four decimals.
        ratio: Replay ratio over eligible steps at that tau, closed loop.
        decodings: Number of decodings that the search took.
    """

    tau: float
    ratio: float
    decodings: int


def calibrate(
    recipe: Recipe,
    folder: Path,
    target: float,
    *,
    workers: int = 2,
    progress: Progress | None = None,
) -> FoundTau:
    """Search the tau of a recipe.

    Args:
        recipe: Its own tau is where the search begins, if it is one number.
        folder: Where the recipe's files are.
        target: Replay ratio wanted over eligible steps, between 0 and 1.
        workers: Processes.
        progress: Called with the progress of each decoding.

    Returns:
        The tau nearest to the target, after at most six decodings.

    Raises:
        InputError: The target is not between 0 and what layers that are not exempt can reach, or
            there is only one frame.
    """
    if not 0 < target < 1:
        problem = f"expected a share of steps between 0 and 1, got {target!r}"
        raise InputError("replay ratio", problem, "give 0.5 for half of them")
    best = np.full((recipe.n_frames, recipe.decoded.n_layers, recipe.n_rows), inf)
    best[0] = nan
    most = _ratio(recipe, best, -inf, 1)
    if target >= most:
        raise InputError("replay ratio", f"{target:g}, at most {most:g} can be reached", "ask less")
    tau = inf
    if isinstance(recipe.tau, float) and isfinite(recipe.tau):
        tau = recipe.tau
    tried: list[tuple[float, float, float]] = []  # distance to the target, tau, ratio
    for _ in range(_MOST_DECODINGS):
        tried_recipe = recipe.model_copy(update={"tau": tau, "quality": None})
        trace = capture(tried_recipe, folder, workers=workers, progress=progress)
        per_frame = trace.tokens_per_frame
        _, ratio = replay_ratio(trace.replay, per_frame)
        tried.append((abs(ratio - target), tau, ratio))
        if abs(ratio - target) <= TOLERANCE:
            break
        tau = round(_open_loop_tau(recipe, trace, target), 4)
    _, tau, ratio = min(tried)
    return FoundTau(tau, ratio, len(tried))


def _open_loop_tau(recipe: Recipe, trace: Trace, target: float) -> float:
    """The tau that gives a replay ratio on the scores of a trace, by bisection."""
    per_frame = trace.tokens_per_frame
    scores = trace.tas[per_frame:]  # the first frame has none
    low = float(np.min(scores))
    high = float(np.max(scores))
    tau = (low + high) / 2
    for _ in range(_HALVINGS):
        tau = (low + high) / 2
        if _ratio(recipe, trace.tas, tau, per_frame) > target:
            low = tau
        else:
            high = tau
    return tau


def _ratio(recipe: Recipe, tas: Array, tau: float, tokens_per_frame: int) -> float:
    """Replay ratio over eligible steps of scores [S, L, B] at one tau, open loop."""
    policy = recipe.model_copy(update={"tau": tau}).policy
    return replay_ratio(policy.decide_all(tas, tokens_per_frame), tokens_per_frame)[1]
