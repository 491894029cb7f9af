"""Decisions for a shorter video than was captured, and for one of larger frames."""

from dataclasses import replace
from math import isqrt

import numpy as np

from carsim.errors import InputError
from carsim.trace.decisions import Decisions


def crop(decisions: Decisions, n_frames: int, tokens_per_frame: int) -> Decisions:
    """The first frames alone: exactly what a shorter video decides.

    Args:
        decisions: Decisions of at least as many frames.
        n_frames: Frames wanted.
        tokens_per_frame: N.

    Raises:
        InputError: No frame, or more than there are.
    """
    have_frames = decisions.n_steps // tokens_per_frame
    if not 1 <= n_frames <= have_frames:
        raise InputError(
            "frames",
            f"expected 1 to the {have_frames} that there are, got {n_frames}",
            "resample decisions for a longer video",
        )
    if n_frames == have_frames:
        return decisions
    return replace(
        decisions,
        replay=decisions.replay[: n_frames * tokens_per_frame],
        label=f"{decisions.label}, the first {n_frames} of {have_frames} frames",
    )


def enlarge(decisions: Decisions, tokens_per_frame: int, wanted_per_frame: int) -> Decisions:
    """Extend decisions to larger frames than were captured.

    Frames are taken as squares of tokens, row by row, and each token of the larger frame decides as
    the one at its place in the smaller. Neighbours are then as correlated as can be, which those of
    really decoded larger frames would not be.

    Args:
        decisions: What to extend.
        tokens_per_frame: N.
        wanted_per_frame: N wanted; the N there is returns the decisions as they are.

    Raises:
        InputError: Frames that are no squares, or smaller ones than there are.
    """
    if wanted_per_frame == tokens_per_frame:
        return decisions
    side, wanted_side = isqrt(tokens_per_frame), isqrt(max(0, wanted_per_frame))
    are_squares = side**2 == tokens_per_frame and wanted_side**2 == wanted_per_frame
    if not are_squares or wanted_side < side:
        raise InputError(
            "tokens per frame",
            f"frames of {tokens_per_frame} tokens cannot be enlarged to {wanted_per_frame}",
            "take the square of a larger number, of square frames",
        )
    nearest = np.arange(wanted_side) * side // wanted_side
    within = (nearest[:, None] * side + nearest).ravel()
    starts = np.arange(0, decisions.n_steps, tokens_per_frame)
    return replace(
        decisions,
        replay=decisions.replay[(starts[:, None] + within).ravel()],
        source="resampled",
        label=f"{decisions.label}, resampled from {tokens_per_frame} to {wanted_per_frame} "
        "tokens per frame",
    )
