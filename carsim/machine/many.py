"""Figures of many context lengths at once: an array where one number is usual.

What an attention phase asks of a core is arithmetic on the context length, the same for every
length. Lowering and books are therefore written so that an array of lengths may take the place of
one; each figure that depends on it is then an array, too. Elements are Python's integers: they cost
time, but never overflow, and credits of a memory path exceed 64 bits.
"""

from collections.abc import Iterable
from typing import cast

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.object_]


def ints(values: Iterable[int]) -> Ints:
    """An array of Python's integers, [n]."""
    return np.array([int(value) for value in values], object)


def larger(a: int, b: int) -> int:
    """The larger of two, element by element where one is an array.

    >>> larger(2, 3)
    3
    """
    return max(a, b) if type(a) is int and type(b) is int else cast(int, np.maximum(a, b))


def smaller(a: int, b: int) -> int:
    """The smaller of two, likewise."""
    return min(a, b) if type(a) is int and type(b) is int else cast(int, np.minimum(a, b))
