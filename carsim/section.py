"""What all spec sections share: strict, frozen, no unknown keys, every number within reason."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MOST = 10**9
"""No count, size or constant of a design comes near it; beyond it, cycles would overflow."""

PositiveInt = Annotated[int, Field(gt=0, le=MOST)]
NonNegativeInt = Annotated[int, Field(ge=0, le=MOST)]
PositiveFloat = Annotated[float, Field(gt=0, le=MOST, allow_inf_nan=False)]
NonNegativeFloat = Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)]
ClockMhz = Annotated[float, Field(ge=1, le=10_000, allow_inf_nan=False)]


class Section(BaseModel):
    """A section of a design: immutable, strictly typed, unknown keys forbidden."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class FieldError(ValueError):
    """A field of the right type whose value makes no sense, by itself or beside another.

    Args:
        field: Dotted path of the field, from the section that checks; empty for the section itself.
        problem: What is wrong with it, quoting the value.
        cure: What to do about it.
    """

    def __init__(self, field: str, problem: str, cure: str) -> None:
        self.field = field
        self.problem = problem
        self.cure = cure
        super().__init__(f"{field}: {problem}; {cure}")
