"""Blocks of a layer that the decoder skips, as a policy marks them.

Blocks of a layer are computed one after the other: ``qkv`` (norm, queries, keys and values),
``attention``, ``output`` (output projection, added to the residual stream) and ``mlp`` (added to
it). Where a row skips blocks, it adds what the last of them held: everything that the skipped
blocks since the holder before would have added, when the row computed last at this place.

Where ``qkv`` is skipped, the key and the value of the place in the previous frame stand for new
ones.
"""

from dataclasses import dataclass

from carsim.base.errors import InputError
from carsim.decisions.replay.seen import Stage
from carsim.program.decoder import Attend, Mlp, Output, Qkv
from carsim.program.program import TOKEN, Layer
from carsim.program.skips import Skip

PLAIN_LAYER: Layer = (Qkv(), Attend(), Output(), Mlp())
ADDS = ("output", "mlp")
"""Blocks that add to the residual stream."""

DECIDED_BY: dict[str, Stage] = {
    "qkv": "before",
    "attention": "q",
    "output": "attention",
    "mlp": "residual",
}
"""A block, and the stage at which a row must know that it skips the block."""

KNOWN_BEHIND: dict[Stage, str | None] = {
    "before": None,
    "q": "qkv",
    "attention": "attention",
    "residual": "output",
}
"""A stage, and the block behind which its decision is known; None: before the layer."""


@dataclass(frozen=True)
class Skipped:
    """What rows skip where they replay.

    Attributes:
        blocks: Names of the blocks that they skip, in order.
        holds: Those whose output is held.
        stage: Where the decision must be known.
    """

    blocks: tuple[str, ...]
    holds: tuple[str, ...]
    stage: Stage


def skipped_by(skip: Skip, n_layers: int) -> Skipped:
    """The blocks that a policy skips.

    Args:
        skip: What the policy skips.
        n_layers: Layers of the decoder, which all skip the same blocks.

    Raises:
        InputError: The decoder cannot skip these blocks.
    """
    named = f"skip {skip.kind!r}"
    marked = skip.mark(PLAIN_LAYER, 0)
    for number in range(1, n_layers):
        if skip.mark(PLAIN_LAYER, number) != marked:
            problem = f"skips other blocks in layer {number} than in layer 0"
            cure = "skip the same blocks in all layers, and give a layer without replay no tau"
            raise InputError(named, problem, cure)
    decisions = {block.follows for block in marked if block.follows is not None}
    if decisions - {TOKEN}:
        problem = f"follows the decisions {', '.join(sorted(decisions))}, a decoder makes one"
        cure = "capture a trace for each, and join them as decisions of one trace"
        raise InputError(named, problem, cure)
    blocks = tuple(block.name for block in marked if block.follows is not None)
    holds = tuple(block.name for block in marked if block.holds)
    if not blocks:
        raise InputError(named, "skips no block of a plain layer", "mark some block")
    if "output" not in blocks and ("attention" in blocks or "qkv" in blocks):
        problem = f"skips {blocks[0]!r}, and not the output projection, which needs it"
        raise InputError(named, problem, "skip 'output', too")
    if "qkv" in blocks and "attention" not in blocks:
        problem = "skips 'qkv', and not attention, which needs queries"
        raise InputError(named, problem, "skip 'attention', too")
    for name in holds:
        if name not in ADDS:
            problem = f"holds the output of {name!r}, which adds nothing to the residual stream"
            raise InputError(named, problem, f"hold that of {' or '.join(map(repr, ADDS))}")
    return Skipped(blocks=blocks, holds=holds, stage=DECIDED_BY[blocks[0]])
