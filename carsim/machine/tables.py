"""Phases of many batches and steps at once: each different one is simulated once, all counted."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.hw.bench import Ahead, PhaseResult

Ints = NDArray[np.intp]
Cycles = NDArray[np.int64]

START = Ahead()
"""What a step finds: nothing is fetched across the head and the sampling of a token."""


class State(NamedTuple):
    """What a phase finds.

    Attributes:
        ahead: What has been fetched for it.
        exposed_cycles: For an MLP, what dispatch still takes.
    """

    ahead: Ahead = START
    exposed_cycles: int = 0


Entry = tuple[int, int, State]
"""Kind of step, what the phase does, and what it finds."""


class States:
    """States by number."""

    def __init__(self) -> None:
        self.by_number = [State()]
        self._numbers = {State(): 0}

    def number(self, state: State) -> int:
        """The number of a state, given out when it is first met."""
        if state not in self._numbers:
            self._numbers[state] = len(self.by_number)
            self.by_number.append(state)
        return self._numbers[state]

    def exposed(self, states: Ints, exposed_cycles: Cycles) -> Ints:
        """The same states with dispatch still to be done; both of shape [G, S]."""
        if not exposed_cycles.any():
            return states
        pairs, which = np.unique(
            np.stack([states.ravel(), exposed_cycles.ravel()]), axis=1, return_inverse=True
        )
        numbers = [
            self.number(State(self.by_number[state].ahead, cycles))
            for state, cycles in pairs.T.tolist()
        ]
        return np.array(numbers, np.intp)[which.ravel()].reshape(states.shape)


class Table:
    """Cycles and successor of one kind of phase, by (kind of step, what it does, state).

    Args:
        n_kinds: Kinds of steps.
        n_whats: Things that the phase may do.
        states: States, which grow while the table is used.
        simulate: Simulates entries when they are first met: (kind, what, state) of each -> results
            of each, one after the other; what the last one leaves is what the entry leaves.
    """

    def __init__(
        self,
        n_kinds: int,
        n_whats: int,
        states: States,
        simulate: Callable[[list[Entry]], list[tuple[PhaseResult, ...]]],
    ) -> None:
        self._n_whats = n_whats
        self._states = states
        self._simulate = simulate
        self._room = 8
        self._cycles = np.full((n_kinds * n_whats, self._room), -1, np.int64)
        self._after = np.zeros((n_kinds * n_whats, self._room), np.intp)
        self._counts = np.zeros((n_kinds * n_whats, self._room), np.int64)
        self._results: dict[tuple[int, int], tuple[PhaseResult, ...]] = {}

    def rows(self, kinds: Ints, what: Ints | int) -> Ints:
        """The row of entries that a kind of step and what it does lead to."""
        return kinds * self._n_whats + what

    def figure(self, of: Callable[[PhaseResult], int]) -> Cycles:
        """A figure of each entry, summed over its results, int64[rows, states]."""
        figures = np.zeros(self._cycles.shape, np.int64)
        for place, results in self._results.items():
            figures[place] = sum(map(of, results))
        return figures

    def look_up(self, kinds: Ints, what: Ints | int, before: Ints) -> tuple[Cycles, Ints]:
        """Cycles of the phase, and states after it, for all batches and steps: [G, S] each."""
        while len(self._states.by_number) > self._room:
            self._room *= 2
            grown = [(0, 0), (0, self._room // 2)]
            self._cycles = np.pad(self._cycles, grown, constant_values=-1)
            self._after = np.pad(self._after, grown)
            self._counts = np.pad(self._counts, grown)
        code = self.rows(kinds, what) * self._room + before
        self._counts += np.bincount(code.ravel(), minlength=self._counts.size).reshape(
            self._counts.shape
        )
        cycles: Cycles = self._cycles.ravel()[code]
        if (cycles >= 0).all():
            return cycles, self._after.ravel()[code]
        places = [divmod(entry, self._room) for entry in np.unique(code[cycles < 0]).tolist()]
        new = [
            (*divmod(row, self._n_whats), self._states.by_number[state]) for row, state in places
        ]
        for (row, state), results in zip(places, self._simulate(new), strict=True):
            self._results[row, state] = results
            self._cycles[row, state] = sum([result.cycles for result in results])
            self._after[row, state] = self._states.number(State(results[-1].ahead))
        return self._cycles.ravel()[code], self._after.ravel()[code]

    def counted(self) -> Iterator[tuple[PhaseResult, int]]:
        """All results, each with how often its entry was looked up."""
        for (row, state), results in self._results.items():
            count = int(self._counts[row, state])
            for result in results:
                yield result, count
