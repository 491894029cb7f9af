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

from carsim.base.section import FieldError, GrownSection

Array = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]
Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class CacheAt:
    """Steps of a decoding, as a policy is asked about them. All arrays have one shape.

    Attributes:
        context: Tokens that dense attention would read, those of the step included.
        prompt: Tokens of the prompt of the row.
        tokens_per_frame: N.
    """

    context: Ints
    prompt: Ints
    tokens_per_frame: int

    @property
    def step(self) -> Ints:
        """Decode steps before this one."""
        return self.context - self.prompt - 1

    @property
    def frame(self) -> Ints:
        """Number of the frame that is decoded."""
        return self.step // self.tokens_per_frame

    @property
    def place(self) -> Ints:
        """Place of the token in its frame."""
        return self.step % self.tokens_per_frame


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
        activation_elements: Elements of activations read or written, in forwards.
    """

    macs: Ints | int = 0
    element_ops: Ints | int = 0
    bytes_read: Ints | int = 0
    bytes_written: Ints | int = 0
    scan_cycles: Ints | int = 0
    kv_elements: Ints | int = 0
    activation_elements: Ints | int = 0


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


@dataclass(frozen=True)
class ForwardShape:
    """Forwards in which many queries attend at once, as a policy is asked about one row and layer.

    Attributes:
        queries: Queries of a row: the tokens of a chunk, or of the whole sample.
        n_heads: H.
        n_kv_heads: KV.
        head_dim: hd.
        forwards: Forwards of a chunk, the clean one included.
    """

    queries: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    forwards: int = 1

    @property
    def width(self) -> int:
        """Elements of a query of all heads."""
        return self.n_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Elements of a key of all key heads."""
        return self.n_kv_heads * self.head_dim


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


