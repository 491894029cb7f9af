"""An attention policy, as the YAML, the trace, the decoder and the machine see it: one class.

Letters in shapes: B rows, L layers, H query heads, KV key heads, hd head size, S decode steps,
T frames, N tokens per frame, P prompt slots. A *slot* is a place in the cache. Rows are padded on
the left, so that row b holds its first token in slot ``padding[b]``, and the newest token of every
row stands in the same slot ``end - 1``. The *context* of a token is the number of tokens that dense
attention would read, the token itself included: ``end - padding[b]``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from carsim.base.section import FieldError, Section

Array = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]
Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class KvReads:
    """Cached keys that attention reads (and as many values), arrays of one shape.

    Attributes:
        tokens: Number of keys, the token's own included.
        runs: Number of contiguous runs of the cache in which they lie.
    """

    tokens: Ints
    runs: Ints


@dataclass(frozen=True, eq=False)
class SideWork:
    """Work of one row in one layer of one step besides attention itself; numbers or arrays.

    Attributes:
        macs: Multiplications with addition, such as scores of pooled keys.
        element_ops: Operations of the vector unit.
        bytes_read: Read from the memory that holds the KV cache, such as pooled keys.
        bytes_written: Written to it.
        scan_cycles: Serial cycles before the first key can be fetched, such as a top-k. Where
            there are any, they follow the work above, and keys are asked for after them.
        kv_elements: Elements of keys and values read or written, in the cache's own precision.
    """

    macs: Ints | int = 0
    element_ops: Ints | int = 0
    bytes_read: Ints | int = 0
    bytes_written: Ints | int = 0
    scan_cycles: Ints | int = 0
    kv_elements: Ints | int = 0


@dataclass(frozen=True)
class SelectionUnit:
    """Logic of one core that decides which keys are fetched; a technology knows what it takes.

    Attributes:
        comparator_bits: Widths of all comparators, added up.
        buffer_bytes: On-chip list of what is fetched, and other data of its own.
        word_bits: Width of that buffer.
    """

    comparator_bits: int = 0
    buffer_bytes: int = 0
    word_bits: int = 0


@dataclass(frozen=True, eq=False)
class CacheShape:
    """The cache of a decoding that begins, for policies that keep a state of their own.

    Attributes:
        n_layers: L.
        n_heads: H.
        n_kv_heads: KV.
        head_dim: hd.
        tokens_per_frame: N.
        prompt_slots: P.
        n_slots: P + S.
        padding: int[B], padding slots of each row.
        rope_theta: Base of the rotary embedding, for policies that turn keys back.
        dtype: Arithmetic.
    """

    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    tokens_per_frame: int
    prompt_slots: int
    n_slots: int
    padding: Ints
    rope_theta: float
    dtype: Any

    @property
    def n_rows(self) -> int:
        """B."""
        return len(self.padding)


@dataclass(frozen=True, eq=False)
class Query:
    """The newest token of every row in one layer. Arrays are the decoder's own: do not write.

    Attributes:
        q: Query before the rotary embedding, [B, H, hd]; head h is served by key head h * KV // H.
        q_rotated: Query after it.
        keys: Cached rotated keys, the newest included, [B, KV, end, hd].
        padding: int[B].
    """

    q: Array
    q_rotated: Array
    keys: Array
    padding: Ints

    @property
    def end(self) -> int:
        """Slots in use."""
        return int(self.keys.shape[2])


@dataclass(frozen=True, eq=False)
class Selection:
    """Cached keys that one step reads: a window up to the newest slot, and single slots before it.

    Padding is never read, whatever is selected.

    Attributes:
        start: First slot of the window.
        extra: int[B, n], slots before ``start`` that are read too; others in it are ignored, so
            that no token counts twice.
        mask: bool[B, KV, end - start] (B and KV may be 1), False where the window is not read; None
            reads all of it. Every row and head must read something.
        bias: Added to the scores of the window, of the same shape as ``mask``, such as the log of
            the number of merged tokens for which a key stands.
        stored: bool of the same shape, False where the cache has dropped or merged a token: it is
            not read, and since the cache is compacted, it does not part a run.
    """

    start: int = 0
    extra: Ints | None = None
    mask: Bools | None = None
    bias: Array | None = None
    stored: Bools | None = None

    def read(self, padding: Ints, end: int, n_kv_heads: int) -> Bools:
        """bool[KV, B, end]: the slots that are read."""
        slots = np.arange(end)
        read = np.ones((n_kv_heads, len(padding), end), bool)
        read[..., : self.start] = False
        for mask in (self.mask, self.stored):
            if mask is not None:
                read[..., self.start :] &= mask.swapaxes(0, 1)
        if self.extra is not None:
            read |= ((self.extra[..., None] == slots) & (slots < self.start)).any(axis=1)
        read &= slots >= padding[:, None]
        return read

    def reads(self, padding: Ints, end: int, n_kv_heads: int) -> KvReads:
        """The keys that are read, counted: int32[KV, B]."""
        read = self.read(padding, end, n_kv_heads)
        if self.mask is None and self.extra is None:  # all that is stored of the window is one run
            tokens = np.count_nonzero(read, axis=-1).astype(np.int32)
            return KvReads(tokens, np.ones_like(tokens))
        after = np.zeros_like(read)  # the token before it in the cache is read, too
        if self.stored is None:
            after[..., 1:] = read[..., :-1]
        else:
            stored = np.ones_like(read)
            stored[..., self.start :] = self.stored.swapaxes(0, 1)
            last = np.maximum.accumulate(np.where(stored, np.arange(end), -1), axis=-1)
            after[..., 1:] = np.take_along_axis(read, np.maximum(last[..., :-1], 0), -1)
            after[..., 1:] &= last[..., :-1] >= 0
        begins = read & ~after
        return KvReads(read.sum(axis=-1, dtype=np.int32), begins.sum(axis=-1, dtype=np.int32))


_ALL = Selection()


def named(label: str, fields: Mapping[str, Any]) -> str:
    """A kind with its fields, as a phrase; those without a value are left out."""
    words = [
        f"{name} {'by layer' if isinstance(value, tuple) else value}"
        for name, value in fields.items()
        if name != "kind" and value is not None
    ]
    return label + (f" ({', '.join(words)})" if words else "")


class AttentionPolicy(Section):
    """A rule which keys attention reads: fields of the YAML and of a trace, decisions, work.

    To add a kind: one file in this folder with a subclass, and one line in
    :data:`carsim.decisions.attention.ATTENTION`. The subclass declares ``kind: Literal["name"] =
    "name"``, its fields with limits, ``label`` and ``paper``, and overrides what differs from dense
    attention.

    Contract, which ``tests/decisions/attention/test_contract.py`` holds over all kinds:

    * ``trivial()`` gives fields with which decoding equals dense attention to the bit.
    * ``select`` reads the newest token, and nothing beyond the context.
    * A row decides by its own keys and queries: its selection does not depend on its batch-mates.
    * Nothing drawn: randomness comes from a seed among the fields.
    * ``records`` is False: ``reads(context)`` equals what ``select`` reads, for every head alike.
      ``records`` is True: it depends on data, the decoder counts what ``select`` reads into the
      arrays ``kv_tokens``, ``kv_runs`` and ``kv_held`` of the trace, and ``reads`` and ``held``
      give the most that a step can read and a cache can hold.
    * The key that a rule of replay scores, such as that of the same place in the previous frame, is
      read in any case. Where ``reads_aligned`` is False, the machine counts it as one key more
      (without its value).

    Class attributes:
        label: English name in comparisons.
        paper: Its source.
        mode: Field that chooses which others are :attr:`used`, such as a scorer; empty: all are.
        records: Reads depend on data and are stored in the trace.
        exact: The policy reads every token, whatever its fields.
        follows_reads: ``side_work``, ``frame_work`` and ``side_bytes`` depend on the keys that are
            read, or held, and are asked at their number instead of the context.
    """

    label: ClassVar[str]
    paper: ClassVar[str] = ""
    mode: ClassVar[str] = ""
    records: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    follows_reads: ClassVar[bool] = False

    kind: str

    @classmethod
    def trivial(cls) -> "AttentionPolicy":
        """Fields with which the policy equals dense attention."""
        return cls.model_validate({})

    @property
    def used(self) -> dict[str, Any]:
        """The fields that do something under the chosen :attr:`mode`; all unless overridden."""
        return dict(self)

    @model_validator(mode="after")
    def _no_field_of_another_mode(self) -> Self:
        used = self.used
        for name, value in self:
            if name not in used and value != type(self).model_fields[name].default:
                mode = f"{self.mode} {getattr(self, self.mode)!r}"
                raise FieldError(name, f"does nothing under {mode}", "leave it out")
        return self

    @property
    def text(self) -> str:
        """The policy with the fields that it uses, as a phrase."""
        return named(self.label, self.used)

    @property
    def short(self) -> str:
        """The policy in one cell of a table."""
        return " ".join(map(str, self.used.values()))

    # What the decoder asks.

    def begin(self, cache: CacheShape) -> Any:
        """State of one decoding, handed to the methods below; None where there is none."""
        return None

    def prompt_mask(self, valid: Bools) -> Bools:
        """Slots that each slot of the prompt sees; causal and dense unless overridden.

        Args:
            valid: bool[B, P], False for padding.

        Returns:
            bool[B, P, P], queries by keys.
        """
        slots = np.arange(valid.shape[1])
        return valid[:, None, :] & valid[:, :, None] & (slots <= slots[:, None])

    def append(
        self, state: Any, layer: int, slots: slice, k: Array, k_rotated: Array, v: Array
    ) -> None:
        """Learn of new keys and values, which stand in the cache: the prompt's, then one a step.

        Args:
            state: Result of :meth:`begin`.
            layer: Layer.
            slots: Their slots.
            k: Keys before the rotary embedding, [B, KV, slots, hd].
            k_rotated: Keys after it.
            v: Values.
        """

    def select(self, state: Any, layer: int, query: Query) -> Selection:
        """Choose the keys that the newest token of each row reads; all unless overridden."""
        return _ALL

    def end_of_frame(self, state: Any, layer: int, keys: Array, values: Array) -> Ints | None:
        """Tidy up after a frame: merge or drop cached tokens.

        Keys of the newest frame must stay as they are, as TAS of the next frame reads them.

        Args:
            state: Result of :meth:`begin`.
            layer: Layer.
            keys: Rotated keys in use, [B, KV, end, hd]; may be written.
            values: Values in use; may be written.

        Returns:
            int[B], the most tokens that a head of each row holds from now on; None: all.
        """
        return None

    # What the machine asks.

    def reads(self, context: Ints) -> KvReads:
        """Keys that one head of one row reads at these contexts; arrays of their shape."""
        return KvReads(context, np.ones_like(context))

    def held(self, context: Ints) -> Ints:
        """Tokens whose key and value the cache must hold at these contexts."""
        return context

    def keys_kept(self, context: Ints, distance: int) -> Ints:
        """Keys that the cache must hold besides :meth:`held`, without values, for a rule of replay.

        Args:
            context: Contexts.
            distance: Tokens between the newest one and the oldest whose key the rule reads.
        """
        return np.zeros_like(context)

    def reads_aligned(self, distance: int) -> bool:
        """True if the key of so many tokens ago is sure to be among those that are read."""
        return not self.records

    def side_work(self, context: Ints, n_heads: int, n_kv_heads: int, head_dim: int) -> SideWork:
        """Work besides attention, of each step at these contexts; none unless overridden."""
        return SideWork()

    def frame_work(
        self, context: Ints, tokens_per_frame: int, n_kv_heads: int, head_dim: int
    ) -> SideWork:
        """Work of :meth:`end_of_frame`, which the machine spreads evenly over the frame's steps."""
        return SideWork()

    def unit(self) -> SelectionUnit:
        """Logic that the policy adds to each core; none unless overridden."""
        return SelectionUnit()

    def side_bytes(self, context: Ints, n_kv_heads: int, head_dim: int) -> Ints:
        """Bytes that the policy's own data take beside the KV cache, of one row in one layer."""
        return np.zeros_like(context)
