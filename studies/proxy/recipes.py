"""Recipes of proxy models, in the order in which they were tried.

Figures of all that were trained are in ``checkpoints.csv``.

All start at random, with nothing put in by hand, and with keys and queries that are free.
"""

from dataclasses import dataclass, field
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
        n_steps: Steps of ``clips`` x 2,048 visual tokens.
        checks: Steps after which it is measured.
        clips: Clips of eight frames in a step.
        options: Other fields of :class:`studies.proxy.training.Plan`.
    """

    name: str
    shape: Shape
    n_steps: int
    checks: tuple[int, ...]
    clips: int = 2
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """The plan of its training."""
        stages = (Stage(_SHORT / self.n_steps, 2, 4 * self.clips), Stage(1.0, 8, self.clips))
        fields = {"decay_share": 0.1} | self.options
        return Plan(self.n_steps, shape=self.shape, curriculum=stages, plain=True, **fields)


def shape(layers: int, width: int, ffn: int, heads: int, head_size: int) -> Shape:
    """A shape of 512 codes."""
    return Shape(layers, width, heads, ffn, 512, head_size)


NARROWEST = shape(4, 128, 1024, 1, 16)
SMALL_HEAD = shape(4, 128, 1024, 1, 8)
NARROW = shape(4, 128, 1024, 2, 16)
WIDE = shape(4, 128, 1024, 4, 32)
DEEP = shape(8, 128, 1024, 1, 16)
DOUBLING = (250, 500, 1000, 2000, 4000, 8000)
ALONE: dict[str, Any] = {"photo_share": 0.0}
"""Walks alone, as photographs take most of the time in which a batch is drawn."""

RECIPES = (
    Recipe("narrow_4x128_2x16", NARROW, 4000, (100, *range(200, 4001, 200))),
    Recipe("narrowest_4x128_1x16", NARROWEST, 4000, (100, *range(200, 4001, 200))),
    Recipe("wide_4x128_4x32", WIDE, 4000, (100, *range(200, 4001, 200))),
    Recipe("small_head_4x128_1x8", SMALL_HEAD, 4000, (100, *range(200, 4001, 200))),
    # For a GPU: 65,536 tokens a step.
    Recipe("long_narrowest_4x128_1x16", NARROWEST, 8000, DOUBLING, 32, ALONE),
    Recipe("long_deep_8x128_1x16", DEEP, 8000, DOUBLING, 32, ALONE),
    Recipe("long_narrow_4x128_2x16", NARROW, 8000, DOUBLING, 32, ALONE),
    Recipe("long_wide_4x128_4x32", WIDE, 8000, DOUBLING, 32, ALONE),
)


def named(name: str) -> Recipe:
    """The recipe of a name."""
    return next(each for each in RECIPES if each.name == name)
