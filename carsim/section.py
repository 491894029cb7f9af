"""What all spec sections share: strict, frozen, no unknown keys, every number within reason."""

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

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


class OneOf:
    """Annotation of a text that names a kind of a registry: looked up when a design is read.

    A kind added to the registry is known to designs, to their JSON schema and to error messages.

    Args:
        names: The registry.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(str))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "enum": list(self._names)}

    def _check(self, name: str) -> str:
        if name in self._names:
            return name
        expected = ", ".join(repr(each) for each in self._names)
        raise PydanticCustomError(
            "literal_error", "Input should be {expected}", {"expected": expected}
        )
