"""A constant with the interval in which it is believed to lie, and its source."""

from pydantic import Field, model_validator

from carsim.base.section import FieldError, Section
from carsim.base.sizes import NonNegativeFloat


class Constant(Section):
    """A constant with the interval in which it is believed to lie, and where it comes from."""

    value: NonNegativeFloat = Field(description="the best estimate")
    low: NonNegativeFloat = Field(description="least that is believed")
    high: NonNegativeFloat = Field(description="most that is believed")
    source: str = Field(min_length=8, description="where the value comes from")

    @property
    def ends(self) -> tuple[float, ...]:
        """Value, low and high."""
        return self.value, self.low, self.high

    @model_validator(mode="after")
    def _ordered(self) -> "Constant":
        if not self.low <= self.value <= self.high:
            problem = f"{self.value:g} lies outside of its interval, {self.low:g} to {self.high:g}"
            raise FieldError("value", problem, "change it, or low and high with it")
        return self
