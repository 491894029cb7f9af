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
