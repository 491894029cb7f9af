"""Cut the rows of a trace into the batches that the machine decodes."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.errors import InputError
from carsim.trace import Decisions


@dataclass(frozen=True, eq=False)
class Batches:
    """Decisions by batch.

    Attributes:
        replay: bool[G, S, L, B].
        videos_per_batch: Finished videos of one batch: guidance pairs, or rows without guidance.
        left_out_rows: Rows of the trace that fill no batch.
        source: Where the decisions come from.
        label: The same, in one phrase.
        reads: Tokens whose K and V are read where that depends on the data, and in how many runs:
            means over rows and heads, rounded up, int64[G, S, L] each.
    """

    replay: NDArray[np.bool_]
    videos_per_batch: int
    left_out_rows: int
    source: str
    label: str
    reads: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def distinct(
        self, steps: NDArray[np.intp], group: slice
    ) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """The different rows of decisions of some steps and sequences.

        Args:
            steps: Steps, s of them.
            group: Sequences of a batch, W of them.

        Returns:
            Sequences that compute, bool[R, W], and which of the R each layer-step has, [G, s, L].
        """
        key = (steps.tobytes(), group.start, group.stop)
        if key not in self._distinct:
            self._distinct[key] = _distinct(~self.replay[:, steps, :, group])
        return self._distinct[key]

    @cached_property
    def _distinct(self) -> dict[Hashable, tuple[NDArray[np.bool_], NDArray[np.intp]]]:
        return {}


def _distinct(bits: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """The different rows of the last axis, and which of them each row is."""
    shape, width = bits.shape[:-1], bits.shape[-1]
    rows = bits.reshape(-1, width)
    if width > 16:  # a table of all possible rows would be large
        packed = np.packbits(rows, axis=1)
        _, first, row_of = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    else:
        code = rows @ (1 << np.arange(width))
        example = np.full(1 << width, -1, np.intp)
        example[code] = np.arange(len(code))
        there = example >= 0
        first, row_of = example[there], (np.cumsum(there) - 1)[code]
    return rows[first], row_of.reshape(shape)


def make_batches(decisions: Decisions, batch: int) -> Batches:
    """Group rows in their order, guidance pairs kept whole and side by side.

    Where there are pairs, rows outside of them are left out: they are no videos of the same kind.

    Args:
        decisions: Decisions of all rows of a trace.
        batch: B, sequences in lockstep.

    Raises:
        InputError: Fewer rows than ``batch``, or a batch that would split a pair.
    """
    paired = [row for pair in decisions.pairs for row in pair]
    order = paired or list(range(decisions.n_rows))
    if batch > len(order):
        kind = "rows in guidance pairs" if len(order) < decisions.n_rows else "rows"
        raise InputError(
            "policy.batch",
            f"{batch} sequences are more than the {len(order)} {kind} of the trace",
            "take a smaller batch, or pass --resample to draw further rows from the trace",
        )
    if decisions.pairs and batch % 2:
        raise InputError(
            "policy.batch",
            f"{batch} sequences would split a guidance pair of the trace",
            "take an even batch",
        )
    n_batches = len(order) // batch
    kept = order[: n_batches * batch]
    steps, layers = decisions.replay.shape[:2]
    grouped = decisions.replay[:, :, kept].reshape(steps, layers, n_batches, batch)

    def mean(of_heads: NDArray[Any]) -> NDArray[np.int64]:  # [S, L, KV, rows] -> [G, S, L]
        of_batch = of_heads[..., kept].reshape(*of_heads.shape[:3], n_batches, batch)
        summed = of_batch.sum(axis=(2, 4), dtype=np.int64)
        return np.moveaxis(-(-summed // (of_heads.shape[2] * batch)), 2, 0)

    reads = decisions.reads
    return Batches(
        replay=np.ascontiguousarray(np.moveaxis(grouped, 2, 0)),
        videos_per_batch=batch // 2 if decisions.pairs else batch,
        left_out_rows=decisions.n_rows - len(kept),
        source=decisions.source,
        label=decisions.label,
        reads=None if reads is None else (mean(reads.tokens), mean(reads.runs)),
    )
