"""Types of the numbers of sections: whole or not, above zero or not, and within reason."""

from typing import Annotated

from pydantic import Field

MOST = 10**9
"""No count, size or constant of a design comes near it; beyond it, cycles would overflow."""

PositiveInt = Annotated[int, Field(gt=0, le=MOST)]
NonNegativeInt = Annotated[int, Field(ge=0, le=MOST)]
PositiveFloat = Annotated[float, Field(gt=0, le=MOST, allow_inf_nan=False)]
NonNegativeFloat = Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)]
ClockMhz = Annotated[float, Field(ge=1, le=10_000, allow_inf_nan=False)]
