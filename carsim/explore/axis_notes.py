"""Notes at the end of a sweep: values that are never valid, and axes that change nothing.

Both come from a mistake in a study more often than from the machine, and look like results.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from carsim.base.text import count
from carsim.base.yaml_file import shown
from carsim.explore.points import make_points, sampled
from carsim.explore.study import Study
from carsim.metrics import METRICS

if TYPE_CHECKING:
    import pandas as pd

NAMED = 5
"""Values of an axis that a note names at most."""

LABELS = ("decisions", "policy_name")
"""Metrics that are texts about a point and no result."""


def axis_notes(
    frame: "pd.DataFrame", axes: Sequence[str], *, with_invalid: bool = True
) -> Iterator[str]:
    """Notes on the axes of a frame of results, a sentence each.

    Args:
        frame: A row per point, see :func:`carsim.explore.frame.frame_of`.
        axes: Names of its axes.
        with_invalid: Also name values with which no point is valid.
    """
    for axis in axes if with_invalid else ():
        yield from _never_valid(frame, axis)
    for axis in axes:
        n_groups = groups_without_effect(frame, axis, axes)
        if n_groups:
            compared = count(n_groups, "comparison")
            yield (
                f"{axis} has no effect: points that differ in it alone have equal results "
                f"({compared})."
            )


def _never_valid(frame: "pd.DataFrame", axis: str) -> Iterator[str]:
    """A note on the values of an axis with which every point is refused; others are not."""
    is_invalid = frame["status"] == "invalid"
    if is_invalid.all() or not is_invalid.any():
        return
    never_valid = is_invalid.groupby(frame[axis], sort=False, dropna=False).all()
    values = list(never_valid.index[never_valid])
    if not values:
        return
    listed = ", ".join(shown(value) for value in values[:NAMED])
    if len(values) > NAMED:
        listed += f" and {len(values) - NAMED} more values"
    reasons = Counter(frame.loc[frame[axis].isin(values), "reason"])
    reason, _ = reasons.most_common(1)[0]
    yield f"{axis}: no point with {listed} is valid: {reason}"


def groups_without_effect(frame: "pd.DataFrame", axis: str, axes: Sequence[str]) -> int:
    """Groups of points that differ in one axis alone, if all points of each have equal results.

    Args:
        frame: Results.
        axis: The axis.
        axes: All axes.

    Returns:
        Number of groups of two points or more; 0 if the axis changes a result of one of them.
    """
    import numpy as np
    import pandas as pd

    tried = frame[frame["status"] != "failed"]
    figures = [name for name in METRICS if name in tried and name not in LABELS]
    # Numbers in place of results and of values of the other axes: they group a million rows fast.
    results = pd.util.hash_pandas_object(tried[["status", *figures]], index=False)
    codes = {}
    for name in axes:
        if name != axis:
            codes[name], _ = pd.factorize(tried[name])
    if codes:
        other_axes = pd.DataFrame(codes, index=tried.index)
        groups = pd.util.hash_pandas_object(other_axes, index=False).to_numpy()
    else:
        groups = np.zeros(len(tried), dtype=np.uint64)  # pandas hashes no table without columns
    if (results.groupby(groups).nunique() > 1).any():
        return 0
    is_evaluated = tried["status"].isin(["ok", "misfit"])
    sizes = is_evaluated.groupby(groups).sum()
    return int((sizes > 1).sum())


def sample_note(study: Study) -> str:
    """A note on a sample that has fewer points than were asked for; empty if it has all."""
    wanted = study.file.sampling.points
    if wanted is None:
        return ""
    n_points = len(make_points(study))
    if n_points == wanted:
        return ""
    n_passing = sum(1 for _ in sampled(study))
    losses = []
    if n_passing < wanted:
        losses.append(f"{wanted - n_passing:,} fail the filters")
    if n_points < n_passing:
        losses.append(f"{n_passing - n_points:,} repeat others")
    return f"The sample has {n_points:,} points of {wanted:,}: {', '.join(losses)}."
