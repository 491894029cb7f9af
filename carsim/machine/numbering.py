"""Number the different rows or columns of tables of whole numbers.

Functions return an example of each different row, and say which of them every row is. Codes of a
small range are numbered by a table of that range; others are sorted.
"""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Index = NDArray[np.intp]

Keys = NDArray[Any]
"""A key for each column that can be sorted: a whole number, or its numbers as bytes."""

KEY_LIMIT = 1 << 62
"""Keys are whole numbers as long as there are no more different ones."""

TABLE_LIMIT = 1 << 22
"""Codes below this are numbered by a table, which takes a tenth of the time of sorting them."""

TABLE_ENTRIES_PER_CODE = 8
"""A table with more entries for each code takes longer than sorting the codes."""


class KeyOf:
    """A key for each column of k whole numbers, different for different columns.

    A whole number is sorted and found some four times as quickly as bytes. It has room for the
    numbers that were met so far; where it has not, bytes take its place.
    """

    def __init__(self) -> None:
        self._least: list[int] = []
        self._most: list[int] = []

    def cover(self, columns: Ints) -> bool:
        """Make room for the numbers of further columns, int64[k, n]; True if keys change."""
        least = columns.min(axis=1).tolist()
        most = columns.max(axis=1).tolist()
        if not self._least:
            self._least = least
            self._most = most
            return True
        before = self._least, self._most
        self._least = [min(pair) for pair in zip(self._least, least, strict=True)]
        self._most = [max(pair) for pair in zip(self._most, most, strict=True)]
        return before != (self._least, self._most)

    @property
    def n_keys(self) -> int:
        """Possible keys; from :data:`KEY_LIMIT` on, keys are bytes."""
        return prod(self._n_values)

    @property
    def _n_values(self) -> list[int]:
        """Possible numbers of each row of the table."""
        return [1 + most - least for least, most in zip(self._least, self._most, strict=True)]

    def __call__(self, columns: Ints) -> Keys:
        """Keys of columns, [k, n] -> [n]."""
        if self.n_keys >= KEY_LIMIT:
            rows = np.ascontiguousarray(columns.T)
            return rows.view(np.dtype((np.void, 8 * rows.shape[1]))).ravel()
        keys: Keys = np.zeros(columns.shape[1], np.int64)
        for numbers, n_values, least in zip(columns, self._n_values, self._least, strict=True):
            if n_values > 1:
                keys *= n_values
                keys += numbers
                keys -= least
        return keys


def distinct(columns: Ints) -> tuple[Index, Index]:
    """The different columns of a table of whole numbers, [k, n].

    Returns:
        The index of the first example of each; which of them each column is, [n].

    >>> distinct(np.array([[7, 5, 7], [1, 1, 1]]))
    (array([1, 0]), array([1, 0, 1]))
    """
    key_of = KeyOf()
    key_of.cover(columns)
    keys = key_of(columns)
    if key_of.n_keys <= min(TABLE_LIMIT, TABLE_ENTRIES_PER_CODE * len(keys)):
        used, number_of = renumber(keys, key_of.n_keys)
        example_of = np.empty(len(used), np.intp)
        # Of several examples, the last that is written stays: the first column.
        example_of[number_of[::-1]] = np.arange(len(keys))[::-1]
        return example_of, number_of
    _, example_of, number_of = np.unique(keys, return_index=True, return_inverse=True)
    return example_of, number_of.ravel()


def distinct_rows(rows: NDArray[Any], most: int) -> tuple[Index, Index]:
    """The different rows of a table of whole numbers below ``most``, [n, W].

    Returns:
        The index of an example of each; which of them each row is, [n].
    """
    fits = max(1, 62 // max(1, (most - 1).bit_length()))  # columns in a whole number
    if rows.shape[1] > fits:
        # Number the rows of both halves, and then the pairs of numbers.
        _, first_half = distinct_rows(rows[:, :fits], most)
        _, second_half = distinct_rows(rows[:, fits:], most)
        return distinct_rows(np.stack([first_half, second_half], axis=1), max(2, len(rows)))
    codes = rows @ (most ** np.arange(rows.shape[1], dtype=np.int64))
    _, example_of, number_of = np.unique(codes, return_index=True, return_inverse=True)
    return example_of, number_of.ravel()


def renumber(codes: Index, most: int) -> tuple[Index, Index]:
    """The different codes below ``most``, sorted, and which of them each code is."""
    if most > TABLE_LIMIT:
        used, index = np.unique(codes, return_inverse=True)
        return used, index.reshape(codes.shape)
    is_used = np.zeros(most, np.bool_)
    is_used[codes] = True
    used = np.flatnonzero(is_used)
    number_of = np.cumsum(is_used) - 1
    return used, number_of[codes]
