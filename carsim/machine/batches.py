"""Cut the rows of a trace into the batches that the machine decodes."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.decisions.replay import FASTCAR, ReplayRule
from carsim.decisions.trace import Decisions, replay_ratio
from carsim.machine.numbering import distinct_rows
from carsim.machine.token_batches import TokenBatches, token_batches
from carsim.program.program import TOKEN


@dataclass(frozen=True, eq=False)
class Batches:
    """Decisions by batch.

    G batches, S steps, L layers, B rows: tokens of one step, of all sequences of a batch.

    Attributes:
        replay: Rows that replay, bool[G, S, L, B].
        videos_per_batch: Finished videos of one batch: guidance pairs, or rows without guidance.
        left_out_rows: Rows of the trace that fill no batch.
        source: Origin of the decisions.
        label: Origin of the decisions in one phrase, for tables.
        reads: Tokens whose K and V are read where that depends on the data, and in how many runs:
            means over rows and heads, rounded up, int64[G, S, L] each.
        rule: Rule by which they were made; None where nothing is decided.
        method: Name of decoding with them, in tables.
        joined_from: Batches of several sets of decisions that were joined into these; empty if
            none were.
        further: Decisions beside these, by name: bool[G, S, L, B] each.
        further_rules: Rules by which those were made, by name.
        tokens: Decisions by range of tokens, of which ``replay`` has the rows that wholly reuse;
            None where whole rows decide.
    """

    replay: NDArray[np.bool_]
    videos_per_batch: int
    left_out_rows: int
    source: str
    label: str
    reads: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    rule: ReplayRule | None = FASTCAR
    method: str = FASTCAR.method
    joined_from: "tuple[Batches, ...]" = ()
    further: "Mapping[str, NDArray[np.bool_]]" = field(default_factory=dict)
    further_rules: "tuple[tuple[str, ReplayRule], ...]" = ()
    tokens: TokenBatches | None = None
    # Batches that lie side by side in `replay`, whose codes serve; `replace` leaves them out.
    _side_by_side: "list[Batches]" = field(default_factory=list, init=False)
    _distinct: "dict[Hashable, DistinctPatterns]" = field(default_factory=dict, init=False)
    _coded_groups: "dict[Hashable, CodedPatterns]" = field(default_factory=dict, init=False)
    _of_layers: "dict[tuple[int, ...], Batches]" = field(default_factory=dict, init=False)
    _ratios: dict[int, tuple[float, float]] = field(default_factory=dict, init=False)

    @property
    def members(self) -> "tuple[Batches, ...]":
        """The batches that were joined into these, or these themselves."""
        return self.joined_from or (self,)

    @classmethod
    def joined(cls, members: "Sequence[Batches]") -> "Batches":
        """Several sets of decisions side by side; of one shape, and made by one rule."""
        replay = np.concatenate([member.replay for member in members])
        further = {
            name: np.concatenate([member.further[name] for member in members])
            for name in members[0].further
        }
        tokens = members[0].tokens
        if tokens is not None:
            computing = [member.tokens.computing for member in members if member.tokens is not None]
            tokens = replace(tokens, computing=np.concatenate(computing))
        together = replace(
            members[0],
            replay=replay,
            joined_from=tuple(members),
            further=further,
            tokens=tokens,
        )
        together._side_by_side.extend(members)
        return together

    def by_name(self, names: Iterable[str]) -> "dict[str, Batches]":
        """The decisions of some names; where there are none of a name, all rows compute."""
        return {name: self._of_name(name) for name in names}

    def _of_name(self, name: str) -> "Batches":
        """The decisions of a name, of all members that were joined."""
        if name == TOKEN:
            return self
        members = tuple(
            replace(member, replay=member._further(name), joined_from=(), further={}, tokens=None)
            for member in self.joined_from
        )
        return replace(
            self, replay=self._further(name), joined_from=members, further={}, tokens=None
        )

    def _further(self, name: str) -> NDArray[np.bool_]:
        """Rows that replay by a decision, bool[G, S, L, B]; none where it is not there."""
        return self.further.get(name, np.zeros_like(self.replay))

    def whole_forwards(self, n_steps: int) -> NDArray[np.bool_]:
        """Forwards that reuse the last one as a whole beside tokens of the others, bool[S].

        Args:
            n_steps: S.
        """
        if self.tokens is None or self.tokens.whole_forwards is None:
            return np.zeros(n_steps, np.bool_)
        return self.tokens.whole_forwards

    @property
    def by_rows(self) -> "Batches":
        """The decisions of whole rows alone: of forwards in which no token decides by itself."""
        members = tuple(replace(member, joined_from=(), tokens=None) for member in self.joined_from)
        return replace(self, joined_from=members, tokens=None)

    def at_steps(self, steps: NDArray[np.intp], n_batches: int | None = None) -> "Batches":
        """Decisions of some steps, of all batches or of the first ``n_batches``."""
        reads = self.reads
        if reads is not None:
            tokens, runs = reads
            reads = (tokens[:n_batches, steps], runs[:n_batches, steps])
        further = {name: replay[:n_batches, steps] for name, replay in self.further.items()}
        by_token = None if self.tokens is None else self.tokens.at_steps(steps, n_batches)
        replay = self.replay[:n_batches, steps]
        return replace(self, replay=replay, reads=reads, further=further, tokens=by_token)

    def of_layers(self, layers: Sequence[int]) -> "Batches":
        """Decisions of the layers with the numbers ``layers``, all batches and steps."""
        if len(layers) == self.replay.shape[2]:
            return self
        key = tuple(layers)
        if key not in self._of_layers:
            reads = self.reads
            if reads is not None:
                tokens, runs = reads
                reads = tokens[..., layers], runs[..., layers]
            chosen = replace(self, replay=self.replay[:, :, layers], reads=reads)
            chosen._side_by_side.extend(part.of_layers(layers) for part in self._side_by_side)
            self._of_layers[key] = chosen
        return self._of_layers[key]

    def distinct_patterns(
        self, steps: NDArray[np.intp], group: slice, *, by_step: bool = False
    ) -> "DistinctPatterns":
        """The different patterns of decisions in some steps: which rows of a group compute.

        Args:
            steps: Steps, s of them.
            group: Rows of a batch, W of them.
            by_step: Count them in each step, too, if that is no larger than the decisions.
        """
        key = (steps.tobytes(), group.start, group.stop, by_step)
        if key not in self._distinct:
            coded = self._coded(group)
            self._distinct[key] = coded.patterns_at(steps, by_step=by_step)
        return self._distinct[key]

    def _coded(self, group: slice) -> "CodedPatterns":
        """Codes of the patterns of all layer-steps, kept for all runs on these decisions."""
        key = (group.start, group.stop)
        if key not in self._coded_groups:
            self._coded_groups[key] = self._joined_codes(group) or CodedPatterns(
                *_codes(self.replay[..., group])
            )
        return self._coded_groups[key]

    def _joined_codes(self, group: slice) -> "CodedPatterns | None":
        """Codes of the batches side by side, which keep theirs; None unless codes are of one table.

        Else every hardware of a sweep over thresholds would code them anew.
        """
        parts = [part._coded(group) for part in self._side_by_side]
        if len({id(part.computing) for part in parts}) != 1:
            return None
        return CodedPatterns.joined(parts)

    def replay_ratio(self, steps: int) -> tuple[float, float]:
        """Replay ratios of these decisions: of all steps, and of those that may replay.

        Args:
            steps: Steps of a frame.
        """
        if self.tokens is not None:
            return self.tokens.replay_ratio
        if steps not in self._ratios:
            self._ratios[steps] = replay_ratio(self.replay, steps)
        return self._ratios[steps]

    @cached_property
    def idle_layers(self) -> NDArray[np.int64]:
        """Layers of each step in which all sequences replay, int64[G, S]."""
        return self.replay.all(axis=-1).sum(axis=-1, dtype=np.int64)

    @cached_property
    def computing_by_step(self) -> NDArray[np.int64]:
        """Layers of all batches in which 0, 1, ..., B sequences compute, int64[S, B + 1]."""
        n_steps = self.replay.shape[1]
        width = self.replay.shape[-1]
        computing = width - self.replay.sum(axis=-1, dtype=np.int64)
        code = (width + 1) * np.arange(n_steps)[:, None] + computing
        counts = np.bincount(code.ravel(), minlength=n_steps * (width + 1))
        return counts.reshape(n_steps, width + 1)

    @cached_property
    def computing_counts(self) -> NDArray[np.int64]:
        """In how many layer-steps of all batches 0, 1, ..., B sequences compute, int64[B + 1]."""
        width = self.replay.shape[-1]
        coded = self._coded(slice(0, width))
        counts = coded.counts.sum(axis=0)
        codes = np.flatnonzero(counts)  # of 16 rows, a tenth of all codes or fewer
        n_computing = coded.computing[codes].sum(axis=1)
        return np.bincount(n_computing, counts[codes], width + 1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class DistinctPatterns:
    """The different patterns of decisions. P patterns of W rows, G batches, s steps, L layers.

    A pattern says which rows of a layer-step compute.

    Attributes:
        computing: Rows that compute, bool[P, W].
        counts: Occurrences of each pattern in each batch, int64[G, P].
        codes: A code of the pattern of each layer-step, [G, s, L].
        number_of: The number of the pattern with a code.
        counts_by_step: Occurrences of each pattern in each step, int64[G, P, s]; None where nobody
            asks, or where that is more than the decisions themselves.
    """

    computing: NDArray[np.bool_]
    counts: NDArray[np.int64]
    codes: NDArray[Any]
    number_of: NDArray[np.intp]
    counts_by_step: NDArray[np.int64] | None = None

    def pattern_of(self) -> NDArray[np.intp]:
        """Number of the pattern of each layer-step, [G, s, L]."""
        return self.number_of[self.codes]


@dataclass(frozen=True, eq=False)
class CodedPatterns:
    """Codes of the patterns of all layer-steps, and their counts. G batches, S steps, L layers.

    Attributes:
        codes: The code of each layer-step, [G, S, L].
        computing: Rows that compute, by code, bool[codes, W].
    """

    codes: NDArray[Any]
    computing: NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: "Sequence[CodedPatterns]") -> "CodedPatterns":
        """Codes of the batches of all parts, of one table of patterns, and counts if known."""
        together = cls(np.concatenate([part.codes for part in parts]), parts[0].computing)
        for name in ("counts", "counts_by_step"):
            counted = [vars(part)[name] for part in parts if name in vars(part)]
            if len(counted) == len(parts):
                vars(together)[name] = np.concatenate(counted)
        return together

    def patterns_at(self, steps: NDArray[np.intp], *, by_step: bool) -> DistinctPatterns:
        """The patterns that occur in some steps; see :meth:`Batches.distinct_patterns`."""
        n_codes = len(self.computing)
        by_step = by_step and n_codes <= self.codes.shape[2]
        counts_by_step = self.counts_by_step[..., steps] if by_step else None
        counts = self._counts_at(steps) if counts_by_step is None else counts_by_step.sum(axis=2)
        used = np.flatnonzero(counts.any(axis=0))
        number_of = np.zeros(n_codes, np.intp)
        number_of[used] = np.arange(len(used))
        return DistinctPatterns(
            computing=self.computing[used],
            counts=counts[:, used],
            codes=_at_steps(self.codes, steps),
            number_of=number_of,
            counts_by_step=None if counts_by_step is None else counts_by_step[:, used],
        )

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Occurrences of each code, int64[G, codes]."""
        if "counts_by_step" in vars(self):  # counted already
            return self.counts_by_step.sum(axis=2)
        return _count(self.codes, len(self.computing))

    @cached_property
    def counts_by_step(self) -> NDArray[np.int64]:
        """Occurrences of each code in each step, int64[G, codes, S].

        A run whose phases depend on the step looks at G S codes numbers, instead of G S L
        layer-steps: with 2 rows and 32 layers, at an eighth.
        """
        n_batches, n_steps, _ = self.codes.shape
        n_codes = len(self.computing)
        step = np.arange(n_steps)[:, None]
        by_batch = []
        for codes in self.codes:  # one batch fits into a cache
            numbers = n_steps * codes.astype(np.intp) + step
            by_batch.append(np.bincount(numbers.ravel(), minlength=n_codes * n_steps))
        return np.array(by_batch, np.int64).reshape(n_batches, n_codes, n_steps)

    def _counts_at(self, steps: NDArray[np.intp]) -> NDArray[np.int64]:
        """Occurrences of each code in some steps, int64[G, codes].

        Most runs ask for the steps with decisions, for those without, and for all. All are counted
        once, and most of them by leaving out the others: of two passes, one is left.
        """
        n_codes = len(self.computing)
        n_steps = self.codes.shape[1]
        if 2 * len(steps) <= n_steps:
            return _count(_at_steps(self.codes, steps), n_codes)
        if len(steps) == n_steps:
            return self.counts
        other_steps = np.setdiff1d(np.arange(n_steps), steps, assume_unique=True)
        return self.counts - _count(_at_steps(self.codes, other_steps), n_codes)


