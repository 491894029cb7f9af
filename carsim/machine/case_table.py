"""Outcomes of single cases of a block, kept from run to run and found by their numbers."""

from collections.abc import Callable

import numpy as np

from carsim.machine.lanes import Ints
from carsim.machine.numbering import Index, KeyOf, Keys
from carsim.machine.phase import Outcome

Solve = Callable[[Index], Outcome]
"""Some of the cases that are asked for -> their outcomes on each design."""


class CaseTable:
    """Outcomes of the cases of one block that any run has met, on D designs.

    Where a block depends on much, two runs have some cases in common and hardly ever all of them.

    Args:
        designs: D.
    """

    def __init__(self, designs: int) -> None:
        self._designs = designs
        self._key_of = KeyOf()
        # Numbers and outcomes of the cases, in the order in which they were met.
        self._columns: Ints | None = None
        self._outcome: Outcome | None = None
        self._sorted_keys: Keys | None = None
        self._case_of_sorted_key: Index | None = None

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
            self._sort_keys(self._columns)
        keys = self._key_of(columns)
        new_cases = self._new(keys)
        is_first_call = self._outcome is None
        if new_cases.size:
            self._add(columns[:, new_cases], solve(new_cases))
        assert self._outcome is not None
        assert self._sorted_keys is not None
        assert self._case_of_sorted_key is not None
        if is_first_call and len(new_cases) == len(keys):
            return self._outcome  # all of them, in their order
        return self._outcome.take(
            self._of_designs(self._case_of_sorted_key[np.searchsorted(self._sorted_keys, keys)])
        )

    def _new(self, keys: Keys) -> Index:
        """Cases that are not kept, each once, in their order."""
        is_new = np.ones(len(keys), np.bool_)
        if self._sorted_keys is not None:
            nearest = np.searchsorted(self._sorted_keys, keys)
            last = len(self._sorted_keys) - 1
            is_new = self._sorted_keys[np.minimum(nearest, last)] != keys
        new_cases = np.flatnonzero(is_new)
        _, example_of = np.unique(keys[new_cases], return_index=True)
        return new_cases[np.sort(example_of)]

    def _add(self, columns: Ints, outcome: Outcome) -> None:
        """Add cases and their outcomes to those that are known."""
        if self._columns is not None and self._outcome is not None:
            columns = np.concatenate([self._columns, columns], axis=1)
            outcome = Outcome.join([self._outcome, outcome], self._designs)
        self._columns = columns
        self._outcome = outcome
        self._sort_keys(columns)

    def _sort_keys(self, columns: Ints) -> None:
        """Sort the keys of the cases; outcomes stay where they are, as to move them takes long."""
        keys = self._key_of(columns)
        self._case_of_sorted_key = np.argsort(keys)
        self._sorted_keys = keys[self._case_of_sorted_key]

    def _of_designs(self, case: Index) -> Index:
        """Phases of some cases on each design, one design after the other."""
        assert self._columns is not None
        first_phase = self._columns.shape[1] * np.arange(self._designs)[:, None]
        return (first_phase + case).ravel()
