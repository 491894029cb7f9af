"""Values by what they have in common."""

from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")


def grouped(items: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Values by their names, both in the order of the first.

    >>> grouped([("b", 1), ("a", 2), ("b", 3)])
    {'b': [1, 3], 'a': [2]}
    """
    values_of: dict[K, list[T]] = {}
    for name, value in items:
        values_of.setdefault(name, []).append(value)
    return values_of