def _at_steps(codes: NDArray[Any], steps: NDArray[np.intp]) -> NDArray[Any]:
    """Codes [G, S, L] at some steps."""
    first_step = steps[0]
    end_step = steps[-1] + 1
    if end_step - first_step == len(steps):
        return codes[:, first_step:end_step]  # a view, where an index would copy
    return codes[:, steps]


def _count(codes: NDArray[Any], n_codes: int) -> NDArray[np.int64]:
    """Occurrences of each code in each batch, [G, ...] -> int64[G, codes]."""
    by_batch = [np.bincount(of_batch.ravel(), minlength=n_codes) for of_batch in codes]
    return np.array(by_batch, np.int64)


def _codes(replay: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Codes of the patterns of bool[..., W], and the rows that compute by code, bool[codes, W].

    Up to 16 rows have one bit each, the first the highest; patterns that never occur have a code.
    """
    width = replay.shape[-1]
    if width > 16:  # a table of all possible patterns would be large
        patterns = ~replay.reshape(-1, width)
        example_of, pattern_of = distinct_rows(np.packbits(patterns, axis=-1), 1 << 8)
        return pattern_of.reshape(replay.shape[:-1]), patterns[example_of]
    computing = ~np.moveaxis(replay, 0, 2)  # as they lie in a trace
    dtype = np.uint8 if width <= 8 else np.uint16
    codes: NDArray[Any]
    if width % 8 == 0:  # a tenth of the time of the loop
        codes = np.packbits(computing.ravel()).view(f">u{width // 8}").reshape(computing.shape[:-1])
    else:
        codes = computing[..., 0].astype(dtype)
        for row in range(1, width):
            codes += codes
            codes += computing[..., row]
    return np.ascontiguousarray(np.moveaxis(codes, 2, 0), dtype), _computing_by_code(width)


@cache
def _computing_by_code(width: int) -> NDArray[np.bool_]:
    """Rows that compute, by code, bool[codes, W]. Made once: of 16 rows, it takes 1.3 ms."""
    bit_of_row = np.arange(width)[::-1]
    computes = np.arange(1 << width)[:, None] >> bit_of_row & 1
    computing: NDArray[np.bool_] = computes.astype(np.bool_)
    computing.flags.writeable = False
    return computing


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
    batched_rows = order[: n_batches * batch]
    steps, layers = decisions.replay.shape[:2]
    replay = decisions.replay
    if batched_rows != list(range(decisions.n_rows)):
        replay = np.take(replay, batched_rows, axis=2)
    grouped = replay.reshape(steps, layers, n_batches, batch)
    further = {}
    for name, further_replay in decisions.further.items():
        of_rows = np.take(further_replay, batched_rows, axis=2)
        further[name] = np.moveaxis(of_rows.reshape(steps, layers, n_batches, batch), 2, 0)

    def mean(of_heads: NDArray[Any]) -> NDArray[np.int64]:  # [S, L, KV, rows] -> [G, S, L]
        """Mean over the heads and rows of each batch, rounded up."""
        # Heads are summed first, which takes a third of the time.
        of_rows = of_heads.sum(axis=2, dtype=np.int64)[..., batched_rows]
        summed = of_rows.reshape(steps, layers, n_batches, batch).sum(axis=-1)
        return np.moveaxis(-(-summed // (of_heads.shape[2] * batch)), 2, 0)

    reads = decisions.reads
    rows_per_video = decisions.rows_per_video or (2 if decisions.pairs else 1)
    tokens = None
    if decisions.ranges is not None:
        tokens = token_batches(decisions.ranges, batched_rows, batch, decisions.n_rows)
    return Batches(
        replay=in_sets(np.moveaxis(grouped, 2, 0), tokens_per_step),
        videos_per_batch=batch // rows_per_video,
        left_out_rows=decisions.n_rows - len(batched_rows),
        source=decisions.source,
        label=decisions.label,
        reads=None if reads is None else (mean(reads.tokens), mean(reads.runs)),
        rule=decisions.rule,
        method=decisions.method,
        further=further,
        further_rules=decisions.further_rules,
        tokens=tokens,
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
