"""Bits per element of what is stored and moved, with what quantisation and pruning add."""

from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, model_validator

from carsim.base.section import FieldError, Section
from carsim.base.sizes import NonNegativeInt, PositiveInt
from carsim.base.units import rational, scaled

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

    def bytes_of(self, elements: Any) -> Any:
        """Bytes of ``elements`` stored elements (a number or an int64 array), rounded up."""
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
