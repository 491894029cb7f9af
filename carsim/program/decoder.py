"""The blocks of an auto-regressive decoder: QKV, attention over a cache, output projection, MLP.

Simplifications: every token of a set reads what its last token reads; the work that an attention
policy does at the end of a frame is spread over the steps of the frame; older tokens in a second
memory pass the KV buffer before the newest ones, so that the two memories work one after the other
but for what the buffer holds; joining the two softmaxes costs nothing; a step without older tokens
fills the array once for them, too.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.decisions.attention import AttentionPolicy, CacheAt, KvReads
from carsim.decisions.attention.base import SideWork
from carsim.decisions.replay import ReplayRule
from carsim.program.block import Block, Dealt, OpsOf, Split, work_of
from carsim.program.reads import Ints, Reads, Steps
from carsim.workload import attention, mlp
from carsim.workload.body import Latent, in_window
from carsim.workload.elements import NORM_OPS
from carsim.workload.model import Model
from carsim.workload.ops import Category, Count, Gemm, Op, Share, Stream


@dataclass(frozen=True)
class Qkv(Block):
    """Norm and projections of queries, keys and values.

    Attributes:
        group: Group of layers whose weights are of equal precision.
        key_heads: Key heads that are cached, of an attention policy in which heads share keys;
            None: those of the model.
        shares: The layer reads the keys and values of another, and projects queries alone.
    """

    name: ClassVar[str] = "qkv"
    title: ClassVar[str] = "QKV projection"
    split: ClassVar[Split] = "attention"
    feeds_next: ClassVar[bool] = True
    feeds_later: ClassVar[bool] = True

    group: int = 0
    key_heads: int | None = None
    shares: bool = False

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """Operations of the projections, with the score of a decision that is known here."""
        model = model.in_group(self.group).with_key_heads(self.key_heads)

        def operations(share: Share) -> list[Op]:
            score = self.score(model, share)
            project = with_more(
                attention.qkv_op(model, share, queries_alone=self.shares),
                vector_ops=share.rows * score.vector_ops,
                kv_side_bytes=share.rows * model.kv.bytes_of(score.key_elements),
                replay_bytes=share.rows * score.scoring_bytes,
            )
            return [*latent_ops(model, attention.compress_op, share), project]

        return operations

    def products(self, model: Model) -> int:
        """Q, K and V; of latent attention the queries, in one or two steps, and the latent."""
        latent = model.body.latent
        if latent is None:
            return 1 if self.shares else 3
        return 3 if latent.query_rank else 2

    def replay(self, model: Model, share: Share) -> Op:
        """Nothing: the keys and values of the place in the previous frame stand for new ones."""
        return Op(Category.REPLAY, vector_ops=0 * share.rows, replay_bytes=0 * share.rows)


@dataclass(frozen=True)
class Attend(Block):
    """Attention over the cache, by an attention policy.

    Where the policy keeps older tokens in a second memory, they are attended to first, and the
    newest ones after them; each new token moves the oldest one of the first memory to the second.

    Attributes:
        window: Newest tokens that the layer attends to; None: all.
        shares: The keys and values are those of another layer, which has written them.
    """

    name: ClassVar[str] = "attention"
    title: ClassVar[str] = "attention"
    split: ClassVar[Split] = "attention"
    deals: ClassVar[Dealt] = "sequences"
    reads_tokens: ClassVar[bool] = True
    feeds_next: ClassVar[bool] = True

    window: int | None = None
    shares: bool = False

    def reads(self, steps: Steps) -> Reads:
        """Tokens that the policy chooses among the newest in the window."""
        policy = steps.attention
        contexts = in_window(steps.contexts, self.window)
        kv_reads = self._reads_of(policy, contexts, steps)
        attended = kv_reads.tokens.astype(np.int64)
        # A policy without work of its own asks for the same whatever it leaves unread.
        kind = type(policy)
        works_at_frames = kind.frame_work is not AttentionPolicy.frame_work
        works = kind.side_work is not AttentionPolicy.side_work or works_at_frames
        return Reads(
            attended=attended,
            runs=np.broadcast_to(kv_reads.runs.astype(np.int64), attended.shape),
            contexts=contexts * (works and not kind.follows_reads),
            policy=policy,
            aligned_outside=self._scores_an_unread_key(steps),
            frame_steps=steps.video.tokens_per_frame * works_at_frames,
            tokens_per_frame=steps.video.tokens_per_frame,
        )

    def _reads_of(self, policy: AttentionPolicy, contexts: Ints, steps: Steps) -> KvReads:
        """Keys that the policy reads; in a window, which hides the prompt, by the context alone."""
        if self.window is not None:
            if policy.asks_for_prompt:
                problem = f"{policy.text} asks for the prompt, and some layers have a window"
                cure = "take a policy that reads by the context alone, or a model without windows"
                raise InputError("policy.attention", problem, cure)
            return policy.reads(contexts)
        video = steps.video
        at = CacheAt(
            context=contexts,
            prompt=np.full_like(contexts, video.prompt_tokens),
            tokens_per_frame=video.tokens_per_frame,
        )
        return policy.reads_at(at)

    def _scores_an_unread_key(self, steps: Steps) -> bool:
        """The key that is scored here is not among those that are read."""
        rules = [rule for rule in (self.scores, *self.also_scores) if rule is not None]
        return any(self._is_unread(rule, steps) for rule in rules)

    def _is_unread(self, rule: ReplayRule, steps: Steps) -> bool:
        distance = rule.key_distance(steps.video.tokens_per_frame)
        is_beyond = self.window is not None and distance >= self.window
        return is_beyond or not steps.attention.reads_aligned(distance)

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """Operations of attention; the policy's own products are spread over all heads."""
        assert reads is not None
        policy = reads.policy
        model = model.with_key_heads(policy.kept_key_heads(model.body.n_kv_heads))
        tokens = self.tokens
        head_dim = model.body.head_dim
        side = _side_work(model, reads)

        def of_phases(figure: Count) -> Ints:
            """A figure of one token as that of all tokens of a row, [n, 1]."""
            return tokens * np.reshape(figure, (-1, 1))

        macs = of_phases(side.macs)
        vector_ops = of_phases(side.element_ops)
        read = of_phases(side.bytes_read)
        written = of_phases(side.bytes_written) + model.kv.bytes_of(of_phases(side.kv_elements))
        scan = of_phases(side.scan_cycles)
        cached = CachedTokens.of(reads)
        new_tokens = 0 if self.shares else tokens
        chooses = bool(scan.any())  # what is fetched depends on this work, and waits for it

        def operations(share: Share) -> list[Op]:
            rows = share.rows
            score = self.score(model, share)
            unread = tokens * score.key_elements if reads.aligned_outside else 0
            attend = with_more(
                attention.attend_op(
                    model,
                    share,
                    cached.near,
                    key_elements=unread,
                    streamed=cached.near_full,
                    new_tokens=new_tokens,
                ),
                vector_ops=rows * tokens * score.vector_ops,
                replay_bytes=rows * tokens * score.scoring_bytes,
                kv_side_bytes=rows * written,
            )
            gemms: tuple[Gemm, ...] = ()
            if macs.any():
                gemms = (Gemm(1, head_dim, share.columns(-(-macs // head_dim)), rows),)
            chosen_ops = rows * share.columns(vector_ops)
            before: list[Op] = []
            if policy.uses_far_memory:
                before = [_attend_far(model, share, cached)]
                moved = _moved_bytes(model, share, cached) * (not self.shares)
                attend = with_more(attend, kv_side_bytes=moved)._replace(far_side_bytes=moved)
            if not chooses:
                nbytes = rows * read
                attend = with_more(attend, gemms=gemms, vector_ops=chosen_ops, kv_side_bytes=nbytes)
                return [*before, attend]
            choose = Op(
                Category.ATTENTION,
                gemms=gemms,
                vector_ops=chosen_ops,
                stream=Stream.KV,
                stream_bytes=rows * read,
                operand="what the policy chooses by",
            )
            scan_cycles = rows * share.columns(scan)
            return [choose, attend._replace(scan_cycles=scan_cycles, held_back=True)]

        return operations


OLDER_TOKENS = "older K, V"
"""Name of the operand that streams from the second memory."""

Tokens = NDArray[np.integer[Any]]


class CachedTokens(NamedTuple):
    """Tokens that n phases read, by the memory in which they lie, [n, 1] each.

    Attributes:
        near: Tokens in the memory of the cache.
        near_full: Tokens at the cache's own precision that take as many bytes as those.
        far: Older tokens, in a second memory.
        far_full: Tokens at the cache's own precision that take as many bytes as those.
    """

    near: Tokens
    near_full: Tokens
    far: Tokens
    far_full: Tokens

    @classmethod
    def of(cls, reads: Reads) -> "CachedTokens":
        """What a policy reads, of each memory."""
        policy = reads.policy
        per_frame = reads.tokens_per_frame
        attended = reads.attended[:, None]
        full = policy.full_tokens(attended, per_frame)
        far = policy.far_tokens(attended, per_frame)
        near = attended - far
        near_full = policy.full_tokens(near, per_frame)
        return cls(
            near=near,
            near_full=near_full,
            far=far,
            far_full=full - near_full,
        )


def _attend_far(model: Model, share: Share, cached: CachedTokens) -> Op:
    """Attention over the tokens in the second memory, which writes nothing."""
    is_there = np.minimum(1, cached.far)
    share = share._replace(rows=share.rows * is_there)  # nothing where there are none
    attend = attention.attend_op(
        model, share, cached.far, streamed=cached.far_full, new_tokens=0, completes=False
    )
    return attend._replace(stream=Stream.FAR_KV, operand=OLDER_TOKENS)


def _moved_bytes(model: Model, share: Share, cached: CachedTokens) -> Count:
    """Bytes of the keys and values, of all rows, that new tokens move to the second memory."""
    body = model.body
    elements = share.columns(body.n_kv_heads) * body.kv_elements // body.n_kv_heads
    moved_tokens = np.minimum(share.tokens, cached.far)
    return share.rows * model.kv.bytes_of(moved_tokens * elements)


@dataclass(frozen=True)
class Output(Block):
    """Output projection and residual; norm and score where a rule looks at the residual.

    Attributes:
        group: Group of layers whose weights are of equal precision.
    """

    name: ClassVar[str] = "output"
    title: ClassVar[str] = "output projection"
    split: ClassVar[Split] = "attention"

    group: int = 0

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """Operations of the projection; every core norms whole residuals, as for a split MLP."""
        model = model.in_group(self.group)

        def operations(share: Share) -> list[Op]:
            rows = share.rows
            d = model.body.hidden_size
            score = self.score(model, share)
            written = model.replay.bytes_of(share.columns(d)) * self.holds
            project = with_more(
                attention.output_op(model, share),
                kv_side_bytes=rows * model.kv.bytes_of(score.key_elements),
                replay_bytes=rows * (score.scoring_bytes + share.tokens * written),
            )
            ops = [*latent_ops(model, attention.values_op, share), project]
            if self.scores is not None:
                norm = rows * d * NORM_OPS
                ops_of_score = rows * score.vector_ops
                ops.append(Op(Category.REPLAY, serial_vector_ops=norm, vector_ops=ops_of_score))
            return ops

        return operations

    def products(self, model: Model) -> int:
        """The projection; of latent attention also values from the latent, and keys into it."""
        return 1 if model.body.latent is None else 3


@dataclass(frozen=True)
class Mlp(Block):
    """Gate and up, then down; or a choice of experts.

    Attributes:
        dense: One MLP for all tokens, whatever other layers have.
        normed: The norm is done already, as a score needed it.
        group: Group of layers whose weights are of equal precision.
    """

    name: ClassVar[str] = "mlp"
    title: ClassVar[str] = "MLP"

    dense: bool = False
    normed: bool = False
    group: int = 0

    @property
    def label(self) -> str:
        """English name."""
        return "dense MLP" if self.dense else self.title

    @property
    def widest(self) -> Block:
        """The MLP with its norm."""
        return replace(self, normed=False)

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """Operations of the MLP; its last product writes what is held."""
        model = model.in_group(self.group)

        def operations(share: Share) -> list[Op]:
            *before, last = mlp.mlp_ops(
                model, share, dense=self.dense, normed=self.normed, cached=self.holds
            )
            held_bytes = work_of(self.rule, model, share.of).held_bytes
            return [*before, with_more(last, replay_bytes=share.rows * held_bytes)]

        return operations

    def products(self, model: Model) -> int:
        """Its matrices; of experts a router, one set of matrices, and one of shared experts."""
        return model.body.mlp_products(dense=self.dense)


def with_more(
    op: Op,
    *,
    gemms: tuple[Gemm, ...] = (),
    vector_ops: Count = 0,
    kv_side_bytes: Count = 0,
    replay_bytes: Count = 0,
) -> Op:
    """Add work to an operation."""
    return op._replace(
        gemms=op.gemms + gemms,
        vector_ops=op.vector_ops + vector_ops,
        kv_side_bytes=op.kv_side_bytes + kv_side_bytes,
        replay_bytes=op.replay_bytes + replay_bytes,
    )


def latent_ops(model: Model, op_of: Callable[[Model, Latent, Share], Op], share: Share) -> list[Op]:
    """An operation that latent attention alone has, if the model has it."""
    latent = model.body.latent
    return [] if latent is None else [op_of(model, latent, share)]


def _side_work(model: Model, reads: Reads) -> SideWork:
    """A policy's own work in a step, with its share of the work at the end of each frame."""
    body = model.body  # with the key heads that are kept
    policy = reads.policy
    contexts = reads.attended if policy.follows_reads else reads.contexts
    side = policy.side_work(contexts, body.n_heads, body.n_kv_heads, body.head_dim)
    if not reads.frame_steps:
        return side
    frame = policy.frame_work(contexts, reads.frame_steps, body.n_kv_heads, body.head_dim)

    def of_step(of_frame: Count) -> Count:
        return -(-of_frame // reads.frame_steps)

    return SideWork(
        macs=side.macs + of_step(frame.macs),
        element_ops=side.element_ops + of_step(frame.element_ops),
        bytes_read=side.bytes_read + of_step(frame.bytes_read),
        bytes_written=side.bytes_written + of_step(frame.bytes_written),
        scan_cycles=side.scan_cycles + of_step(frame.scan_cycles),
        kv_elements=side.kv_elements + of_step(frame.kv_elements),
    )
