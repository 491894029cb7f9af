"""Mappings: how the work of a layer-step is laid over the cores."""

from carsim.mapping.base import Mapping
from carsim.mapping.batch import Batch
from carsim.mapping.heads import Heads
from carsim.mapping.hybrid import Hybrid
from carsim.mapping.tensor import Tensor

MAPPINGS: dict[str, Mapping] = {each.kind: each for each in (Batch(), Tensor(), Heads(), Hybrid())}
"""Every kind by its name in YAML; add a kind here."""

__all__ = ["MAPPINGS", "Mapping"]
