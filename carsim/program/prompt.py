"""A layer of the prompt: all tokens of each sequence at once, as one block."""

from dataclasses import dataclass
from typing import ClassVar

from carsim.program.block import Block, Dealt, OpsOf
from carsim.program.decoder import latent_ops
from carsim.program.reads import Reads
from carsim.workload import attention, mlp
from carsim.workload.model import Model
from carsim.workload.ops import Op, Share


@dataclass(frozen=True)
class PromptLayer(Block):
    """A layer of the prompt.

    Simplification: keys and values stream once, whatever the buffers hold.

    Attributes:
        window: Newest tokens that each token attends to; None: all.
        dense: The layer has one MLP for all tokens, whatever others have.
        group: Group of layers whose weights are of equal precision.
        key_heads: Key heads that are cached, where heads share keys; None: those of the model.
        shares: The layer reads the keys and values of another, and projects queries alone.
    """

    name: ClassVar[str] = "prefill"
    title: ClassVar[str] = "prompt"
    deals: ClassVar[Dealt] = "sequences"
    in_passes: ClassVar[bool] = True

    window: int | None = None
    dense: bool = False
    group: int = 0
    key_heads: int | None = None
    shares: bool = False

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """Operations of a whole layer; nothing is held for later frames."""
        model = model.in_group(self.group).with_key_heads(self.key_heads)

        def operations(share: Share) -> list[Op]:
            tokens = self.tokens
            return [
                *latent_ops(model, attention.compress_op, share),
                attention.qkv_op(model, share, queries_alone=self.shares),
                attention.attend_op(
                    model,
                    share,
                    tokens,
                    causal=True,
                    window=self.window,
                    new_tokens=0 if self.shares else None,
                ),
                *latent_ops(model, attention.values_op, share),
                attention.output_op(model, share),
                *mlp.mlp_ops(model, share, dense=self.dense, cached=False),
            ]

        return operations
