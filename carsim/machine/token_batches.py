"""Decisions by range of tokens, by batch: how many tokens compute, and on which core.

The tokens of a batch stand in one line: row after row, and in a row frame after frame. Where every
core keeps its own tokens, core c of C has the c-th of C equal parts of this line. A central
schedule deals the tokens that compute evenly over all cores.

Simplifications: the tokens of a range that compute lie evenly in it; a token's activations are one
run of the memory that holds them (d elements: 1.5 KiB for Wan 1.3B in 8 bits), so that it takes no
longer to gather single tokens than to read all of them.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.decisions.trace.token_ranges import RangeDecisions
from carsim.hardware.schedule import Schedule
from carsim.machine.arrays import MachineArrays
from carsim.workload.workload import ReuseSource

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TokenBatches:
    """Tokens that compute. G batches, S forwards, L layers, U ranges of a batch.

    Attributes:
        computing: Tokens of each range that compute, int64[G, S, L, U].
        per_range: Tokens of a range.
        source: Which outputs the others reuse.
    """

    computing: Ints
    per_range: int
    source: ReuseSource

    @property
    def tokens(self) -> int:
        """Image tokens of a batch."""
        return int(self.per_range * self.computing.shape[3])

    @property
    def replay_ratio(self) -> tuple[float, float]:
        """Share of tokens that reuse: of all, and of ranges that reuse in any layer or row."""
        reused = self.per_range - self.computing
        may_reuse = np.broadcast_to(reused.any(axis=2, keepdims=True), reused.shape)
        of_all = float(reused.mean()) / self.per_range
        eligible = int(np.count_nonzero(may_reuse))
        return of_all, float(reused.sum()) / (max(1, eligible) * self.per_range)

    def at_steps(self, steps: NDArray[np.intp], n_batches: int | None = None) -> "TokenBatches":
        """Decisions of some steps, of all batches or of the first ``n_batches``."""
        return replace(self, computing=self.computing[:n_batches, steps])

    def loads(
        self, machine: MachineArrays, schedule: Schedule, part: Ints
    ) -> tuple[Ints, NDArray[np.intp]]:
        """Tokens that each core computes.

        Args:
            machine: The numbers of D designs.
            schedule: Who computes.
            part: Decisions of some batches, steps and layers, int[G, s, l, U].

        Returns:
            P different ones, most loaded core first, int64[P, C]; the one of each layer-step,
            [G, s, l].
        """
        if schedule.central:
            counts, number_of = np.unique(part.sum(axis=-1, dtype=np.int64), return_inverse=True)
            return machine.even_loads(counts), number_of.reshape(part.shape[:-1])
        flat = part.reshape(-1, part.shape[-1])
        different, number_of = np.unique(flat, axis=0, return_inverse=True)
        of_cores = self._of_cores(machine.home_loads.size, different)
        return -np.sort(-of_cores, axis=1), number_of.reshape(part.shape[:-1])

    def _of_cores(self, cores: int, computing: Ints) -> Ints:
        """Tokens of each core where it keeps its own, int64[P, U] -> int64[P, C]."""
        before = np.zeros((len(computing), computing.shape[1] + 1), np.int64)
        np.cumsum(computing, axis=1, out=before[:, 1:])
        first = np.arange(cores + 1) * self.tokens // cores  # of each core, and the end
        number = np.minimum(first // self.per_range, computing.shape[1] - 1)
        within = first - number * self.per_range
        up_to = before[:, number] + computing[:, number] * within // self.per_range
        return np.diff(up_to, axis=1)


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
    return TokenBatches(np.moveaxis(grouped, 2, 0), ranges.per_range, ranges.source)
