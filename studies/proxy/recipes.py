"""Recipes of proxy models: every model that was tried, in the order in which it was tried.

All start at random, with nothing put in by hand, and with keys and queries that are free.
"""

from dataclasses import dataclass
from typing import Any

from studies.proxy.data import Stage
from studies.proxy.network import Shape
from studies.proxy.training import Plan

_SHORT = 100
"""Steps on clips of two frames; all later ones have clips of eight."""


@dataclass(frozen=True)
class Recipe:
    """A model to train.

    Attributes:
        name: Of its folder and of its rows in the tables.
        shape: Sizes.
        n_steps: Steps of 4,096 visual tokens.
        check_every: Steps between two measurements.
        options: Other fields of :class:`studies.proxy.training.Plan`.
    """

    name: str
    shape: Shape
    n_steps: int
    check_every: int
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def plan(self) -> Plan:
        """The plan of its training."""
        curriculum = (Stage(_SHORT / self.n_steps, 2, 8), Stage(1.0, 8, 2))
        fields = {"decay_share": 0.1} | dict(self.options)
        return Plan(self.n_steps, shape=self.shape, curriculum=curriculum, plain=True, **fields)


def shape(layers: int, width: int, ffn: int, heads: int, head_size: int) -> Shape:
    """A shape of 512 codes."""
    return Shape(layers, width, heads, ffn, 512, head_size)


RECIPES = (Recipe("narrow_4x128_2x16", shape(4, 128, 1024, 2, 16), 4000, 200),)
