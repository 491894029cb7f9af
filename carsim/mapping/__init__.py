"""Mappings: how the work of a layer-step is laid over the cores."""

from operator import attrgetter

from carsim.mapping.base import Mapping
from carsim.mapping.batch import Batch
from carsim.mapping.heads import Heads
from carsim.mapping.hybrid import Hybrid
from carsim.mapping.tensor import Tensor
from carsim.registry import Registry

MAPPINGS: Registry[Mapping] = Registry(
    "mapping", attrgetter("kind"), (Batch(), Tensor(), Heads(), Hybrid())
)
"""Every kind by its name in YAML; a kind of the package is added here."""

__all__ = ["MAPPINGS", "Mapping"]
