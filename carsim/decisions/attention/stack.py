"""Several policies one after the other.

A token is read if every policy of the stack reads it. Reads depend on data, and are stored in the
trace, if those of one policy do, or if several policies leave out tokens. The order is that of the
list: what the first drops or merges at the end of a frame is no longer there for the second. All
learn of new keys, and of the attention that tokens were given; their own work and data add up.

A stack is refused where two policies contradict each other:

* two that drop, merge or change cached tokens, choose what the prompt sees, share layers, share
  heads, or use a second memory;
* layers that share keys and values, and a policy that drops, merges or changes tokens layer by
  layer;
* heads that share keys and values, and a policy in which each head reads its own keys;
* a second memory for older tokens, and a policy that reads fewer tokens than it holds: the number
  of tokens that are read then does not tell how many of them are old.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from carsim.base.registry import of_other_kind
from carsim.base.section import FieldError
from carsim.decisions.attention.base import (
    Array,
    AttentionPolicy,
    Bools,
    CacheAt,
    CacheShape,
    ForwardShape,
    Ints,
    KvReads,
    Query,
    Selection,
    SelectionUnit,
    SideWork,
)
from carsim.decisions.attention.dense import Dense

if TYPE_CHECKING:
    from collections.abc import Iterator


_of_policy = of_other_kind(
    AttentionPolicy, role="attention policy", own="stack", noun="policy", place="policies"
)
AnyPolicy = Annotated[SerializeAsAny[AttentionPolicy], BeforeValidator(_of_policy)]


class Stack(AttentionPolicy):
    """Several policies one after the other."""

    label: ClassVar[str] = "stack"
    joins_others: ClassVar[bool] = True

    masks_forwards: ClassVar[bool] = True

    kind: Literal["stack"] = "stack"
    policies: Annotated[tuple[AnyPolicy, ...], Field(min_length=1)] = Field(
        (Dense(),), description="policies, in the order in which they act"
    )

    @property
    def records(self) -> bool:  # type: ignore[override]  # of all
        """Reads of a policy depend on data, or several policies leave out tokens."""
        return any(policy.records for policy in self.policies) or len(self._selecting) > 1

    @property
    def heads_alike(self) -> bool:  # type: ignore[override]  # of all
        """Of every policy, all heads read alike."""
        return all(policy.heads_alike or not policy.records for policy in self.policies)

    @property
    def _selecting(self) -> list[AttentionPolicy]:
        """Policies that may leave out tokens."""
        return [policy for policy in self.policies if _overrides(policy, "select")]

    @property
    def text(self) -> str:
        """All policies, in order."""
        return f"{self.label} of {' and '.join(policy.text for policy in self.policies)}"

    @property
    def short(self) -> str:
        """All policies in one cell of a table."""
        return ", ".join(policy.kind for policy in self.policies)

    @classmethod
    def trivial(cls) -> "Stack":
        """A stack of dense attention."""
        return cls(policies=(Dense(),))

    @model_validator(mode="after")
    def _does_not_contradict_itself(self) -> Self:
        """Refuse policies of which only one may act, and pairs that contradict each other."""
        changing = [policy for policy in self.policies if _overrides(policy, "end_of_frame")]
        dropping = [policy.kind for policy in changing if policy.kind != "ann_ca"]
        if len(dropping) > 1:
            problem = f"{' and '.join(dropping)} both drop, merge or change cached tokens"
            raise FieldError("policies", problem, "take one of them")
        for method, words in _ONCE.items():
            of_method = [policy.kind for policy in self.policies if _overrides(policy, method)]
            if len(of_method) > 1:
                problem = f"{' and '.join(of_method)} both {words}"
                raise FieldError("policies", problem, "take one of them")
        for problem in self._contradictions(changing):
            raise FieldError("policies", problem, "take one of them")
        return self

    def _contradictions(self, changing: list[AttentionPolicy]) -> "Iterator[str]":
        """Pairs of policies that contradict each other, in words.

        Args:
            changing: Policies that drop, merge or change cached tokens.
        """
        for policy in self.policies:
            partners = [partner for partner in self.policies if partner is not policy]
            if policy.shares_layers:
                opposed = [partner for partner in changing if partner is not policy]
                words = "drops, merges or changes them layer by layer"
                yield from _opposed(policy, "shares keys between layers", opposed, words)
            if policy.shares_heads:
                opposed = [one for one in partners if one.records and not one.heads_alike]
                words = "lets each head read its own"
                yield from _opposed(policy, "shares keys between heads", opposed, words)
            if policy.uses_far_memory:
                opposed = [one for one in partners if not one.reads_all_held]
                words = "reads fewer tokens than it holds"
                yield from _opposed(policy, "moves older tokens", opposed, words)

    # What the decoder asks.

    def begin(self, cache: CacheShape) -> Any:
        """A state for each policy."""
        return [policy.begin(cache) for policy in self.policies]

    def prompt_mask(self, valid: Bools) -> Bools:
        """Slots of a prompt that every policy lets be seen."""
        masks = [policy.prompt_mask(valid) for policy in self.policies]
        return np.logical_and.reduce(masks)

    def append(
        self, state: Any, layer: int, slots: slice, k: Array, k_rotated: Array, v: Array
    ) -> None:
        """Tell every policy of new keys."""
        for policy, policy_state in zip(self.policies, state, strict=True):
            policy.append(policy_state, layer, slots, k, k_rotated, v)

    def select(self, state: Any, layer: int, query: Query) -> Selection:
        """The keys that every policy reads; what merged tokens add to scores adds up."""
        rows, heads, end = query.keys.shape[:3]
        mask = np.ones((rows, heads, end), np.bool_)
        stored = np.ones_like(mask)
        bias = np.zeros(mask.shape, query.keys.dtype)
        for policy, policy_state in zip(self.policies, state, strict=True):
            chosen = policy.select(policy_state, layer, query)
            here = slice(chosen.start, end)
            if chosen.stored is not None:
                stored[..., here] &= chosen.stored
            if chosen.bias is not None:
                bias[..., here] += chosen.bias
            masked = Selection(start=chosen.start, extra=chosen.extra, mask=chosen.mask)
            mask &= masked.read(query.padding, end, heads).swapaxes(0, 1)
        mask[..., -1] = True  # the newest token is read by itself in any case
        return Selection(mask=mask, stored=stored, bias=bias)

    def attended(self, state: Any, layer: int, weights: Array) -> None:
        """Tell every policy what was attended to."""
        for policy, policy_state in zip(self.policies, state, strict=True):
            policy.attended(policy_state, layer, weights)

    def end_of_frame(self, state: Any, layer: int, keys: Array, values: Array) -> Ints | None:
        """Let the policies tidy up in their order; the fewest tokens that one of them holds."""
        answers = [
            policy.end_of_frame(policy_state, layer, keys, values)
            for policy, policy_state in zip(self.policies, state, strict=True)
        ]
        counted = [cached for cached in answers if cached is not None]
        return np.minimum.reduce(counted) if counted else None

    # What the machine asks.

    def reads(self, context: Ints) -> KvReads:
        """At most what the policy reads that reads least, in as many runs as all together."""
        return _fewest([policy.reads(context) for policy in self._selecting], context)

    def reads_at(self, at: CacheAt) -> KvReads:
        """At most what the policy reads that reads least."""
        return _fewest([policy.reads_at(at) for policy in self._selecting], at.context)

    @property
    def asks_for_prompt(self) -> bool:
        """One of the policies asks for it."""
        return any(policy.asks_for_prompt for policy in self.policies)

    def full_tokens(self, tokens: Ints, tokens_per_frame: int) -> Ints:
        """Tokens at full precision, by the policy that saves most."""
        answers = [policy.full_tokens(tokens, tokens_per_frame) for policy in self.policies]
        return np.minimum.reduce(answers)

    def source_layer(self, layer: int) -> int:
        """The layer that the one policy names that shares layers."""
        return min(policy.source_layer(layer) for policy in self.policies)

    @property
    def shares_layers(self) -> bool:
        """One of the policies does."""
        return any(policy.shares_layers for policy in self.policies)

    def kept_key_heads(self, n_kv_heads: int) -> int:
        """The key heads of the one policy that shares heads."""
        return min(policy.kept_key_heads(n_kv_heads) for policy in self.policies)

    def pooled(self, heads: Array) -> Array:
        """Heads of a group that shares keys, as the one policy pools them."""
        sharing = [policy for policy in self.policies if policy.shares_heads]
        policy = sharing[0] if sharing else self.policies[0]
        return policy.pooled(heads)

    @property
    def shares_heads(self) -> bool:
        """One of the policies does."""
        return any(policy.shares_heads for policy in self.policies)

    def far_tokens(self, tokens: Ints, tokens_per_frame: int) -> Ints:
        """Tokens in the second memory, of the one policy that uses it."""
        far = [policy.far_tokens(tokens, tokens_per_frame) for policy in self.policies]
        return np.maximum.reduce(far)

    @property
    def uses_far_memory(self) -> bool:
        """One of the policies does."""
        return any(policy.uses_far_memory for policy in self.policies)

    @property
    def reads_all_held(self) -> bool:
        """All of the policies do."""
        return all(policy.reads_all_held for policy in self.policies)

    def held(self, context: Ints) -> Ints:
        """Tokens that the policy holds which holds fewest."""
        return np.minimum.reduce([policy.held(context) for policy in self.policies])

    def keys_kept(self, context: Ints, distance: int) -> Ints:
        """Keys beside those that are held, for a rule of replay."""
        return np.maximum.reduce([policy.keys_kept(context, distance) for policy in self.policies])

    def reads_aligned(self, distance: int) -> bool:
        """Every policy is sure to read that key."""
        return all(policy.reads_aligned(distance) for policy in self.policies)

    def side_work(self, context: Ints, n_heads: int, n_kv_heads: int, head_dim: int) -> SideWork:
        """The work of all policies."""
        return _summed(
            [policy.side_work(context, n_heads, n_kv_heads, head_dim) for policy in self.policies]
        )

    def frame_work(
        self, context: Ints, tokens_per_frame: int, n_kv_heads: int, head_dim: int
    ) -> SideWork:
        """The work of all policies at the end of a frame."""
        return _summed(
            [
                policy.frame_work(context, tokens_per_frame, n_kv_heads, head_dim)
                for policy in self.policies
            ]
        )

    # Forwards: each policy is asked about the keys that the ones before it leave.

    def check_forwards(self, *, in_chunks: bool) -> None:
        """Every policy has a form for forwards, and what merges keys comes before what chooses."""
        chooses = ""
        for number, policy in enumerate(self.policies):
            policy_field = f"policies[{number}]"
            if not policy.masks_forwards:
                problem = f"{policy.kind!r} is a policy of decoding"
                raise FieldError(policy_field, problem, "leave it out")
            if policy.has_dense_steps:
                problem = f"{policy.kind!r} is dense in some steps"
                raise FieldError(policy_field, problem, "take it alone")
            try:
                policy.check_forwards(in_chunks=in_chunks)
            except FieldError as error:
                field = f"{policy_field}.{error.field}"
                raise FieldError(field, error.problem, error.cure) from None
            merges = _overrides(policy, "forward_held")
            if merges and chooses:
                problem = f"{policy.kind!r} merges keys that {chooses!r} has chosen from"
                raise FieldError(policy_field, problem, f"name {policy.kind!r} first")
            if _overrides(policy, "forward_keys") and not merges:
                chooses = policy.kind

    def forward_keys(self, queries: int, keys: Ints, share_done: Array) -> Ints:
        """Keys that all policies leave, one after the other."""
        for policy in self.policies:
            keys = policy.forward_keys(queries, keys, share_done)
        return keys

    def forward_held(self, queries: int, keys: Ints) -> Ints:
        """Tokens that the policy holds which holds fewest."""
        return np.minimum.reduce([policy.forward_held(queries, keys) for policy in self.policies])

    def forward_work(self, shape: ForwardShape, keys: Ints) -> SideWork:
        """The work of all policies, each on the keys that are held when its turn comes."""
        works = []
        for policy in self.policies:
            works.append(policy.forward_work(shape, keys))
            keys = policy.forward_held(shape.queries, keys)
        return _summed(works)

    def forward_side_bytes(self, shape: ForwardShape, keys: Ints) -> Ints:
        """The data of all policies, each on the keys that are held when its turn comes."""
        nbytes = []
        for policy in self.policies:
            nbytes.append(policy.forward_side_bytes(shape, keys))
            keys = policy.forward_held(shape.queries, keys)
        total: Ints = np.add.reduce(nbytes)
        return total

    def cross_keys(self, text: int) -> int:
        """Keys that all policies leave, one after the other."""
        for policy in self.policies:
            text = policy.cross_keys(text)
        return text

    def cross_work(self, shape: ForwardShape, text: int) -> SideWork:
        """The work of all policies that leave out tokens of the prompt."""
        choosing = [policy for policy in self.policies if policy.cross_keys(text) < text]
        return _summed([policy.cross_work(shape, text) for policy in choosing])

    def unit(self) -> SelectionUnit:
        """The logic of all policies."""
        units = [policy.unit() for policy in self.policies]
        return SelectionUnit(
            comparator_bits=sum(unit.comparator_bits for unit in units),
            buffer_bytes=sum(unit.buffer_bytes for unit in units),
            word_bits=max(unit.word_bits for unit in units),
        )

    def side_bytes(self, context: Ints, n_kv_heads: int, head_dim: int) -> Ints:
        """The data of all policies."""
        nbytes = [policy.side_bytes(context, n_kv_heads, head_dim) for policy in self.policies]
        total: Ints = np.add.reduce(nbytes)
        return total


_ONCE = {
    "prompt_mask": "choose what the prompt sees",
    "source_layer": "share keys between layers",
    "kept_key_heads": "share keys between heads",
    "far_tokens": "move tokens to a second memory",
}
"""Methods that one policy of a stack may override, and what policies do that override them."""


def _opposed(
    policy: AttentionPolicy, words: str, opposed: list[AttentionPolicy], opposed_words: str
) -> "Iterator[str]":
    """Contradictions in words: what a policy does, and what each opposed policy does."""
    for partner in opposed:
        yield f"{policy.kind} {words}, and {partner.kind} {opposed_words}"


def _overrides(policy: AttentionPolicy, method: str) -> bool:
    """The class of a policy has a method of its own, in place of the contract's."""
    return getattr(type(policy), method) is not getattr(AttentionPolicy, method)


def _fewest(answers: list[KvReads], context: Ints) -> KvReads:
    """The most that an intersection of what policies read can be; of one policy, what it reads."""
    if len(answers) < 2:
        return answers[0] if answers else KvReads(context, np.ones_like(context))
    tokens = np.minimum.reduce([answer.tokens for answer in answers])
    runs = np.add.reduce([answer.runs for answer in answers])
    most_runs = np.minimum(runs, (context + 1) // 2)  # a token that is not read parts two runs
    return KvReads(tokens, np.minimum(most_runs, tokens))


def _summed(works: list[SideWork]) -> SideWork:
    """The work of several policies together."""
    return SideWork(
        macs=sum(work.macs for work in works),
        element_ops=sum(work.element_ops for work in works),
        bytes_read=sum(work.bytes_read for work in works),
        bytes_written=sum(work.bytes_written for work in works),
        scan_cycles=sum(work.scan_cycles for work in works),
        kv_elements=sum(work.kv_elements for work in works),
        activation_elements=sum(work.activation_elements for work in works),
    )
