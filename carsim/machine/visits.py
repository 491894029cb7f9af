"""How often a run visits the outcomes of phases."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.machine.lanes import Ints
from carsim.machine.phase import Outcome, by_design

Index = NDArray[np.intp]


class Visits(NamedTuple):
    """Number of visits of a run to the outcomes of a kind of phase, on D designs.

    Attributes:
        name: Kind of phase.
        outcome: n different phases on each design.
        counts: Visits of each batch to each outcome, int64[D or 1, G, n].
        counts_to_first_token: Visits before the first token is there: those of the prompt and of
            the first step, int64[D or 1, G or 1, n].
        outcome_of: The outcome of each layer-step, [G or 1, S, L], or of each step, [G or 1, S, 1];
            -1 where other visits serve, None for the prompt and without detail.
    """

    name: str
    outcome: Outcome
    counts: Ints
    counts_to_first_token: Ints
    outcome_of: Index | None = None

    def cycles(self, counts: Ints, designs: int) -> Ints:
        """Cycles of ``counts`` visits to the outcomes, int64[D or 1, G, n], as int64[D, G]."""
        outcome_cycles = by_design(self.outcome.cycles, designs)
        cycles = counts @ outcome_cycles[..., None]
        return cycles[..., 0]

    def of_members(self, sizes: Ints) -> Ints:
        """Visits of P members of so many batches each, int64[D or 1, P, n]; P = 1 if all are equal.

        Args:
            sizes: Batches of each member, [P].
        """
        if self.counts.shape[1] > 1:
            first_batch = np.cumsum(sizes) - sizes
            return np.add.reduceat(self.counts, first_batch, axis=1)
        # Here every batch has equal visits, so that members of equal size have, too.
        sizes_are_equal = (sizes == sizes[0]).all()
        different_sizes = sizes[:1] if sizes_are_equal else sizes
        return self.counts * different_sizes[:, None]

    def spread(self, figure: Ints) -> Ints:
        """Lay a figure of the n outcomes out over the steps.

        Args:
            figure: A figure by outcome, [n, ...].

        Returns:
            The figure at each layer-step or step, in the shape of ``outcome_of`` and then the
            further axes of ``figure``; 0 where other visits serve.
        """
        assert self.outcome_of is not None
        is_served = self.outcome_of >= 0
        further_axes = tuple(range(is_served.ndim, is_served.ndim + figure.ndim - 1))
        return np.where(np.expand_dims(is_served, further_axes), figure[self.outcome_of], 0)


def counted(index: Index, n: int) -> Ints:
    """Occurrences of each of n numbers, [D, G, ...] -> int64[D, G, n]."""

    def by_batch(of_design: Index) -> list[NDArray[np.intp]]:
        return [np.bincount(of_batch.ravel(), minlength=n) for of_batch in of_design]

    return np.array([by_batch(of_design) for of_design in index], np.int64)
