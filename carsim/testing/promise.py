"""One promise of a contract."""

from typing import Any

import numpy as np


def holds(condition: Any, promise: str) -> None:
    """Check a promise of a contract.

    Args:
        condition: A truth value, or an array or list of them.
        promise: The promise in words.

    Raises:
        AssertionError: It does not hold, with the promise.
    """
    if not np.all(condition):
        raise AssertionError(promise)
