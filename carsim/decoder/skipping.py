"""Blocks of a layer that the decoder skips, as a policy marks them.

Blocks of a layer are computed one after the other: ``qkv`` (norm, queries, keys and values),
``attention``, ``output`` (output projection, added to the residual stream) and ``mlp`` (added to
it). Where a row skips blocks by a decision, it adds what the last of them held: everything that the
skipped blocks since the holder before would have added, when the row computed last at this place.
Blocks may follow several decisions, each with ages of its own.

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
    """Blocks that rows skip by one decision.

    Attributes:
        blocks: Names of the blocks, in the order of the layer.
        holds: Those whose output is held.
        stage: Where the decision must be known.
    """

    blocks: tuple[str, ...]
    holds: tuple[str, ...]
    stage: Stage


def skipped_by(skip: Skip, n_layers: int) -> dict[str, Skipped]:
    """The blocks that rows skip by each decision that a policy follows.

    Args:
        skip: What the policy skips.
        n_layers: Layers of the decoder, which all skip the same blocks.

    Returns:
        Name of a decision -> blocks, in the order in which decisions must be known.

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
    decisions = list(dict.fromkeys(block.follows for block in marked if block.follows is not None))
    if not decisions:
        raise InputError(named, "skips no block of a plain layer", "mark some block")
    return {decision: _skipped_by_decision(named, marked, decision) for decision in decisions}


def _skipped_by_decision(named: str, marked: Layer, decision: str) -> Skipped:
    """The blocks of a layer that follow a decision.

    Args:
        named: The skip, for messages.
        marked: The layer.
        decision: Name of the decision.

    Raises:
        InputError: The decoder cannot skip these blocks by one decision.
    """
    blocks = tuple(block.name for block in marked if block.follows == decision)
    holds = tuple(block.name for block in marked if block.follows == decision and block.holds)
    by = "" if decision == TOKEN else f" by the decision {decision!r}"
    if "output" not in blocks and ("attention" in blocks or "qkv" in blocks):
        problem = f"skips {blocks[0]!r}{by}, and not the output projection, which needs it"
        raise InputError(named, problem, "skip 'output' by the same decision, too")
    if "qkv" in blocks and "attention" not in blocks:
        problem = f"skips 'qkv'{by}, and not attention, which needs queries"
        raise InputError(named, problem, "skip 'attention' by the same decision, too")
    for name in holds:
        if name not in ADDS:
            problem = f"holds the output of {name!r}, which adds nothing to the residual stream"
            raise InputError(named, problem, f"hold that of {' or '.join(map(repr, ADDS))}")
    return Skipped(blocks=blocks, holds=holds, stage=DECIDED_BY[blocks[0]])
