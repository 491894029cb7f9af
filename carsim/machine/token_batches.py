"""Decisions by range of tokens, by batch: how many tokens compute, and on which core.

The tokens of a batch stand in one line: row after row, and in a row frame after frame. Where every
core keeps its own tokens, core c of C has the c-th of C equal parts of this line, or every C-th
token of it, as the schedule says (``interleaves_tokens``). A central schedule deals the tokens that
compute evenly over all cores.

Forwards may also reuse the last one as a whole. They take another program than the forwards whose
tokens decide one by one (:meth:`carsim.machine.plan.Plan.parts`).

Simplifications: a token's activations are one run of the memory that holds them (d elements: 1.5
KiB for Wan 1.3B in 8 bits), so that it takes no longer to gather single tokens than to read all of
them. Of a range of several tokens only the number is known that compute. Under neighbouring tokens,
they lie evenly in it. Under interleaved tokens, they lie anywhere: the loads of the cores are those
expected of a random order (:func:`expected_loads`). Tokens that decide together in ranges below a
frame (``range_tokens``) would be spread more evenly than that.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.decisions.trace.token_ranges import RangeDecisions
from carsim.hardware.schedule import Schedule
from carsim.machine.arrays import MachineArrays
from carsim.workload.workload import ReuseSource, TokenReuse

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TokenBatches:
    """Tokens that compute. G batches, S forwards, L layers, U ranges of a batch.

    Attributes:
        computing: Tokens of each range that compute, int64[G, S, L, U].
        per_range: Tokens of a range.
        source: Which outputs the others reuse.
        whole_forwards: Forwards that reuse the last one as a whole, bool[S]; None: none does.
    """

    computing: Ints
    per_range: int
    source: ReuseSource
    whole_forwards: Bools | None = None

    @property
    def reuse(self) -> TokenReuse:
        """Outputs that tokens reuse."""
        return TokenReuse(self.source, self.whole_forwards is not None)

    @property
    def kind(self) -> Hashable:
        """Key that is equal in decisions which can be simulated together."""
        forwards = None if self.whole_forwards is None else self.whole_forwards.tobytes()
        return self.source, self.per_range, forwards

    @property
    def tokens(self) -> int:
        """Image tokens of a batch."""
        return int(self.per_range * self.computing.shape[3])

    @property
    def replay_ratio(self) -> tuple[float, float]:
        """Share of tokens that reuse: of all, and of ranges that reuse in any layer of a step."""
        reused = self.per_range - self.computing  # int64[G, S, L, U]
        share_of_all = float(reused.mean()) / self.per_range
        reuses_in_any_layer = reused.any(axis=2, keepdims=True)
        eligible_ranges = int(np.count_nonzero(np.broadcast_to(reuses_in_any_layer, reused.shape)))
        eligible_tokens = max(1, eligible_ranges) * self.per_range
        return share_of_all, float(reused.sum()) / eligible_tokens

    def at_steps(self, steps: NDArray[np.intp], n_batches: int | None = None) -> "TokenBatches":
        """Decisions of some steps, of all batches or of the first ``n_batches``."""
        whole_forwards = None if self.whole_forwards is None else self.whole_forwards[steps]
        computing = self.computing[:n_batches, steps]
        return replace(self, computing=computing, whole_forwards=whole_forwards)

    def loads(
        self, machine: MachineArrays, schedule: Schedule, part: Ints
    ) -> tuple[Ints, NDArray[np.intp]]:
        """Tokens that each core computes; layer-steps with equal loads are listed once.

        Args:
            machine: The numbers of D designs.
            schedule: Assignment of tokens to cores.
            part: Tokens of each range that compute, in some batches, steps and layers,
                int[G, s, l, U].

        Returns:
            The P different loads of the cores, most loaded core first, int64[P, C]; and for each
            layer-step the index of its loads, [G, s, l].
        """
        layer_steps = part.shape[:-1]
        if schedule.central:
            totals = part.sum(axis=-1, dtype=np.int64)
            different_totals, index_of = np.unique(totals, return_inverse=True)
            return machine.even_loads(different_totals), index_of.reshape(layer_steps)
        flat = part.reshape(-1, part.shape[-1])
        different, index_of = np.unique(flat, axis=0, return_inverse=True)
        cores = machine.home_loads.size
        if schedule.interleaves_tokens:
            loads = self._of_interleaved(cores, different)
        else:
            loads = self._of_neighbours(cores, different)
        most_loaded_first = -np.sort(-loads, axis=1)
        return most_loaded_first, index_of.reshape(layer_steps)

    def _of_interleaved(self, cores: int, computing: Ints) -> Ints:
        """Tokens that each core computes where it keeps every C-th token.

        Args:
            cores: Number of cores, C.
            computing: Tokens of each range that compute, int64[P, U].

        Returns:
            int64[P, C].
        """
        if self.per_range > 1:
            return expected_loads(computing, self.per_range, cores)
        rounds = -(-self.tokens // cores)  # tokens of the core with the most
        padded = np.zeros((len(computing), rounds * cores), np.int64)
        padded[:, : self.tokens] = computing
        of_cores: Ints = padded.reshape(len(computing), rounds, cores).sum(axis=1)
        return of_cores

    def _of_neighbours(self, cores: int, computing: Ints) -> Ints:
        """Tokens that each core computes where it keeps neighbouring ones.

        Args:
            cores: Number of cores, C.
            computing: Tokens of each range that compute, int64[P, U].

        Returns:
            int64[P, C].
        """
        n_ranges = computing.shape[1]
        # Computing tokens before each range, and in all, int64[P, U + 1].
        computing_before = np.zeros((len(computing), n_ranges + 1), np.int64)
        np.cumsum(computing, axis=1, out=computing_before[:, 1:])
        # Where the part of each core begins in the line of tokens, and where the last one ends.
        boundaries = np.arange(cores + 1) * self.tokens // cores
        range_of_boundary = np.minimum(boundaries // self.per_range, n_ranges - 1)
        tokens_into_range = boundaries - range_of_boundary * self.per_range
        of_range = computing[:, range_of_boundary] * tokens_into_range // self.per_range
        computing_up_to = computing_before[:, range_of_boundary] + of_range
        return np.diff(computing_up_to, axis=1)


def expected_loads(computing: Ints, per_range: int, cores: int) -> Ints:
    """Tokens of each core, most loaded first, where the tokens of a range compute in any order.

    A core keeps the C-th part of each range, of which a hypergeometric number computes. Their sum
    over the ranges is about normal. The loads of C cores are its C expected order statistics (Blom,
    Statistical estimates and transformed beta-variables, 1958), which keep the number of tokens.

    Args:
        computing: Tokens of each range that compute, int64[P, U].
        per_range: Tokens of a range, 2 or more.
        cores: C.

    Returns:
        int64[P, C].

    >>> expected_loads(np.array([[100, 40], [100, 0]]), per_range=100, cores=4).tolist()
    [[37, 36, 34, 33], [25, 25, 25, 25]]
    """
    share = computing / per_range
    kept = per_range / cores  # tokens of a range that a core keeps
    variance_of_range = kept * share * (1 - share) * (per_range - kept) / (per_range - 1)
    deviation = np.sqrt(variance_of_range.sum(axis=1, keepdims=True))
    ranks = np.arange(cores, 0, -1)
    chances = ((ranks - 0.375) / (cores + 0.25)).tolist()
    quantiles = np.array([NormalDist().inv_cdf(chance) for chance in chances])
    total = computing.sum(axis=1, keepdims=True)
    most = math.ceil(per_range * computing.shape[1] / cores)
    loads = np.clip(total / cores + deviation * quantiles, 0, most)
    loads *= total / np.maximum(loads.sum(axis=1, keepdims=True), 1)
    ends = np.rint(np.cumsum(loads, axis=1)).astype(np.int64)
    ends[:, -1] = total[:, 0]
    return np.diff(ends, axis=1, prepend=0)


def token_batches(ranges: RangeDecisions, rows: list[int], batch: int, n_rows: int) -> TokenBatches:
    """Group decisions by range into batches.

    Args:
        ranges: The decisions.
        rows: Rows of the batches, one batch after the other.
        batch: Rows of a batch.
        n_rows: Rows of the decisions of whole rows.

    Raises:
        InputError: Rows were drawn beyond those of the trace.
    """
    if n_rows != ranges.reused.shape[2]:
        problem = "rows beyond those of the trace are not drawn where ranges of tokens decide"
        raise InputError("policy.batch", problem, "leave out the seed, or take a smaller batch")
    steps, layers, _, n_ranges = ranges.reused.shape
    computing = ranges.per_range - ranges.reused[:, :, rows].astype(np.int64)
    grouped = computing.reshape(steps, layers, len(rows) // batch, batch * n_ranges)
    return TokenBatches(
        np.moveaxis(grouped, 2, 0),
        ranges.per_range,
        source=ranges.source,
        whole_forwards=ranges.whole_forwards,
    )
