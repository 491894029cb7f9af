"""Recipes of proxy models: the shipped one, then others in the order in which they were tried.

All but the shipped one start at random, with nothing put in by hand, and with keys and queries that
are free. Figures of those are in ``checkpoints.csv``.
"""

from dataclasses import dataclass

from studies.proxy.data import Stage
from studies.proxy.network import Shape
from studies.proxy.training import Plan

_SHORT = 100
"""Steps on clips of two frames; all later ones have clips of eight."""

CHECKS = (100, *range(200, 4001, 200))


@dataclass(frozen=True)
class Recipe:
    """A model to train.

    Attributes:
        name: Of its folder and of its rows in the tables.
        plan: Of its training.
        checks: Steps after which it is kept and measured, beside the last.
    """

    name: str
    plan: Plan
    checks: tuple[int, ...] = CHECKS


def plain(name: str, heads: int, head_size: int, n_steps: int = 4000) -> Recipe:
    """Four layers of width 128 with an MLP of 1,024, which start at random."""
    stages = (Stage(_SHORT / n_steps, 2, 8), Stage(1.0, 8, 2))
    shape = Shape(4, 128, heads, 1024, 512, head_size)
    plan = Plan(n_steps, decay_share=0.1, shape=shape, curriculum=stages, plain=True)
    return Recipe(name, plan)


RECIPES = (
    Recipe("twin", Plan(1200), checks=()),
    plain("narrow_4x128_2x16", 2, 16),
    plain("narrowest_4x128_1x16", 1, 16),
    plain("small_head_4x128_1x8", 1, 8),
)


def named(name: str) -> Recipe:
    """The recipe of a name."""
    return next(each for each in RECIPES if each.name == name)
