"""Outcomes of single cases of a block, kept from run to run and found by their numbers."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.machine.lanes import Ints
from carsim.machine.phase import Outcome

Solve = Callable[[NDArray[np.intp]], Outcome]
"""Some of the cases that are asked for -> their outcomes on each design."""

Keys = NDArray[Any]
"""A key for each case that can be sorted: a whole number, or its numbers as bytes."""

KEY_LIMIT = 1 << 62
"""Keys are whole numbers as long as there are no more different ones."""


class CaseTable:
    """Outcomes of the cases of one block that any run has met, on D designs.

    Where a block depends on much, two runs have some cases in common and hardly ever all of them.

    Args:
        designs: D.
    """

    def __init__(self, designs: int) -> None:
        self._designs = designs
        self._key_of = KeyOf()
        self._columns: Ints | None = None  # of the cases, in the order of their keys
        self._keys: Keys | None = None
        self._outcome: Outcome | None = None

    @property
    def n_phases(self) -> int:
        """Phases that are kept."""
        return 0 if self._outcome is None else len(self._outcome.cycles)

    def look_up(self, columns: Ints, solve: Solve) -> Outcome:
        """The outcomes of n cases; those that are new are solved and kept.

        Args:
            columns: Numbers that determine each case, int64[k, n], k the same in each call.
            solve: Solves some of the n cases, given their indices.
        """
        if self._key_of.cover(columns) and self._columns is not None:
            self._sort(self._columns)
        keys = self._key_of(columns)
        new_cases = self._new(keys)
        if new_cases.size:
            self._add(columns[:, new_cases], solve(new_cases))
        assert self._keys is not None
        assert self._outcome is not None
        return self._outcome.take(self._of_designs(np.searchsorted(self._keys, keys)))

    def _new(self, keys: Keys) -> NDArray[np.intp]:
        """Cases that are not kept, each once."""
        is_new = np.ones(len(keys), np.bool_)
        if self._keys is not None:
            nearest = np.searchsorted(self._keys, keys)
            is_new = self._keys[np.minimum(nearest, len(self._keys) - 1)] != keys
        new_cases = np.flatnonzero(is_new)
        _, example_of = np.unique(keys[new_cases], return_index=True)
        return new_cases[np.sort(example_of)]

    def _add(self, columns: Ints, outcome: Outcome) -> None:
        """Add cases and their outcomes to those that are known."""
        if self._columns is not None and self._outcome is not None:
            columns = np.concatenate([self._columns, columns], axis=1)
            outcome = Outcome.join([self._outcome, outcome], self._designs)
        self._outcome = outcome
        self._sort(columns)

    def _sort(self, columns: Ints) -> None:
        """Bring the cases into the order of their keys."""
        keys = self._key_of(columns)
        order = np.argsort(keys)
        self._columns = columns[:, order]
        self._keys = keys[order]
        assert self._outcome is not None
        self._outcome = self._outcome.take(self._of_designs(order))

    def _of_designs(self, case: NDArray[np.intp]) -> NDArray[np.intp]:
        """Phases of some cases on each design, one design after the other."""
        assert self._columns is not None
        first_phase = self._columns.shape[1] * np.arange(self._designs)[:, None]
        return (first_phase + case).ravel()


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

    def __call__(self, columns: Ints) -> Keys:
        """Keys of columns, [k, n] -> [n]."""
        n_values = [1 + most - least for least, most in zip(self._least, self._most, strict=True)]
        if prod(n_values) >= KEY_LIMIT:
            rows = np.ascontiguousarray(columns.T)
            return rows.view(np.dtype((np.void, 8 * rows.shape[1]))).ravel()
        keys: Keys = np.zeros(columns.shape[1], np.int64)
        for numbers, n, least in zip(columns, n_values, self._least, strict=True):
            if n > 1:
                keys *= n
                keys += numbers
                keys -= least
        return keys


def distinct(columns: Ints) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The different columns of a table of whole numbers, [k, n].

    Returns:
        The index of an example of each; which of them each column is, [n].
    """
    key_of = KeyOf()
    key_of.cover(columns)
    _, example_of, number_of = np.unique(key_of(columns), return_index=True, return_inverse=True)
    return example_of, number_of.ravel()
