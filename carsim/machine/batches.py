"""Cut the rows of a trace into the batches that the machine decodes."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.decisions.replay import FASTCAR, ReplayRule
from carsim.decisions.trace import Decisions, replay_ratio


@dataclass(frozen=True, eq=False)
class Batches:
    """Decisions by batch.

    Attributes:
        replay: bool[G, S, L, B].
        videos_per_batch: Finished videos of one batch: guidance pairs, or rows without guidance.
        left_out_rows: Rows of the trace that fill no batch.
        source: Origin of the decisions.
        label: The same, in one phrase.
        reads: Tokens whose K and V are read where that depends on the data, and in how many runs:
            means over rows and heads, rounded up, int64[G, S, L] each.
        rule: Rule by which they were made; None where nothing is decided.
        method: Name of decoding with them, in tables.
        parts: Those that they are joined of; none if they are a whole.
    """

    replay: NDArray[np.bool_]
    videos_per_batch: int
    left_out_rows: int
    source: str
    label: str
    reads: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    rule: ReplayRule | None = FASTCAR
    method: str = FASTCAR.method
    parts: "tuple[Batches, ...]" = ()
    _distinct: "dict[Hashable, DistinctRows]" = field(default_factory=dict, init=False)
    _codes: dict[Hashable, Any] = field(default_factory=dict, init=False)
    _ratios: dict[int, tuple[float, float]] = field(default_factory=dict, init=False)

    @property
    def every_part(self) -> "tuple[Batches, ...]":
        """Its parts, or itself."""
        return self.parts or (self,)

    @classmethod
    def joined(cls, parts: "Sequence[Batches]") -> "Batches":
        """Decisions side by side, as further batches; of one shape, and made by one rule."""
        replay = np.concatenate([each.replay for each in parts])
        return replace(parts[0], replay=replay, parts=tuple(parts))

    def part(self, steps: NDArray[np.intp], most: int | None = None) -> "Batches":
        """Some steps of all batches, or of the first ``most`` of them."""
        reads = self.reads and (self.reads[0][:most, steps], self.reads[1][:most, steps])
        return replace(self, replay=self.replay[:most, steps], reads=reads)

    def of_layers(self, layers: Sequence[int]) -> "Batches":
        """The same of some layers."""
        if len(layers) == self.replay.shape[2]:
            return self
        reads = self.reads and (self.reads[0][..., layers], self.reads[1][..., layers])
        return replace(self, replay=self.replay[:, :, layers], reads=reads)

    def distinct(self, steps: NDArray[np.intp], group: slice) -> "DistinctRows":
        """The different rows of decisions of some steps and sequences.

        Args:
            steps: Steps, s of them.
            group: Sequences of a batch, W of them.
        """
        key = (steps.tobytes(), group.start, group.stop)
        if key not in self._distinct:
            if key[1:] not in self._codes:
                self._codes[key[1:]] = _codes(self.replay[..., group])
            codes, rows = self._codes[key[1:]]
            run = slice(steps[0], steps[-1] + 1)  # of which a view will do
            codes = codes[:, run if run.stop - run.start == len(steps) else steps]
            each = [np.bincount(of_batch.ravel(), minlength=len(rows)) for of_batch in codes]
            counts = np.array(each, np.int64)
            used = np.flatnonzero(counts.any(axis=0))
            number_of = np.zeros(len(rows), np.intp)
            number_of[used] = np.arange(len(used))
            self._distinct[key] = DistinctRows(rows[used], counts[:, used], codes, number_of)
        return self._distinct[key]

    def replay_ratio(self, steps: int) -> tuple[float, float]:
        """As :func:`carsim.decisions.trace.replay_ratio` with so many steps in a frame."""
        if steps not in self._ratios:
            self._ratios[steps] = replay_ratio(self.replay, steps)
        return self._ratios[steps]

    @cached_property
    def computing_counts(self) -> NDArray[np.int64]:
        """In how many layer-steps of all batches 0, 1, ..., B sequences compute, int64[B + 1]."""
        width = self.replay.shape[-1]
        everyone = self.distinct(np.arange(self.replay.shape[1]), slice(0, width))
        computing, counts = everyone.rows.sum(axis=1), everyone.counts.sum(axis=0)
        return np.bincount(computing, counts, width + 1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """The different rows of decisions. R rows of W sequences, G batches, s steps, L layers.

    Attributes:
        rows: Sequences that compute, bool[R, W].
        counts: Occurrences of each row in each batch, int64[G, R].
        codes: A code of the row of each layer-step, [G, s, L].
        number_of: The number of the row with a code.
    """

    rows: NDArray[np.bool_]
    counts: NDArray[np.int64]
    codes: NDArray[Any]
    number_of: NDArray[np.intp]

    def row_of(self, steps: int | slice = slice(None)) -> NDArray[np.intp]:
        """Index into ``rows`` of each layer-step, [G, s, L], or of those of one step, [G, L]."""
        return self.number_of[self.codes[:, steps]]


def _codes(replay: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Codes of the rows of bool[..., W], and the sequences that compute by code, bool[codes, W].

    Up to 16 sequences have one bit each, the first the highest, and rows that never occur a code.
    """
    width = replay.shape[-1]
    if width > 16:  # a table of all possible rows would be large
        rows = ~replay.reshape(-1, width)
        first, row_of = distinct_rows(np.packbits(rows, axis=-1), 1 << 8)
        return row_of.reshape(replay.shape[:-1]), rows[first]
    computing = ~np.moveaxis(replay, 0, 2)  # as they lie in a trace
    dtype = np.uint8 if width <= 8 else np.uint16
    codes: NDArray[Any] = np.zeros(computing.shape[:-1], dtype)
    if width % 8 == 0:  # a twentieth of the time of the loop
        codes = np.packbits(computing.ravel()).view(f">u{width // 8}").reshape(codes.shape)
    for sequence in range(width if width % 8 else 0):
        codes = codes << 1 | computing[..., sequence]
    codes = np.ascontiguousarray(np.moveaxis(codes, 2, 0), dtype)
    return codes, (np.arange(1 << width)[:, None] >> np.arange(width)[::-1] & 1).astype(np.bool_)


