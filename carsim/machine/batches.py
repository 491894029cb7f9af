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

    def distinct(self, steps: NDArray[np.intp], group: slice) -> "DistinctRows":
        """The different rows of decisions of some steps and sequences.

        Args:
            steps: Steps, s of them.
            group: Sequences of a batch, W of them.
        """
        key = (steps.tobytes(), group.start, group.stop)
        if key not in self._distinct:
            self._distinct[key] = DistinctRows.of(~self.replay[:, steps, :, group])
        return self._distinct[key]

    @cached_property
    def computing_counts(self) -> NDArray[np.int64]:
        """In how many layer-steps of all batches 0, 1, ..., B sequences compute, int64[B + 1]."""
        width = self.replay.shape[-1]
        everyone = self.distinct(np.arange(self.replay.shape[1]), slice(0, width))
        computing = everyone.rows.sum(axis=1)
        return np.bincount(
            computing, weights=everyone.counts.sum(axis=0), minlength=width + 1
        ).astype(np.int64)

    @cached_property
    def _distinct(self) -> "dict[Hashable, DistinctRows]":
        return {}


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """The different rows of decisions. R rows of W sequences, G batches, s steps, L layers.

    Attributes:
        rows: Sequences that compute, bool[R, W].
        counts: How often each row occurs in each batch, int64[G, R].
        codes: A code of the row of each layer-step, [G, s, L].
        number_of: The number of the row with a code.
    """

    rows: NDArray[np.bool_]
    counts: NDArray[np.int64]
    codes: NDArray[Any]
    number_of: NDArray[np.intp]

    @property
    def row_of(self) -> NDArray[np.intp]:
        """Which of the R rows each layer-step has, [G, s, L]."""
        found: NDArray[np.intp] = self.number_of[self.codes]
        return found

    @classmethod
    def of(cls, computing: NDArray[np.bool_]) -> "DistinctRows":
        """The different rows of bool[G, s, L, W]."""
        width = computing.shape[-1]
        packed = np.packbits(computing, axis=-1)
        codes: NDArray[Any]
        if packed.shape[-1] <= 2:
            codes = packed.view(f">u{packed.shape[-1]}")[..., 0]
            most = 1 << 8 * packed.shape[-1]
        else:  # a table of all possible rows would be large
            flat = packed.reshape(-1, packed.shape[-1])
            different, row_of = np.unique(flat, axis=0, return_inverse=True)
            codes = row_of.reshape(computing.shape[:-1])
            counts = _counts(codes, len(different))
            rows = np.unpackbits(different, axis=-1, count=width).astype(np.bool_)
            return cls(rows, counts, codes, np.arange(len(different)))
        counts = _counts(codes, most)
        used = np.flatnonzero(counts.any(axis=0))
        bits = used.astype(codes.dtype)[:, None].view(np.uint8)
        rows = np.unpackbits(bits, axis=-1, count=width).astype(np.bool_)
        number_of = np.zeros(most, np.intp)
        number_of[used] = np.arange(len(used))
        return cls(rows, counts[:, used], codes, number_of)


def _counts(codes: NDArray[Any], most: int) -> NDArray[np.int64]:
    """How often each code below ``most`` occurs in each batch, [G, most]."""
    return np.array([np.bincount(each.ravel(), minlength=most) for each in codes], np.int64)


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
