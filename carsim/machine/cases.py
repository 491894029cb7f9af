"""Inputs of many phases of a block at once: tokens that are read, and rows that compute."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention import AttentionPolicy
from carsim.hardware.schedule import REPLAYS, Schedule
from carsim.machine.across import sum_across
from carsim.machine.arrays import MachineArrays
from carsim.machine.lanes import Ints
from carsim.machine.numbering import Index, distinct, distinct_rows
from carsim.program.reads import Reads, Some

CONTIGUOUS_BYTES = 1 << 16
"""Runs of keys of so many bytes are as good as one: a memory sustains no more for longer ones."""

ASSIGNED = 1 << 20
"""Sequences that are assigned to cores at a time, so that memory is bounded."""


def reads_side_by_side(policy: AttentionPolicy) -> bool:
    """All heads of a row read the same keys, which lie side by side in the cache."""
    return policy.heads_alike or not policy.records


def key_bytes(machine: MachineArrays, policy: AttentionPolicy) -> int:
    """Bytes of a run for each of its tokens.

    Where heads read alike, the keys of a token lie side by side; where each reads its own, the
    cache lies head by head.
    """
    model = machine.model
    model = model.with_key_heads(policy.kept_key_heads(model.body.n_kv_heads))
    body = model.body
    key = int(model.kv.bytes_of(body.kv_size if reads_side_by_side(policy) else body.head_dim))
    is_interleaved = machine.kv_layout == "interleaved"
    return key * body.kv_elements // body.kv_size if is_interleaved else key


def chunk_bytes(machine: MachineArrays, reads: Reads) -> Ints:
    """Bytes of a run of keys: a power of two, or what is as good as contiguous, [n]."""
    nbytes = reads.attended * key_bytes(machine, reads.policy)
    chunk = np.maximum(1, nbytes // np.maximum(1, reads.runs))
    power: Ints = 1 << np.log2(chunk).astype(np.int64)
    return np.where(reads.runs <= 1, CONTIGUOUS_BYTES, np.minimum(power, CONTIGUOUS_BYTES))


def with_usual_runs(machine: MachineArrays, reads: Reads) -> Reads:
    """The reads with one number of runs for all that are of one length class.

    Phases depend on runs by their class alone, so that fewer of them differ.
    """
    chunks = chunk_bytes(machine, reads)
    runs = np.maximum(1, reads.attended * key_bytes(machine, reads.policy) // chunks)
    return reads._replace(runs=np.where(chunks == CONTIGUOUS_BYTES, 1, runs))


def distinct_reads(reads: Sequence[Reads]) -> tuple[list[Reads], NDArray[np.intp]]:
    """The different cases of what one or several blocks read in many layer-steps.

    Args:
        reads: What each block reads; arrays of one shape, one number for each layer-step.

    Returns:
        What each block reads in the n different cases; the case of each layer-step, of that shape.
    """
    columns: list[Ints] = []
    for reads_of_block in reads:
        columns += map(
            np.ravel, (reads_of_block.attended, reads_of_block.runs, reads_of_block.contexts)
        )
    most = 1 + max(int(column.max(initial=0)) for column in columns)
    example_of, case_of = distinct_rows(np.stack(columns, axis=1), most)
    cases = [reads_of_block.change(np.ravel).take(example_of) for reads_of_block in reads]
    return cases, case_of.reshape(reads[0].attended.shape)


class RowCases(NamedTuple):
    """Rows of n phases; with machine, block and schedule they determine who does what.

    Attributes:
        computing: Rows that compute, bool[n, W] for the W that are dispatched together.
        known_cycles: Cycles for which decisions have been known when the phase begins, [n], or
            [D, n] on each of D designs; None if nothing was decided.
        home: Core of the first of these rows in front of the phase; the next has the next.
    """

    computing: NDArray[np.bool_]
    known_cycles: Ints | None
    home: int = 0

    def take(self, index: Some) -> "RowCases":
        """Take some of the cases."""
        known_cycles = None if self.known_cycles is None else self.known_cycles[..., index]
        return self._replace(computing=self.computing[index], known_cycles=known_cycles)

    def on_design(self, number: int) -> "RowCases":
        """The cases on one of D designs."""
        if self.known_cycles is None or self.known_cycles.ndim == 1:
            return self
        n_designs = len(self.known_cycles)
        return self._replace(known_cycles=self.known_cycles[number if n_designs > 1 else 0])

    def load_figures(self, machine: MachineArrays, schedule: Schedule, *, split: bool) -> Ints:
        """Numbers, [n, k], that are equal in cases with equal outcomes, as cores are alike.

        They are loads, and what travels; where an instruction may have to wait, who computes, too.
        """
        numbers = [*self.loads(machine, schedule, split=split)]
        if machine.queue_depth(schedule) is not None:
            numbers.append(self.computing.astype(np.int64))
        return np.concatenate(numbers, axis=1)

    def loads(
        self, machine: MachineArrays, schedule: Schedule, *, split: bool
    ) -> tuple[Ints, Ints]:
        """Rows of each core, [n, C], and by lane, how many come from another core, [n, K].

        Cores are alike: the one with the most comes first. Where attention is split, no core is a
        sequence's home: all travel under a central schedule.

        Args:
            machine: The numbers of D designs.
            schedule: Assignment of rows to cores.
            split: The matrices of the block are split over the cores.
        """
        example_of, pattern_of = self._patterns()
        patterns = self._replace(computing=self.computing[example_of])
        loads, moved = patterns._loads_of_patterns(machine, schedule, split=split)
        return loads[pattern_of], moved[pattern_of]

    def _patterns(self) -> tuple[Index, Index]:
        """An example of each different set of rows that compute; the pattern of each case, [n]."""
        codes = np.packbits(self.computing, axis=1)
        return distinct(codes.T.astype(np.int64))

    def _loads_of_patterns(
        self, machine: MachineArrays, schedule: Schedule, *, split: bool
    ) -> tuple[Ints, Ints]:
        """Rows of each core, and those from another core; see :meth:`loads`."""
        both = np.sort(self._by_core(machine, schedule), axis=1)[:, ::-1]
        loads, moved = np.divmod(both, 1 + self.computing.shape[1])
        if machine.mapping.splits_attention:
            moved = loads
        if machine.is_lockstep(split):
            moved = sum_across(moved)[:, None]
        travels = self.known_cycles is not None and schedule.central and not split
        return loads, moved * travels

    def lanes(self, machine: MachineArrays, schedule: Schedule) -> Ints:
        """The lane of each core: its rank among those of :meth:`loads`, int64[n, C]."""
        by_core = self._by_core(machine, schedule)
        return np.argsort(np.argsort(-by_core, axis=1, kind="stable"), axis=1)

    def _by_core(self, machine: MachineArrays, schedule: Schedule) -> Ints:
        """Rows of each core times 1 + W, plus those with another home, int64[n, C].

        Parts of the cases are assigned at a time, so that memory is bounded.
        """
        n, width = self.computing.shape
        cores = machine.cores
        both: Ints = np.zeros((n, cores), np.int64)
        at_once = max(1, ASSIGNED // width)
        for first in range(0, n, at_once):
            assigned = machine.assign(schedule, self.computing[first : first + at_once])
            moves = assigned != machine.home_of(self.home + np.arange(width))
            # One column more, the first, for the rows that replay.
            column = np.arange(len(assigned))[:, None] * (cores + 1) + assigned - REPLAYS
            size = len(assigned) * (cores + 1)
            weights = 1 + width + moves.ravel()
            counted = np.bincount(column.ravel(), weights, minlength=size)
            both[first : first + len(assigned)] = counted.reshape(len(assigned), -1)[:, 1:]
        return both


class TokenCases(NamedTuple):
    """Tokens of n phases of a block of a forward, some of which reuse an earlier output.

    Attributes:
        loads: Image tokens that each core computes, most loaded first, int64[n, C].
        of: Image tokens of all rows.
    """

    loads: Ints
    of: int

    @property
    def computing(self) -> Ints:
        """Image tokens that compute, [n]."""
        total: Ints = self.loads.sum(axis=1)
        return total


class Cases(NamedTuple):
    """n phases of a block.

    Attributes:
        reads: Tokens that each reads; None for a block that reads none.
        rows: Rows that compute; None where all rows do.
        arrives: Rows may come from another core: the block is the first of its section.
        tokens: Tokens that compute, where ranges of tokens decide, and not whole rows.
    """

    reads: Reads | None = None
    rows: RowCases | None = None
    arrives: bool = True
    tokens: TokenCases | None = None

    @property
    def n(self) -> int:
        """Cases."""
        if self.tokens is not None:
            return len(self.tokens.loads)
        if self.rows is not None:
            return len(self.rows.computing)
        return 1 if self.reads is None else self.reads.n

    def take(self, index: Some) -> "Cases":
        """Take some of the cases."""
        return self._replace(
            reads=None if self.reads is None else self.reads.take(index),
            rows=None if self.rows is None else self.rows.take(index),
            tokens=None
            if self.tokens is None
            else self.tokens._replace(loads=self.tokens.loads[index]),
        )

    def on_design(self, number: int) -> "Cases":
        """The cases on one of D designs."""
        return self._replace(rows=None if self.rows is None else self.rows.on_design(number))
