"""How well one quantity orders another."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Rank correlation of two arrays of equal shape; NaN where either is constant.

    >>> round(spearman([1, 2, 3], [10, 20, 5]), 3)
    -0.5
    """
    first, second = (pd.Series(np.ravel(values)).rank() for values in (a, b))
    if first.nunique() < 2 or second.nunique() < 2:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def auc(scores: ArrayLike, positive: ArrayLike) -> float:
    """Chance that a positive scores above another; ties count half; NaN if all are of one kind.

    >>> auc([3, 2, 1, 0], [True, False, True, False])
    0.75
    """
    ranks, chosen = pd.Series(np.ravel(scores)).rank(), np.ravel(positive).astype(bool)
    n, others = int(chosen.sum()), int((~chosen).sum())
    if not n or not others:
        return float("nan")
    return float((ranks[chosen].sum() - n * (n + 1) / 2) / (n * others))


def over_clips(values: ArrayLike) -> tuple[float, float]:
    """Mean of values, one a clip, and half the width of its 95 % interval (normal)."""
    known = np.asarray(values, float)
    known = known[np.isfinite(known)]
    if len(known) < 2:
        return float(known.mean()) if len(known) else float("nan"), float("nan")
    return float(known.mean()), float(1.96 * known.std(ddof=1) / np.sqrt(len(known)))
