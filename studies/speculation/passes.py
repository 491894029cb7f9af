"""Passes of speculative decoding: which rows they have, and how many tokens they yield.

A pass decodes up to m rows at once, each of which judges one proposed token (what that means:
:mod:`studies.speculation.decoding`). Rows up to the first proposal that is not accepted yield a
token each. A pass ends with the frame at the latest, and in the first frame nothing is proposed:
there a pass is one row.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Passes:
    """The passes of one decoding, in order.

    Attributes:
        first: Step of the first row of each, int64[P].
        rows: Rows of each, int64[P].
        emitted: Tokens that each yields, 1 to ``rows``, int64[P].
    """

    first: Ints
    rows: Ints
    emitted: Ints

    def after(self, step: int) -> "Passes":
        """Those that begin at a step or later."""
        late = self.first >= step
        return Passes(self.first[late], self.rows[late], self.emitted[late])


def rows_of_pass(step: int, tokens_per_frame: int, most: int) -> int:
    """Rows of a pass that begins at a step.

    >>> [rows_of_pass(step, 8, 4) for step in (0, 7, 8, 13)]
    [1, 1, 4, 3]
    """
    left = tokens_per_frame - step % tokens_per_frame
    return min(most, left) if step >= tokens_per_frame else 1


def passes_of(accepted: NDArray[np.bool_], tokens_per_frame: int, most: int) -> Passes:
    """Passes of a decoding of which it is known where the proposal is accepted.

    Args:
        accepted: bool[S], the token of the step is the proposed one; frame 0 does not matter.
        tokens_per_frame: N.
        most: m, rows of a pass at most.

    >>> passes_of(np.array([0, 0, 0, 0, 1, 1, 0, 1], bool), 4, 3).emitted.tolist()
    [1, 1, 1, 1, 3, 1]
    """
    found, step = [], 0
    while step < len(accepted):
        rows = rows_of_pass(step, tokens_per_frame, most)
        refused = np.flatnonzero(~accepted[step : step + rows])
        emitted = int(refused[0]) + 1 if refused.size else rows
        found.append((step, rows, emitted))
        step += emitted
    first, rows_of_each, emitted_by_each = np.array(found, np.int64).reshape(-1, 3).T
    return Passes(first, rows_of_each, emitted_by_each)


def expected_passes(chances: NDArray[np.float64], most: int) -> float:
    """Expected passes of a frame whose proposals are accepted with given chances.

    Exact where acceptances are independent: a pass that begins at a place does so with the chance
    that an earlier one ended there. With one chance a for all and a long frame, a pass yields
    (1 - a^m) / (1 - a) tokens (Leviathan, Kalman and Matias 2023, arXiv 2211.17192, with m - 1
    guesses).

    Args:
        chances: [N], of each place, 0 to 1.
        most: m.

    >>> expected_passes(np.zeros(8), 4), expected_passes(np.ones(8), 4)
    (8.0, 2.0)
    """
    n = len(chances)
    begins = np.zeros(n + 1)
    begins[0] = 1.0
    for place in range(n):
        going = begins[place]
        last = min(place + most, n) - 1
        for judged in range(place, last):
            begins[judged + 1] += going * (1 - chances[judged])
            going *= chances[judged]
        begins[last + 1] += going
    return float(begins[:n].sum())
