"""Find the threshold that gives a wanted replay ratio when it is really applied.

Model: fixed-point iteration. Decoding at one tau gives scores, and their quantile gives the next
tau; a replay changes later scores only a little, so that few decodings are needed.
"""

from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

from carsim.decoder.capture import capture
from carsim.decoder.recipe import Recipe
from carsim.decoder.workers import Progress
from carsim.errors import InputError

TOLERANCE = 0.002
_MOST_DECODINGS = 6


@dataclass(frozen=True)
class Calibration:
    """A threshold and what it gave.

    Attributes:
        tau: One threshold for all layers, rounded to four decimals.
        ratio: Replay ratio over eligible steps at that tau, closed loop.
        decodings: How often the recipe was decoded to find it.
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
) -> Calibration:
    """Search the tau of a recipe.

    Args:
        recipe: Its own tau is ignored.
        folder: Where the recipe's files are.
        target: Replay ratio wanted over eligible steps, between 0 and 1.
        workers: Processes.
        progress: Told how far each decoding is.

    Returns:
        The tau nearest to the target, after at most six decodings.

    Raises:
        InputError: The target is not between 0 and 1, or there is only one frame.
    """
    if not 0 < target < 1:
        raise InputError("replay ratio", f"expected between 0 and 1, got {target!r}")
    if recipe.n_frames < 2:
        raise InputError("$.n_frames", "one frame never replays", "decode two frames or more")
    tau, tried = inf, []
    for _ in range(_MOST_DECODINGS):
        trace = capture(
            recipe.model_copy(update={"tau": tau}),
            folder,
            workers=workers,
            progress=progress,
        )
        ratio = float(trace.replay[trace.tokens_per_frame :].mean())
        tried.append((abs(ratio - target), tau, ratio))
        if abs(ratio - target) <= TOLERANCE:
            break
        tau = round(float(np.quantile(trace.tas[trace.tokens_per_frame :], 1 - target)), 4)
    _, tau, ratio = min(tried)
    return Calibration(tau, ratio, len(tried))
