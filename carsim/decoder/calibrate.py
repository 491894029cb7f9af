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
from carsim.decisions.trace import replay_ratio
from carsim.decoder.capture import capture
from carsim.decoder.recipe import Recipe
from carsim.decoder.workers import Progress
from carsim.program.program import TOKEN

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


def calibrate(  # noqa: PLR0913 - a search, by name
    recipe: Recipe,
    folder: Path,
    target: float,
    *,
    decision: str = TOKEN,
    workers: int = 2,
    progress: Progress | None = None,
) -> FoundTau:
    """Search the tau of one decision of a recipe; other decisions are made as the recipe says.

    Args:
        recipe: Its tau is where the search begins, if it is one number.
        folder: Where the recipe's files are.
        target: Replay ratio wanted over eligible steps, between 0 and 1.
        decision: Name of the decision.
        workers: Processes.
        progress: Called with the progress of each decoding.

    Returns:
        The tau nearest to the target, after at most six decodings.

    Raises:
        InputError: The target is not between 0 and what layers that are not exempt can reach, or
            there is only one frame, or no such decision.
    """
    if decision not in recipe.policy.decisions:
        known = ", ".join(recipe.policy.decisions)
        raise InputError(recipe.name, f"has no decision {decision!r}", f"name one of {known}")
    if not 0 < target < 1:
        problem = f"expected a share of steps between 0 and 1, got {target!r}"
        raise InputError("replay ratio", problem, "give 0.5 for half of them")
    best = np.full((recipe.n_frames, recipe.decoded.n_layers, recipe.n_rows), inf)
    best[0] = nan
    most = _ratio(recipe, best, -inf, tokens_per_frame=1, decision=decision)
    if target >= most:
        raise InputError("replay ratio", f"{target:g}, at most {most:g} can be reached", "ask less")
    tau = inf
    stated = recipe.tau_of(decision)
    if isinstance(stated, float) and isfinite(stated):
        tau = stated
    tried: list[tuple[float, float, float]] = []  # distance to the target, tau, ratio
    for _ in range(_MOST_DECODINGS):
        tried_recipe = recipe.with_tau(tau, decision).model_copy(update={"quality": None})
        trace = capture(tried_recipe, folder, workers=workers, progress=progress)
        per_frame = trace.tokens_per_frame
        scored = trace.scored(decision)
        _, ratio = replay_ratio(scored.replay, per_frame)
        tried.append((abs(ratio - target), tau, ratio))
        if abs(ratio - target) <= TOLERANCE:
            break
        tau = round(_open_loop_tau(recipe, scored.tas, target, per_frame, decision), 4)
    _, tau, ratio = min(tried)
    return FoundTau(tau, ratio, len(tried))


def _open_loop_tau(
    recipe: Recipe, tas: Array, target: float, tokens_per_frame: int, decision: str
) -> float:
    """The tau that gives a replay ratio on scores [S, L, B] of a decision, by bisection."""
    scores = tas[tokens_per_frame:]  # the first frame has none
    low = float(np.min(scores))
    high = float(np.max(scores))
    tau = (low + high) / 2
    for _ in range(_HALVINGS):
        tau = (low + high) / 2
        ratio = _ratio(recipe, tas, tau, tokens_per_frame=tokens_per_frame, decision=decision)
        if ratio > target:
            low = tau
        else:
            high = tau
    return tau


def _ratio(
    recipe: Recipe, tas: Array, tau: float, *, tokens_per_frame: int, decision: str
) -> float:
    """Replay ratio over eligible steps of scores [S, L, B] at one tau, open loop."""
    made = recipe.with_tau(tau, decision).policy.decisions[decision]
    return replay_ratio(made.decide_all(tas, tokens_per_frame), tokens_per_frame)[1]
