"""Mappings: how the work of a layer-step is laid over the cores."""

from operator import attrgetter

from carsim.base.registry import Registry
from carsim.hardware.mapping.base import Mapping as Mapping
from carsim.hardware.mapping.batch import Batch
from carsim.hardware.mapping.heads import Heads
from carsim.hardware.mapping.hybrid import Hybrid
from carsim.hardware.mapping.tensor import Tensor

MAPPINGS: Registry[Mapping] = Registry(
    "mapping", attrgetter("kind"), (Batch(), Tensor(), Heads(), Hybrid())
)
"""Every kind by its name in YAML; a kind of the package is added here."""
