"""What all spec sections share: strict, frozen, no unknown keys."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

PositiveInt = Annotated[int, Field(gt=0)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegativeFloat = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Section(BaseModel):
    """A section of a design: immutable, strictly typed, unknown keys forbidden."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
