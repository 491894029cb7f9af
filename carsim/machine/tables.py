"""Phases of many batches and steps at once: each different one is simulated once, all counted."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.machine.bench import Ahead, PhaseResult

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
        # By entry: those of one state side by side, so that another state is appended.
        self._n_rows = n_kinds * n_whats
        self._cycles = np.full(self._n_rows, -1, np.int64)
        self._after = np.zeros(self._n_rows, np.intp)
        self._counts = np.zeros(self._n_rows, np.int64)
        self._results: dict[int, tuple[PhaseResult, ...]] = {}

    def entries(self, kinds: Ints, what: Ints | int, before: Ints) -> Ints:
        """The entry that a kind of step, what it does, and a state lead to."""
        return before * self._n_rows + (kinds * self._n_whats + what)

    def figure(self, of: Callable[[PhaseResult], int]) -> Cycles:
        """A figure of each entry, summed over its results."""
        figures = np.zeros(len(self._cycles), np.int64)
        for entry, results in self._results.items():
            figures[entry] = sum(map(of, results))
        return figures

    def look_up(self, kinds: Ints, what: Ints | int, before: Ints) -> tuple[Cycles, Ints]:
        """Cycles of the phase, and states after it, for all batches and steps: [G, S] each."""
        more = len(self._states.by_number) * self._n_rows - len(self._cycles)
        if more:
            self._cycles = np.pad(self._cycles, (0, more), constant_values=-1)
            self._after = np.pad(self._after, (0, more))
            self._counts = np.pad(self._counts, (0, more))
        entries = self.entries(kinds, what, before)
        met = np.bincount(entries.ravel())
        self._counts[: len(met)] += met
        cycles: Cycles = self._cycles[entries]
        unknown = cycles < 0
        if unknown.any():
            self._fill(np.unique(entries[unknown]).tolist())
            cycles = self._cycles[entries]
        return cycles, self._after[entries]

    def counted(self) -> Iterator[tuple[PhaseResult, int]]:
        """All results, each with how often its entry was looked up."""
        counts = self._counts.tolist()
        for entry, results in self._results.items():
            for result in results:
                yield result, counts[entry]

    def _fill(self, entries: list[int]) -> None:
        """Simulate entries."""
        places = [divmod(entry, self._n_rows) for entry in entries]
        new = [
            (*divmod(row, self._n_whats), self._states.by_number[state]) for state, row in places
        ]
        for entry, results in zip(entries, self._simulate(new), strict=True):
            self._results[entry] = results
            self._cycles[entry] = sum([result.cycles for result in results])
            self._after[entry] = self._states.number(State(results[-1].ahead))
