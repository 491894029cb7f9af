"""Search for the threshold that gives a wanted replay ratio, closed loop.

Model: fixed-point iteration. Decoding at one tau gives scores, and their quantile gives the next
tau; a replay changes later scores only a little, so that few decodings are needed. Rows that decide
together count with their lowest score; exempt layers do not count.
"""

from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

import numpy as np

from carsim.base.errors import InputError
from carsim.decisions.replay import decision_units
from carsim.decoder.capture import capture
from carsim.decoder.recipe import Recipe
from carsim.decoder.workers import Progress

TOLERANCE = 0.005
_MOST_DECODINGS = 6


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
        raise InputError("replay ratio", f"expected between 0 and 1, got {target!r}")
    if recipe.n_frames < 2:
        raise InputError("$.n_frames", "one frame never replays", "decode two frames or more")
    layers = [i for i in range(recipe.decoded.n_layers) if i not in recipe.exempt_layers]
    most = len(layers) / recipe.decoded.n_layers
    if target >= most:
        raise InputError(
            "replay ratio", f"{target:g} with exempt layers, at most {most:g}", "ask for less"
        )
    own = recipe.tau
    tau, tried = own if isinstance(own, float) and isfinite(own) else inf, []
    units = decision_units(recipe.decision_scope, recipe.pairs, recipe.n_rows)
    for _ in range(_MOST_DECODINGS):
        trace = capture(
            recipe.model_copy(update={"tau": tau, "quality": None}),
            folder,
            workers=workers,
            progress=progress,
        )
        ratio = float(trace.replay[trace.tokens_per_frame :].mean())
        tried.append((abs(ratio - target), tau, ratio))
        if abs(ratio - target) <= TOLERANCE:
            break
        scores = trace.tas[trace.tokens_per_frame :, layers]
        decisive = np.stack([scores[..., list(unit)].min(axis=-1) for unit in units])
        tau = round(float(np.quantile(decisive, 1 - target / most)), 4)
    _, tau, ratio = min(tried)
    return FoundTau(tau, ratio, len(tried))
