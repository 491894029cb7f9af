"""Inputs of many phases at once: keys that attention reads, and sequences that MLPs compute."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention import PLAIN, AttentionPolicy
from carsim.hardware.schedule import REPLAYS, Schedule
from carsim.machine.batches import distinct_rows
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import Ints

CONTIGUOUS_BYTES = 1 << 16
"""Runs of keys of so many bytes are as good as one: a memory sustains no more for longer ones."""

ASSIGNED = 1 << 20
"""Sequences that are assigned to cores at a time, so that memory is bounded."""


class AttendCases(NamedTuple):
    """Inputs of n attention phases; with the hardware they determine the outcome.

    Attributes:
        attended: Tokens of the KV cache that each query reads, itself included, [n].
        runs: Contiguous runs of the cache in which they lie, [n].
        contexts: Tokens that dense attention would read, [n]; 0 where the policy's own work does
            not depend on them.
        policy: Attention policy, with the cost of its decisions.
        aligned_outside: The cached key that is scored is not among the keys that are read.
        frame_steps: Steps over which the policy's work at the end of a frame is spread; 0 where it
            has none.
    """

    attended: Ints
    runs: Ints
    contexts: Ints
    policy: AttentionPolicy = PLAIN
    aligned_outside: bool = False
    frame_steps: int = 0

    def each(self, change: Callable[[Ints], Ints]) -> "AttendCases":
        """The cases with all of their arrays changed."""
        attended, runs, contexts = map(change, self[:3])
        return self._replace(attended=attended, runs=runs, contexts=contexts)

    def distinct(self) -> tuple["AttendCases", NDArray[np.intp]]:
        """The different cases of many layer-steps, and which of them each is, of the same shape."""
        every = self.each(np.ravel)
        most = 1 + max(int(each.max(initial=0)) for each in every[:3])
        first, number = distinct_rows(np.stack(every[:3], axis=1), most)
        return every.take(first), number.reshape(self.attended.shape)

    def take(self, index: Any) -> "AttendCases":
        """Some of the cases."""
        return self.each(lambda figure: figure[index])

    def chunk_bytes(self, hw: Hardware) -> Ints:
        """Bytes of a run of keys: a power of two, or what is as good as contiguous, [n]."""
        of_all = self.attended * key_bytes(hw, self.policy)
        chunk = np.maximum(1, of_all // np.maximum(1, self.runs))
        power: Ints = 1 << np.log2(chunk).astype(np.int64)
        return np.where(self.runs <= 1, CONTIGUOUS_BYTES, np.minimum(power, CONTIGUOUS_BYTES))

    def alike(self, hw: Hardware) -> "AttendCases":
        """The cases with one number of runs for all that are of one length class.

        Phases depend on runs by their class alone, so that fewer of them differ.
        """
        chunks = self.chunk_bytes(hw)
        runs = np.maximum(1, self.attended * key_bytes(hw, self.policy) // chunks)
        return self._replace(runs=np.where(chunks == CONTIGUOUS_BYTES, 1, runs))


def key_bytes(hw: Hardware, policy: AttentionPolicy) -> int:
    """Bytes of a run for each of its tokens.

    Where heads read alike, the keys of a token lie side by side; where each reads its own, the
    cache lies head by head.
    """
    model, body = hw.design.model, hw.design.model.body
    key: int = model.kv.bytes_of(body.head_dim if policy.records else body.kv_size)
    apart = hw.design.machine.kv_layout != "interleaved"
    return key if apart else key * body.kv_elements // body.kv_size


class MlpCases(NamedTuple):
    """Inputs of n MLP phases; with hardware and schedule they determine the outcome.

    Attributes:
        computing: Sequences that compute, bool[n, B] for the B that are dispatched together.
        known_cycles: Cycles for which decisions have been known when the phase begins, [n], or
            [D, n] on each of D designs; None if nothing was decided.
        home: Core of the first of these sequences, up to attention; the next has the next.
        dense: The layers have one MLP for all tokens, whatever other layers have.
    """

    computing: NDArray[np.bool_]
    known_cycles: Ints | None
    home: int = 0
    dense: bool = False

    def take(self, index: NDArray[Any]) -> "MlpCases":
        """Some of the cases."""
        known = None if self.known_cycles is None else self.known_cycles[..., index]
        return self._replace(computing=self.computing[index], known_cycles=known)

    def alike(self, hw: Hardware, schedule: Schedule) -> Ints:
        """Numbers, [n, k], that are equal in cases with equal outcomes, as cores are alike.

        They are loads, and what travels; where an instruction may have to wait, who computes, too.
        """
        numbers = [*self.loads(hw, schedule)]
        if hw.queue_depth(schedule) is not None:
            numbers.append(self.computing.astype(np.int64))
        return np.concatenate(numbers, axis=1)

    def loads(self, hw: Hardware, schedule: Schedule) -> tuple[Ints, Ints]:
        """Sequences of each core, [n, C], and by lane, how many come from another core, [n, K].

        Cores are alike: the one with the most comes first. Where attention is split, no core is a
        sequence's home: all travel under a central schedule.
        """
        split = hw.mapping.splits_mlp
        both = np.sort(self._by_core(hw, schedule), axis=1)[:, ::-1]
        loads, moved = np.divmod(both, 1 + self.computing.shape[1])
        if hw.mapping.splits_attention:
            moved = loads
        if hw.is_lockstep(split):
            moved = moved.sum(axis=1, keepdims=True)
        return loads, moved * (self.known_cycles is not None and schedule.central and not split)

    def lanes(self, hw: Hardware, schedule: Schedule) -> Ints:
        """The place of each core among those of :meth:`loads`, int64[n, C]."""
        return np.argsort(np.argsort(-self._by_core(hw, schedule), axis=1, kind="stable"), axis=1)

    def _by_core(self, hw: Hardware, schedule: Schedule) -> Ints:
        """Sequences of each core times 1 + B, and those with another home, int64[n, C].

        Parts of the rows are assigned at a time, so that memory is bounded.
        """
        (n, batch), cores = self.computing.shape, hw.design.machine.cores
        both: Ints = np.zeros((n, cores), np.int64)
        for first in range(0, n, max(1, ASSIGNED // batch)):
            part = self.computing[first : first + max(1, ASSIGNED // batch)]
            assigned = hw.assign(schedule, part)
            moves = assigned != hw.home_of(self.home + np.arange(batch))
            # One place more for the sequences that replay.
            place = np.arange(len(assigned))[:, None] * (cores + 1) + assigned - REPLAYS
            size = len(assigned) * (cores + 1)
            found = np.bincount(place.ravel(), 1 + batch + moves.ravel(), minlength=size)
            both[first : first + len(assigned)] = found.reshape(len(assigned), -1)[:, 1:]
        return both
