"""Cross-layer attention (CLA, arXiv 2405.12981): layers in groups share keys and values.

The first layer of a group projects and caches keys and values, and the others read them. The
paper trains models so; here a trained model is changed without training, which costs more.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from carsim.decisions.attention import ATTENTION, AttentionPolicy


class SharedLayers(AttentionPolicy):
    """Every ``group`` neighbouring layers read the keys and values of the first of them."""

    label: ClassVar[str] = "shared layers"
    paper: ClassVar[str] = "arXiv 2405.12981"

    kind: Literal["shared_layers"] = "shared_layers"
    group: Annotated[int, Field(ge=1)] = 2

    @classmethod
    def trivial(cls):
        """Each layer for itself."""
        return cls(group=1)

    def source_layer(self, layer):
        """First layer of the group."""
        return layer - layer % self.group


ATTENTION.register(SharedLayers)