def distinct_rows(rows: NDArray[Any], most: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The different rows of [n, W] whole numbers below ``most``.

    Returns:
        An example of each, and which of them each row is, [n].
    """
    fits = max(1, 62 // max(1, (most - 1).bit_length()))  # columns in a whole number
    if rows.shape[1] > fits:
        parts = [distinct_rows(part, most)[1] for part in (rows[:, :fits], rows[:, fits:])]
        return distinct_rows(np.stack(parts, axis=1), max(2, len(rows)))
    code = rows @ (most ** np.arange(rows.shape[1], dtype=np.int64))
    _, first, index = np.unique(code, return_index=True, return_inverse=True)
    return first, index.ravel()


def renumber(codes: NDArray[np.intp], most: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The different codes below ``most``, sorted, and which of them each code is."""
    if most > 1 << 22:
        used, index = np.unique(codes, return_inverse=True)
        return used, index.reshape(codes.shape)
    there = np.zeros(most, np.bool_)
    there[codes] = True
    used = np.flatnonzero(there)
    return used, (np.cumsum(there) - 1)[codes]


def make_batches(decisions: Decisions, batch: int, tokens_per_step: int = 1) -> Batches:
    """Group rows in their order, guidance pairs kept whole and side by side.

    Where there are pairs, rows outside of them are left out: they are no videos of the same kind.

    Args:
        decisions: Decisions of all rows of a trace.
        batch: Sequences in lockstep.
        tokens_per_step: Tokens of each that a step decodes, a divisor of S; B is the product of
            both, the first tokens of all sequences standing before the second ones.

    Raises:
        InputError: Fewer rows than ``batch``, a batch that would split a pair, or sets of tokens
            where reads were recorded token by token.
    """
    order = [row for pair in decisions.pairs for row in pair] or list(range(decisions.n_rows))
    _check(decisions, batch, tokens_per_step, len(order))
    n_batches = len(order) // batch
    kept = order[: n_batches * batch]
    steps, layers = decisions.replay.shape[:2]
    replay = decisions.replay
    if kept != list(range(decisions.n_rows)):
        replay = np.take(replay, kept, axis=2)
    grouped = replay.reshape(steps, layers, n_batches, batch)

    def mean(of_heads: NDArray[Any]) -> NDArray[np.int64]:  # [S, L, KV, rows] -> [G, S, L]
        # Heads are summed first, which takes a third of the time.
        of_rows = of_heads.sum(axis=2, dtype=np.int64)[..., kept]
        summed = of_rows.reshape(steps, layers, n_batches, batch).sum(axis=-1)
        return np.moveaxis(-(-summed // (of_heads.shape[2] * batch)), 2, 0)

    reads = decisions.reads
    return Batches(
        replay=in_sets(np.moveaxis(grouped, 2, 0), tokens_per_step),
        videos_per_batch=batch // 2 if decisions.pairs else batch,
        left_out_rows=decisions.n_rows - len(kept),
        source=decisions.source,
        label=decisions.label,
        reads=None if reads is None else (mean(reads.tokens), mean(reads.runs)),
        rule=decisions.rule,
        method=decisions.method,
    )


def _check(decisions: Decisions, batch: int, tokens_per_step: int, rows: int) -> None:
    """Refuse batches that ``rows`` rows of a trace cannot fill, or whose reads are not known."""
    if batch > rows:
        kind = "rows in guidance pairs" if rows < decisions.n_rows else "rows"
        problem = f"{batch} sequences are more than the {rows} {kind} of the trace"
        cure = "take a smaller batch, or set `resample_seed` to draw further rows from the trace"
        raise InputError("policy.batch", problem, cure)
    if decisions.pairs and batch % 2:
        problem = f"{batch} sequences would split a guidance pair of the trace"
        raise InputError("policy.batch", problem, "take an even batch")
    if decisions.reads is not None and tokens_per_step > 1:
        problem = "what attention reads was recorded for one token at a time"
        cure = "decode 1 token a step, or take an attention that does not depend on the data"
        raise InputError("policy.tokens_per_step", problem, cure)


def in_sets(replay: NDArray[np.bool_], tokens: int) -> NDArray[np.bool_]:
    """Decisions of sets of consecutive tokens side by side.

    Args:
        replay: bool[G, S, L, B], of single tokens.
        tokens: Tokens of a set, a divisor of S.

    Returns:
        bool[G, S / tokens, L, tokens * B]: the first token of every sequence, then the second.

    >>> in_sets(np.array([[True, False], [False, False]]).reshape(1, 2, 1, 2), 2).ravel()
    array([ True, False, False, False])
    """
    n_batches, steps, layers, batch = replay.shape
    if tokens == 1:
        return replay
    sets = replay.reshape(n_batches, steps // tokens, tokens, layers, batch).swapaxes(2, 3)
    return np.ascontiguousarray(sets.reshape(n_batches, -1, layers, tokens * batch))