class AttentionPolicy(GrownSection):
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
    * ``records`` is False: ``reads_at`` equals what ``select`` reads, for every head alike.
      ``records`` is True: it depends on data, the decoder counts what ``select`` reads into the
      arrays ``kv_tokens``, ``kv_runs`` and ``kv_held`` of the trace, and ``reads`` and ``held``
      give the most that a step can read and a cache can hold.
    * ``source_layer`` names the layer itself, or an earlier one that has keys of its own;
      ``kept_key_heads`` is a divisor of the number of key heads; ``far_tokens`` never falls where
      the tokens grow, and grows no faster than they do.
    * The key that a rule of replay scores, such as that of the same place in the previous frame, is
      read in any case. Where ``reads_aligned`` is False, the machine counts it as one key more
      (without its value).

    Class attributes:
        label: English name in comparisons.
        paper: Its source.
        mode: Field that chooses which others are :attr:`used`, such as a scorer; empty: all are.
        records: Reads depend on data and are stored in the trace.
        heads_alike: All heads of a row read the same keys, so that the keys of a token lie side by
            side in the cache. It holds in any case where reads do not depend on data.
        exact: The policy reads every token, whatever its fields.
        joins_others: The policy is made of others, and does nothing of its own.
        follows_reads: ``side_work``, ``frame_work`` and ``side_bytes`` depend on the keys that are
            read, or held, and are asked at their number instead of the context.
        masks_forwards: The policy has a form for forwards, in which many queries attend at once:
            see :meth:`forward_keys`.
        has_dense_steps: In some denoising steps of a sample it leaves nothing out.
        forward_fields: Fields that mean something in forwards alone.
    """

    label: ClassVar[str]
    paper: ClassVar[str] = ""
    mode: ClassVar[str] = ""
    records: ClassVar[bool] = False
    heads_alike: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    joins_others: ClassVar[bool] = False
    follows_reads: ClassVar[bool] = False
    masks_forwards: ClassVar[bool] = False
    has_dense_steps: ClassVar[bool] = False
    forward_fields: ClassVar[frozenset[str]] = frozenset()

    kind: str

    @classmethod
    def trivial(cls) -> "AttentionPolicy":
        """Fields with which the policy equals dense attention."""
        return cls.model_validate({})

    @property
    def used(self) -> dict[str, Any]:
        """The fields that do something under the chosen :attr:`mode`.

        All unless overridden; those that kinds were given later go unsaid at their default.
        """
        unsaid = self.unsaid
        return {name: value for name, value in self if name not in unsaid}

    @model_validator(mode="after")
    def _no_field_of_another_mode(self) -> Self:
        """Refuse a field that has no effect in the mode that is chosen."""
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
        return " ".join(str(value) for value in self.used.values() if value is not None)

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

    def pooled(self, heads: Array) -> Array:
        """One key or value for each group of neighbouring key heads: their mean.

        The decoder asks where :meth:`kept_key_heads` leaves fewer heads than there are.

        Args:
            heads: Keys, before or after the rotary embedding, or values, [B, kept, group, ..., hd].

        Returns:
            [B, kept, ..., hd].
        """
        return heads.mean(axis=2, dtype=heads.dtype)

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

    def attended(self, state: Any, layer: int, weights: Array) -> None:
        """Learn how much attention each cached token was given, such as for evicting the others.

        Args:
            state: Result of :meth:`begin`.
            layer: Layer.
            weights: Softmax weights of the newest token, [B, H, end]; 0 where a slot is not read.
        """

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

    def check_forwards(self, *, in_chunks: bool) -> None:
        """Refuse forwards for which the policy has no form.

        Args:
            in_chunks: A video is made in chunks, whose keys lie in a cache.

        Raises:
            FieldError: A field has no meaning there, or lacks a value.
        """

    def forward_keys(self, queries: int, keys: Ints, share_done: Array) -> Ints:
        """Keys that each query of a forward scores, int[S]; all unless overridden.

        Args:
            queries: Queries of a row.
            keys: Keys that it may attend to, int[S], its own chunk's included.
            share_done: Share of the denoising steps that came before each forward, float[S].
        """
        return keys

    def forward_held(self, queries: int, keys: Ints) -> Ints:
        """Tokens whose key and value the cache of a chunk holds; all unless overridden.

        Args:
            queries: Queries of a row.
            keys: Keys that a query may attend to, those of its chunk included.
        """
        return keys

    def forward_work(self, shape: ForwardShape, keys: Ints) -> SideWork:
        """Work of one row, layer and forward, where :meth:`forward_keys` leaves some keys out.

        Args:
            shape: The forwards.
            keys: Keys that a query may attend to.
        """
        return SideWork()

    def forward_side_bytes(self, shape: ForwardShape, keys: Ints) -> Ints:
        """Bytes of the policy's own data beside the cache, of one row and layer.

        Args:
            shape: The forwards.
            keys: Keys that a query may attend to.
        """
        return np.zeros_like(keys)

    def cross_keys(self, text: int) -> int:
        """Tokens of the prompt that cross-attention scores; all unless overridden.

        Args:
            text: Tokens of the prompt.
        """
        return text

    def cross_work(self, shape: ForwardShape, text: int) -> SideWork:
        """Work of one row, layer and forward, where :meth:`cross_keys` leaves some tokens out.

        Args:
            shape: The forwards.
            text: Tokens of the prompt.
        """
        return SideWork()

    def reads(self, context: Ints) -> KvReads:
        """Keys that one head of one row reads at these contexts; arrays of their shape.

        Where that depends on prompt or frames, the most that it can be; see :meth:`reads_at`.
        """
        return KvReads(context, np.ones_like(context))

    def reads_at(self, at: CacheAt) -> KvReads:
        """Keys that one head of one row reads in steps of which prompt, frame and place are known.

        Args:
            at: The steps.

        Returns:
            Arrays of the shape of the contexts.
        """
        return self.reads(at.context)

    @property
    def asks_for_prompt(self) -> bool:
        """Keys depend on prompt, frame or place, and not on the context alone."""
        return type(self).reads_at is not AttentionPolicy.reads_at

    def full_tokens(self, tokens: Ints, tokens_per_frame: int) -> Ints:
        """Tokens at the cache's own precision that take as many bytes as the cached ones do.

        A policy that keeps older tokens in fewer bits overrides it.

        Args:
            tokens: Tokens that are read or held.
            tokens_per_frame: N.

        Returns:
            At most ``tokens``, of their shape, rounded up.
        """
        return tokens

    def source_layer(self, layer: int) -> int:
        """The layer whose keys and values a layer reads; its own unless overridden.

        A layer that reads those of an earlier one projects no keys and values, and caches none.
        """
        return layer

    @property
    def shares_layers(self) -> bool:
        """Some layers read the keys and values of others."""
        return type(self).source_layer is not AttentionPolicy.source_layer

    def kept_key_heads(self, n_kv_heads: int) -> int:
        """Key heads that are projected and cached, at equal distance; all unless overridden.

        Where they are fewer than there are, neighbouring heads share a key and a value:
        :meth:`pooled`.

        Args:
            n_kv_heads: KV.

        Returns:
            A divisor of KV.
        """
        return n_kv_heads

    @property
    def shares_heads(self) -> bool:
        """Neighbouring key heads share keys and values."""
        return type(self).kept_key_heads is not AttentionPolicy.kept_key_heads

    def far_tokens(self, tokens: Ints, tokens_per_frame: int) -> Ints:
        """Tokens that lie in a second memory, of those in the cache; none unless overridden.

        They are the oldest in the cache. ``machine.placement.kv_far`` names the memory. A policy
        that overrides this reads everything that it holds (:attr:`reads_all_held`).

        Args:
            tokens: Tokens that are held, all of which are read.
            tokens_per_frame: N.

        Returns:
            0 to ``tokens``, of their shape.
        """
        return np.zeros_like(tokens)

    @property
    def uses_far_memory(self) -> bool:
        """Older tokens lie in a second memory."""
        return type(self).far_tokens is not AttentionPolicy.far_tokens

    @property
    def reads_all_held(self) -> bool:
        """Every step reads all tokens that the cache holds, so that their number tells their age.

        A kind that overrides ``select`` says so itself.
        """
        return type(self).select is AttentionPolicy.select

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
