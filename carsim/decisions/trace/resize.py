"""Decisions for more or fewer rows, frames, tokens and layers than were captured."""

from dataclasses import replace
from math import isqrt

import numpy as np

from carsim.base.errors import InputError
from carsim.base.text import count
from carsim.decisions.attention.base import Ints
from carsim.decisions.replay import Pairs
from carsim.decisions.trace.decisions import Decisions


def resample(
    decisions: Decisions,
    rng: np.random.Generator,
    *,
    tokens_per_frame: int,
    n_rows: int | None = None,
    n_frames: int | None = None,
) -> Decisions:
    """Extend decisions to a larger batch or a longer video than was captured.

    Extra rows are copies of existing rows, drawn with replacement and whole guidance pairs at a
    time. Extra frames are copies of existing frames other than the first (which always computes),
    drawn with replacement and the same for all rows and layers. Copies are as correlated with
    their originals as can be, which real extra content would not be.

    Args:
        decisions: Decisions to extend.
        rng: Source of randomness.
        tokens_per_frame: N.
        n_rows: Rows wanted, at least the rows there are; those there are by default.
        n_frames: Frames wanted, likewise.

    Raises:
        InputError: Rows that are no whole number of pairs, more frames from a single one, or more
            frames where reads were recorded.
    """
    have_frames = decisions.n_steps // tokens_per_frame
    n_rows = decisions.n_rows if n_rows is None else n_rows
    n_frames = have_frames if n_frames is None else n_frames
    if n_frames > have_frames:
        decisions.refuse_recorded("resampling")
        if have_frames == 1:
            raise InputError("resampling", "the only frame is the first, which never replays")
    rows, pairs = _drawn_rows(decisions, n_rows, rng)
    extra = rng.integers(1, max(have_frames, 2), n_frames - have_frames)
    frames = np.concatenate([np.arange(have_frames), extra])
    steps = (frames[:, None] * tokens_per_frame + np.arange(tokens_per_frame)).ravel()
    label = f"resampled from {size(decisions.n_rows, have_frames)} to {size(n_rows, n_frames)}"
    if n_rows > decisions.n_rows:
        label += " (copies of a row decide alike, which flatters replay)"
    resampled = decisions.taken(label, steps=steps, frames=frames, rows=rows)
    return replace(resampled, source="resampled", pairs=pairs)


def size(n_rows: int, n_frames: int) -> str:
    """Rows and frames, as labels have them."""
    return f"{count(n_rows, 'row')} of {count(n_frames, 'frame')}"


def _drawn_rows(
    decisions: Decisions, n_rows: int, rng: np.random.Generator
) -> tuple[list[int], Pairs]:
    """Indices of the original rows, those there are first, and the pairs among the result."""
    rows = list(range(decisions.n_rows))
    pairs = list(decisions.pairs)
    extra = n_rows - decisions.n_rows
    if not pairs:
        return rows + rng.integers(0, decisions.n_rows, extra).tolist(), ()
    if extra % 2:
        problem = f"{extra} extra rows are no whole number of guidance pairs"
        raise InputError("resampling", problem, "ask for an even number of rows")
    for drawn in rng.integers(0, len(pairs), extra // 2):
        pairs.append((len(rows), len(rows) + 1))
        rows.extend(decisions.pairs[drawn])
    return rows, tuple(pairs)


def crop(decisions: Decisions, n_frames: int, tokens_per_frame: int) -> Decisions:
    """The first frames alone: exactly what a shorter video decides.

    Args:
        decisions: Decisions of more frames.
        n_frames: Frames wanted.
        tokens_per_frame: N.
    """
    label = f"the first {n_frames} of {decisions.n_steps // tokens_per_frame} frames"
    return decisions.taken(label, steps=slice(n_frames * tokens_per_frame), frames=slice(n_frames))


def enlarge(decisions: Decisions, tokens_per_frame: int, wanted_per_frame: int) -> Decisions:
    """Extend decisions to larger frames than were captured.

    Frames are taken as squares of tokens, row by row, and each token of the larger frame decides as
    the one at its place in the smaller. Neighbours are then as correlated as can be, which those of
    really decoded larger frames would not be.

    Args:
        decisions: Decisions to extend.
        tokens_per_frame: N.
        wanted_per_frame: N wanted; the N there is returns the decisions as they are.

    Raises:
        InputError: Frames that are no squares, smaller ones than there are, or recorded reads.
    """
    if wanted_per_frame == tokens_per_frame:
        return decisions
    side = isqrt(tokens_per_frame)
    wanted_side = isqrt(wanted_per_frame)
    are_squares = side**2 == tokens_per_frame and wanted_side**2 == wanted_per_frame
    if not are_squares or wanted_side < side:
        problem = f"frames of {tokens_per_frame} tokens cannot be enlarged to {wanted_per_frame}"
        cure = "take the square of a larger number, of square frames"
        raise InputError("tokens per frame", problem, cure)
    decisions.refuse_recorded("tokens per frame")
    nearest = np.arange(wanted_side) * side // wanted_side
    within = (nearest[:, None] * side + nearest).ravel()
    steps = (np.arange(0, decisions.n_steps, tokens_per_frame)[:, None] + within).ravel()
    label = f"resampled from {tokens_per_frame} to {wanted_per_frame} tokens per frame"
    return replace(decisions.taken(label, steps=steps), source="resampled")


def layers_at_depth(have: int, n_layers: int) -> Ints:
    """The layer of ``have`` that stands at the relative depth of each of ``n_layers``, int[n].

    A layer's depth is its middle over all layers, so that first and last ones meet.

    >>> layers_at_depth(2, 5), layers_at_depth(4, 2)
    (array([0, 0, 1, 1, 1]), array([1, 3]))
    """
    return (2 * np.arange(n_layers) + 1) * have // (2 * n_layers)


def map_layers(decisions: Decisions, n_layers: int) -> Decisions:
    """Decisions for a model of another depth: each layer decides as that at its relative depth.

    Layers that stand for the same one decide alike, which those of a really decoded deeper model
    would not.

    Args:
        decisions: Decisions to map.
        n_layers: Layers wanted; the number there is returns the decisions as they are.
    """
    have = decisions.n_layers
    if n_layers == have:
        return decisions
    label = f"decisions of {count(have, 'layer')} mapped to {n_layers} by relative depth"
    mapped = decisions.taken(label, layers=layers_at_depth(have, n_layers))
    return replace(mapped, source="mapped by depth")
