"""A layer of the prompt: all tokens of each sequence at once, as one block."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from carsim.program.block import Block, Dealt, OpsOf
from carsim.program.decoder import OLDER_TOKENS, latent_ops
from carsim.program.reads import Reads
from carsim.workload import attention, mlp
from carsim.workload.model import Model
from carsim.workload.ops import Op, Share, Stream


class PromptCache(NamedTuple):
    """How a layer keeps the keys and values of a prompt.

    Attributes:
        key_heads: Key heads that are cached, where heads share keys; None: those of the model.
        shares: The layer reads the keys and values of another, and projects queries alone.
        far: Tokens that lie in a second memory when the prompt ends.
        near: Newer tokens, which stay in the first one; counts where some are far.
    """

    key_heads: int | None = None
    shares: bool = False
    far: int = 0
    near: int = 0


USUAL_CACHE = PromptCache()


@dataclass(frozen=True)
class PromptLayer(Block):
    """A layer of the prompt.

    Where older tokens lie in a second memory, their keys and values are written there, and attended
    to first.

    Simplification: keys and values stream once, whatever the buffers hold.

    Attributes:
        window: Newest tokens that each token attends to; None: all.
        dense: The layer has one MLP for all tokens, whatever others have.
        group: Group of layers whose weights are of equal precision.
        cache: How keys and values are kept.
    """

    name: ClassVar[str] = "prefill"
    title: ClassVar[str] = "prompt"
    deals: ClassVar[Dealt] = "sequences"
    in_passes: ClassVar[bool] = True

    window: int | None = None
    dense: bool = False
    group: int = 0
    cache: PromptCache = USUAL_CACHE

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """Operations of a whole layer; nothing is held for later frames."""
        model = model.in_group(self.group).with_key_heads(self.cache.key_heads)

        def operations(share: Share) -> list[Op]:
            return [
                *latent_ops(model, attention.compress_op, share),
                attention.qkv_op(model, share, queries_alone=self.cache.shares),
                *self._attend_ops(model, share),
                *latent_ops(model, attention.values_op, share),
                attention.output_op(model, share),
                *mlp.mlp_ops(model, share, dense=self.dense, cached=False),
            ]

        return operations

    def _attend_ops(self, model: Model, share: Share) -> list[Op]:
        """Attention over the tokens in a second memory, if there are any, and over all others."""
        tokens = self.tokens
        cache = self.cache
        if not cache.far:
            written = 0 if cache.shares else None
            return [
                attention.attend_op(
                    model, share, tokens, causal=True, window=self.window, new_tokens=written
                )
            ]
        pairs = attention.causal_pairs(tokens, tokens, self.window)
        pairs_of_newest = attention.causal_pairs(cache.near, cache.near, self.window)
        older = attention.attend_op(
            model,
            share,
            tokens,
            causal=True,
            streamed=cache.far,
            new_tokens=0 if cache.shares else cache.far,
            pairs_read=pairs - pairs_of_newest,
            completes=False,
        )
        older = older._replace(
            stream=Stream.FAR_KV,
            kv_side_bytes=0,
            far_side_bytes=older.kv_side_bytes,
            operand=OLDER_TOKENS,
        )
        newest = attention.attend_op(
            model,
            share,
            tokens,
            causal=True,
            streamed=tokens - cache.far,
            new_tokens=0 if cache.shares else tokens - cache.far,
            pairs_read=pairs_of_newest,
        )
        return [older, newest]
