"""Bits per element of what is stored and moved, with what quantisation and pruning add."""

import re
from fractions import Fraction
from functools import cached_property
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from carsim.base.section import FieldError, GrownSection, Section
from carsim.base.sizes import NonNegativeInt, PositiveInt
from carsim.base.units import Whole, rational, scaled
from carsim.base.yaml_file import shown

Share = Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)]
Bits = Annotated[float, Field(ge=0.1, le=64, allow_inf_nan=False)]


class Precision(Section):
    """Bits per element with the scales and zero points of its quantisation groups."""

    bits: Bits = Field(
        description="bits of an element; a decimal such as 3.5 is the mean of mixed precisions"
    )
    group: PositiveInt | None = Field(None, description="elements that share a scale; absent: none")
    scale_bits: NonNegativeInt = Field(
        0, description="bits of the scale of a group, such as 16; a group needs it"
    )
    zero_bits: NonNegativeInt = Field(0, description="bits of the zero point of a group")

    @model_validator(mode="after")
    def _scales_need_a_group(self) -> "Precision":
        if self.group is None and (self.scale_bits or self.zero_bits):
            raise FieldError("", "scale_bits and zero_bits need a group", "add 'group', say 128")
        if self.group is not None and not self.scale_bits:
            problem = f"a group of {self.group} has a scale, of which no bits are counted"
            cure = "add 'scale_bits', usually 16, and 'zero_bits' where there is a zero point"
            raise FieldError("scale_bits", problem, cure)
        return self

    @property
    def bits_per_element(self) -> Fraction:
        """Stored bits per element, scales and zero points included, as bytes are counted by them.

        >>> float(Precision(bits=4, group=128, scale_bits=16, zero_bits=4).bits_per_element)
        4.15625
        """
        overhead = Fraction(self.scale_bits + self.zero_bits, self.group) if self.group else 0
        return rational(Fraction(str(self.bits)) + overhead)

    def bytes_of(self, elements: Whole) -> Whole:
        """Bytes of ``elements`` stored elements, rounded up."""
        return scaled(elements, self._bytes_per_element)

    @cached_property
    def _bytes_per_element(self) -> Fraction:
        return self.bits_per_element / 8


class WeightPrecision(Precision):
    """Precision of weights, of which some may have been pruned away.

    Pruned weights are neither stored, nor moved, nor multiplied: the machine skips them.
    """

    density: Share = Field(1.0, description="share of the weights that are kept")
    index_bits: NonNegativeInt = Field(0, description="per kept weight, to say where it belongs")

    @property
    def bits_per_element(self) -> Fraction:
        """Stored bits per weight of the unpruned matrix.

        >>> float(WeightPrecision(bits=4, density=0.5, index_bits=2).bits_per_element)
        3.0
        """
        return rational(self._density * (super().bits_per_element + self.index_bits))

    def kept(self, length: int) -> int:
        """Weights that are left of a dot product of a given length, rounded up."""
        return scaled(length, self._density)

    @cached_property
    def _density(self) -> Fraction:
        return rational(self.density)


Role = Literal[
    "attention_qkv",
    "attention_output",
    "mlp",
    "experts",
    "shared_experts",
    "router",
    "embedding",
    "head",
    "norms",
]
"""Role of a weight tensor, by which its precision may differ from that of the others."""

ROLES: tuple[Role, ...] = get_args(Role)


class WeightsByRole(GrownSection):
    """Precision of the weights of single roles, where it is not that of ``model.weights``."""

    later: ClassVar[frozenset[str]] = frozenset({"attention", *ROLES})

    attention: WeightPrecision | None = Field(
        None, description="short for attention_qkv and attention_output"
    )
    attention_qkv: WeightPrecision | None = Field(
        None, description="projections before attention; all of latent attention but its output"
    )
    attention_output: WeightPrecision | None = Field(
        None, description="projection of what attention puts out"
    )
    mlp: WeightPrecision | None = Field(None, description="MLPs that all tokens go through")
    experts: WeightPrecision | None = Field(None, description="experts that a router chooses")
    shared_experts: WeightPrecision | None = Field(
        None, description="experts that all tokens go through"
    )
    router: WeightPrecision | None = Field(None, description="scores of the experts")
    embedding: WeightPrecision | None = Field(
        None, description="embedding of tokens; no effect where it is the head's own matrix"
    )
    head: WeightPrecision | None = Field(None, description="classifier, or depth transformer")
    norms: WeightPrecision | None = Field(
        None, description="norms, whose bytes are counted only where this is given"
    )

    def of(self, role: Role) -> WeightPrecision | None:
        """Precision of a role; None where it does not differ.

        >>> WeightsByRole(attention=WeightPrecision(bits=8)).of("attention_output").bits
        8.0
        """
        precision: WeightPrecision | None = getattr(self, role)
        if precision is None and role in ("attention_qkv", "attention_output"):
            return self.attention
        return precision


def _listed_layers(value: object) -> object:
    """Layers with each range such as ``"0-3"`` spelled out; what is none is left as it is."""
    if not isinstance(value, tuple | list):
        return value
    layers: list[object] = []
    for entry in value:
        ends = re.fullmatch(r"([0-9]{1,4})-([0-9]{1,4})", entry) if isinstance(entry, str) else None
        if ends is None:
            layers.append(entry)
        elif int(ends[1]) > int(ends[2]):
            raise FieldError("", f"{shown(entry)} ends before it begins", "swap its ends")
        else:
            layers += range(int(ends[1]), int(ends[2]) + 1)
    return tuple(layers)


class WeightsOfLayers(WeightsByRole):
    """Precision of the weights of single roles in some layers.

    It goes before that of ``model.weights_by_role``. Embedding, head and norms have no layers.
    """

    later: ClassVar[frozenset[str]] = WeightsByRole.later

    layers: Annotated[tuple[NonNegativeInt, ...], BeforeValidator(_listed_layers)] = Field(
        description="layers, counted from 0; a range may be written as 0-3"
    )

    @model_validator(mode="after")
    def _are_of_layers(self) -> "WeightsOfLayers":
        if not self.layers:
            raise FieldError("layers", "is empty", "list layers, or leave the entry out")
        for role in OUTSIDE:
            if self.of(role) is not None:
                problem = f"the role {role} lies outside of the layers"
                raise FieldError(role, problem, "give it in weights_by_role")
        return self


OUTSIDE: tuple[Role, ...] = ("embedding", "head", "norms")
"""Roles that no layer has, or whose precision is counted for all layers together."""
