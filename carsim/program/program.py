"""A program: the blocks of every layer in one kind of step, and where its decisions are known.

Semantics of blocks that rows skip:

* Neighbouring blocks of a layer that follow one decision are a *section*. Rows travel to the core
  that computes them in front of its first block, and back behind it; blocks of one section do not
  exchange rows.
* The dispatcher works through the instructions of the blocks of a section in turn, from the moment
  at which the decision is known.
* Rows that do not fit into the Index Register together go through the section in groups: the next
  group is dispatched when the one before has left the section.
* Rows that skip a section add what its blocks hold, beside the rows that compute.

A program is refused where a block follows a decision that is known behind it, and where no machine
exists for its marks (:func:`check_marks`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from carsim.base.errors import InputError
from carsim.base.groups import grouped
from carsim.program.block import Block
from carsim.workload.model import Model

Layer = tuple[Block, ...]

TOKEN = "token"
"""The decision of a rule of replay: a token of a sequence, in one layer and step."""


class Section(NamedTuple):
    """Blocks that follow one decision one after the other, or one block that all rows compute.

    Attributes:
        position: Position of the first block in its layer, from 0.
        blocks: The blocks.
        layers: Layers that have them there, ascending.
    """

    position: int
    blocks: Layer
    layers: list[int]

    @property
    def follows(self) -> str | None:
        """The decision; None: all rows compute the block."""
        return self.blocks[0].follows


@dataclass(frozen=True, eq=False)
class Program:
    """All layers in one kind of step.

    Attributes:
        layers: The blocks of each layer; layers need not be alike, nor of one length.
        known_after: Decision -> name of the block behind which it is known; None: before the layer.
        decided: Decisions are taken. If not, as in a first frame, rows that follow a decision are
            computed on the core where they are.
    """

    layers: tuple[Layer, ...]
    known_after: Mapping[str, str | None]
    decided: bool

    def __post_init__(self) -> None:
        for layer in self.distinct_layers:
            check_marks(layer)
        if not self.decided:
            return
        for layer in self.distinct_layers:
            for position, block in enumerate(layer):
                if block.follows is not None and self.known_from(layer, block.follows) > position:
                    after = self.known_after[block.follows]
                    raise InputError(
                        "policy.skip",
                        f"{block.label} is skipped by a decision that is known after {after}",
                        "decide earlier (machine.decision_at: q), or skip later blocks only",
                    )

    @cached_property
    def distinct_layers(self) -> dict[Layer, list[int]]:
        """The different layers, and the numbers of the layers that equal each of them."""
        return grouped((layer, number) for number, layer in enumerate(self.layers))

    @cached_property
    def sections(self) -> list[Section]:
        """Sections of all layers, in the order of their positions."""
        layers_of = grouped(
            (position_and_blocks, number)
            for layer, numbers in self.distinct_layers.items()
            for position_and_blocks in sections_of(layer)
            for number in numbers
        )
        sections = [
            Section(position=position, blocks=blocks, layers=sorted(layers))
            for (position, blocks), layers in layers_of.items()
        ]
        return sorted(sections, key=lambda section: section.position)

    @cached_property
    def blocks(self) -> dict[Block, list[int]]:
        """The different blocks in the order of their positions, and the layers that have them."""
        return grouped(
            (block, number)
            for section in self.sections
            for block in section.blocks
            for number in section.layers
        )

    @cached_property
    def skipped(self) -> dict[Block, list[int]]:
        """The blocks that rows skip by a decision, and the layers that have them."""
        return {block: layers for block, layers in self.blocks.items() if block.follows is not None}

    @cached_property
    def decisions(self) -> list[str]:
        """Names of the decisions that blocks follow, the one of the trace always among them."""
        names = (block.follows for block in self.skipped)
        return list(dict.fromkeys([TOKEN, *(name for name in names if name is not None)]))

    def known_from(self, layer: Layer, decision: str) -> int:
        """The first position of a layer at whose beginning a decision is known."""
        after = self.known_after[decision]
        if after is None:
            return 0
        return 1 + [block.name for block in layer].index(after)

    @property
    def vain_blocks(self) -> list[Block]:
        """Blocks that rows compute although they skip, by a decision known then, what reads them.

        A block behind which the decision is known is computed for the sake of the decision.
        """
        return [
            block
            for layer in self.distinct_layers
            for position, (block, following) in enumerate(pairwise(layer))
            if block.feeds_next and not block.feeds_later and block.follows is None
            if following.follows is not None
            if self.known_from(layer, following.follows) <= position
        ]

    @cached_property
    def skipping_layers(self) -> list[int]:
        """Numbers of the layers in which rows skip a block."""
        return [
            number
            for number, layer in enumerate(self.layers)
            if any(block.follows is not None for block in layer)
        ]

    def skipped_share_of_products(self, model: Model) -> tuple[int, int]:
        """Products with weights in skipped blocks, and in all blocks, of layers that skip any."""
        n_skipped = 0
        n_products = 0
        for number in self.skipping_layers:
            for block in self.layers[number]:
                n_products += block.products(model)
                if block.follows is not None:
                    n_skipped += block.products(model)
        return n_skipped, n_products

    def held_bytes(self, model: Model, tokens: int) -> int:
        """Bytes that the cached outputs of one sequence take.

        Args:
            model: The model.
            tokens: Tokens whose outputs are held at once: those of a frame.
        """
        return sum(
            len(layers) * int(model.replay.bytes_of(tokens * block.held_elements(model)))
            for block, layers in self.skipped.items()
        )


def skip(layer: Layer, *names: str, holds: Sequence[str], decision: str = TOKEN) -> Layer:
    """Let some blocks of a layer follow a decision.

    Args:
        layer: The layer.
        names: Names of the blocks that rows skip.
        holds: Those of them whose output is held.
        decision: Name of the decision.

    Raises:
        InputError: The layer has no block of such a name.
    """
    there = [block.name for block in layer]
    for name in (*names, *holds):
        if name not in there:
            raise InputError("policy.skip", f"no block {name!r}", f"known are {', '.join(there)}")
    return tuple(
        replace(block, follows=decision, holds=block.name in holds)
        if block.name in names
        else block
        for block in layer
    )


def check_marks(layer: Layer) -> None:
    """Refuse marks for which no machine exists.

    Args:
        layer: The blocks of a layer, as a skip has marked them.

    Raises:
        InputError: A block is skipped whose output the next block needs, or an output is held that
            is not added to the residual.
    """
    adding = " or ".join(block.name for block in layer if not block.feeds_next)
    for block in layer:
        if block.holds and block.feeds_next:
            problem = f"the output of {block.name} is held, which adds nothing to the residual"
            raise InputError("policy.skip", problem, f"hold that of {adding}")
    for position, (block, following) in enumerate(pairwise(layer)):
        if block.feeds_next and block.follows not in (None, following.follows):
            problem = f"{block.name} is skipped, and {following.name}, which needs it, is computed"
            names = [repr(each.name) for each in _chain(layer[position:])]
            call = f"skip(layer, {', '.join(names)}, holds=[{names[-1]}])"
            raise InputError("policy.skip", problem, f"write {call}")


def _chain(blocks: Layer) -> Layer:
    """The first blocks up to the one whose output is added to the residual."""
    ends = [position for position, block in enumerate(blocks) if not block.feeds_next]
    return blocks[: ends[0] + 1] if ends else blocks


def sections_of(layer: Layer) -> list[tuple[int, Layer]]:
    """The sections of one layer: position of the first block, and the blocks."""
    sections: list[tuple[int, Layer]] = []
    for position, block in enumerate(layer):
        if sections and block.follows is not None and sections[-1][1][-1].follows == block.follows:
            first_position, blocks = sections[-1]
            sections[-1] = first_position, (*blocks, block)
        else:
            sections.append((position, (block,)))
    return sections
