"""A kind of skip: the blocks of a layer that a row leaves out where it replays.

A rule of replay says *when* a row replays (:mod:`carsim.decisions.replay`), a skip says *what* it
leaves out then. To add a kind, write one file with a subclass and register it
(:data:`carsim.program.skips.SKIPS`).
"""

from abc import abstractmethod
from typing import ClassVar

from carsim.base.section import GrownSection
from carsim.program.program import Layer


class Skip(GrownSection):
    """Blocks that a row leaves out where it replays.

    Contract, to which ``python -m carsim.testing FILE`` holds the kinds of a plugin, and
    ``tests/program/test_skips.py`` those of the package:

    * ``mark`` changes no block but its ``follows`` and ``holds``, and keeps their order;
    * only a block that ends in the residual holds its output; a block that feeds the next one is
      skipped together with it (:func:`carsim.program.program.check_marks`);
    * equal layers of one number are marked equally: marks depend on nothing else;
    * blocks are skipped in one layer at least;
    * both fidelity levels, sweeps and the layer-steps one after the other give equal figures.

    Class attributes:
        label: English name in comparisons.
        decides_before: The decision is known before the layer, and no score is computed in it.
        of_whole_forwards: One decision is of all layers, so that single tokens cannot take it.
    """

    label: ClassVar[str]
    decides_before: ClassVar[bool] = False
    of_whole_forwards: ClassVar[bool] = False

    kind: str

    @property
    def compares_forwards(self) -> bool:
        """Each forward is compared with the last one, which costs a read and a write of tokens."""
        return False

    @property
    def of_forwards(self) -> "Skip":
        """The skip of forwards in which all rows decide together."""
        return self

    @property
    def of_tokens(self) -> "Skip":
        """The skip of tokens that decide one by one."""
        return self

    @abstractmethod
    def mark(self, layer: Layer, number: int) -> Layer:
        """The layer with ``follows`` and ``holds`` set; see :func:`carsim.program.program.skip`.

        A layer in which nothing is marked is computed by all rows, and takes no decision.

        Args:
            layer: The blocks of the layer.
            number: Number of the layer in its model, from 0.
        """
