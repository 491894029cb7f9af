"""What all sections of a design share: strict, frozen, no unknown keys, every number within reason.

Pydantic checks them and finds the words for most mistakes; :func:`first_problem` puts the place and
a cure beside them.
"""

import warnings
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from carsim.base.errors import IgnoredKeyWarning
from carsim.base.text import choose, closest, count
from carsim.base.yaml_file import shown

MOST = 10**9
"""No count, size or constant of a design comes near it; beyond it, cycles would overflow."""

PositiveInt = Annotated[int, Field(gt=0, le=MOST)]
NonNegativeInt = Annotated[int, Field(ge=0, le=MOST)]
PositiveFloat = Annotated[float, Field(gt=0, le=MOST, allow_inf_nan=False)]
NonNegativeFloat = Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)]
ClockMhz = Annotated[float, Field(ge=1, le=10_000, allow_inf_nan=False)]


def file_schema(model: type[BaseModel], title: str) -> dict[str, Any]:
    """JSON schema of a file that a model of pydantic describes."""
    schema = model.model_json_schema()
    return schema | {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}


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


class Section(BaseModel):
    """A section of a design: immutable, strictly typed, unknown keys forbidden.

    Attributes:
        obsolete: Keys that earlier versions had, each with the reason why it has no effect any
            more, such as ``{"prefetch": "fetching ahead across phases is not modelled"}``. They
            are accepted, left out of the section, and named in a warning.
    """

    # Deferred: a section is built with what it is part of, and not for itself before.
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)

    obsolete: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping):
            return raw
        known = sorted(cls.model_fields)
        for key in raw:
            if key in cls.obsolete:
                note = f"{cls.__name__.lower()}.{key} has no effect: {cls.obsolete[key]}"
                warnings.warn(note, IgnoredKeyWarning, stacklevel=2)
            elif key not in known:
                cure = choose(key, known, "known here:")
                raise FieldError(str(key), f"unknown key {shown(key)}", cure)
        return {key: value for key, value in raw.items() if key not in cls.obsolete}


class GrownSection(Section):
    """A section that was given fields since designs were first hashed.

    Attributes:
        later: Those fields. They are written only where they differ from their default, so that a
            design that says nothing of them keeps its document and its hash.
    """

    later: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _leave_out_what_is_not_said(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        unsaid = {name for name in self.later if getattr(self, name) == fields[name].default}
        return {name: value for name, value in write(self).items() if name not in unsaid}


class Problem(NamedTuple):
    """One problem of a document.

    Attributes:
        path: Dotted path of the field.
        problem: What is wrong, quoting the value.
        cure: What to do about it.
    """

    path: str
    problem: str
    cure: str


def first_problem(error: ValidationError, raw: Any) -> Problem:
    """The problem to mend first, and in its cure how many more there are.

    Args:
        error: What pydantic found.
        raw: The mapping that was validated.
    """
    first, *more = error.errors(include_url=False)
    path, problem, cure = _explain(dict(first), raw)
    if more:
        cure += f"; {count(len(more), 'more problem')} to mend after it"
    return Problem(".".join(map(_key, path)), problem, cure)


_CURES = {
    "bool_type": "write true or false, without quotes",
    "int_type": "write it without point or exponent",
    "int_from_float": "write it without point or exponent",
    "float_type": "write a plain number",
    "finite_number": "write a plain number",
    "string_type": "write it in quotes",
    "tuple_type": "write a list: [a, b]",
    "list_type": "write a list: [a, b]",
}

_LIMITS = {
    "greater_than": ("gt", "write a number above {:,}"),
    "greater_than_equal": ("ge", "write {:,} or more"),
    "less_than": ("lt", "write a number below {:,}"),
    "less_than_equal": ("le", "write {:,} or less"),
}
"""Refusal of a number -> key of its limit, and the cure."""


def _explain(found: dict[str, Any], raw: Any) -> tuple[list[str], str, str]:
    """Path of the field, what is wrong with it and how to mend it."""
    kind, value, context = found["type"], found["input"], found.get("ctx", {})
    path = _path(found["loc"], raw, is_missing=kind == "missing")
    if isinstance(context.get("error"), FieldError):
        clash: FieldError = context["error"]
        return [*path, *filter(None, clash.field.split("."))], clash.problem, clash.cure
    if kind == "missing":
        return path, "is missing", "add it"
    if kind == "union_tag_not_found":
        return [*path, "kind"], "is missing", "'carsim config schema' lists the kinds"
    if kind == "union_tag_invalid":
        problem = f"should be one of {context['expected_tags']}, got {shown(context['tag'])}"
        return [*path, "kind"], problem, _choice(context["tag"], context["expected_tags"])
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        problem = f"should be a section, got {shown(value)}"
        return path, problem, "write 'key: value' lines below it"
    problem = f"{found['msg'].removeprefix('Input ')}, got {shown(value)}"
    if kind == "literal_error":
        return path, problem, _choice(value, context["expected"])
    if kind in ("int_type", "float_type") and isinstance(value, str):
        return path, problem, "write a plain number, without quotes, unit or leading zero"
    return path, problem, cure_of(kind, context)


def cure_of(kind: str, context: Mapping[str, Any]) -> str:
    """What to write in place of a value that pydantic refuses.

    >>> cure_of("greater_than_equal", {"ge": 1}), cure_of("less_than", {"lt": 0.5})
    ('write 1 or more', 'write a number below 0.5')
    """
    if kind in _LIMITS:
        key, cure = _LIMITS[kind]
        return cure.format(context[key])
    return _CURES.get(kind, "'carsim config schema' lists what may stand there")


def _choice(value: object, expected: str) -> str:
    names = [name.strip("'") for name in expected.replace(" or ", ", ").split(", ")]
    return closest(value, names) + "choose one"


def _path(location: tuple[int | str, ...], raw: Any, *, is_missing: bool) -> list[str]:
    """Keys of the document on the way to a problem.

    Pydantic's location also names the kind of a section that comes in kinds, which is no key.
    """
    path: list[str] = []
    for part in location[: len(location) - is_missing]:
        if part in raw if isinstance(raw, Mapping) else isinstance(part, int):
            path.append(str(part))
            raw = raw[part]
    return [*path, *map(str, location[len(location) - is_missing :])]


def _key(part: str) -> str:
    return part if part.isprintable() and 0 < len(part) <= 60 else shown(part)
