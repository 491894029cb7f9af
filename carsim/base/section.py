"""What all sections of a design share: strict, frozen, no unknown keys, every number within reason.

Pydantic checks them and finds the words for most mistakes; :func:`explained` adds the place and a
cure, for designs, studies, recipes, traces and results alike.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import ErrorDetails

from carsim.base.errors import IgnoredKeyWarning, InputError
from carsim.base.text import choose, closest, count
from carsim.base.yaml_file import shown

MOST_LISTED = 8
"""Fields that one error names."""


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
        self.field, self.problem, self.cure = field, problem, cure
        super().__init__(f"{field}: {problem}; {cure}")


class Section(BaseModel):
    """A part of a file: immutable, strictly typed, unknown keys forbidden.

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
        unsaid = self.unsaid
        return {name: value for name, value in write(self).items() if name not in unsaid}

    @property
    def unsaid(self) -> set[str]:
        """Later fields that go without saying, as they have their default."""
        return {
            name
            for name, defaults in _usual_values(type(self)).items()
            if all(getattr(self, name) == default for default in defaults)
        }


@cache
def _usual_values(section: type[GrownSection]) -> dict[str, list[Any]]:
    """Values with which a later field of a section goes without saying: its different defaults.

    They are collected once for each class, which halves the time of writing a design.
    A kind may give an inherited field another default. It then always writes the field, so that who
    does not know the kind reads the right value.
    """
    holders = [holder for holder in section.__mro__ if issubclass(holder, BaseModel)]
    usual: dict[str, list[Any]] = {}
    for name in section.later:
        usual[name] = []
        for holder in holders:
            if name in holder.model_fields:
                default = holder.model_fields[name].default
                if default not in usual[name]:
                    usual[name].append(default)
    return usual


def tuples(value: Any) -> Any:
    """Contents of a file with a tuple for each list, as strict sections want them."""
    if isinstance(value, Mapping):
        return {key: tuples(item) for key, item in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list) else value


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


def explained(error: ValidationError, place: str, raw: Any, cure: str = "") -> InputError:
    """The error message for a file that pydantic refuses, whatever kind of file it is.

    Args:
        error: What pydantic found.
        place: The file.
        raw: What it holds, as it was validated.
        cure: What else to do about a file that carsim itself has written.
    """
    found = first_problem(error, raw, cure)
    return InputError(f"{place}: $" + f".{found.path}" * bool(found.path), *found[1:])


def first_problem(error: ValidationError, raw: Any, cure: str = "") -> Problem:
    """The problem to mend first, and in its cure how many more there are.

    Args:
        error: What pydantic found.
        raw: What was validated.
        cure: What else to do than to mend the field.
    """
    every = error.errors(include_url=False)
    first, *more = (each for each in every if each["type"] != "default_factory_not_called")
    problem = _explain(dict(first), raw)
    is_told = problem.cure or cure or first["type"] == "value_error"
    cures = [", or ".join(filter(None, [problem.cure, cure])) if is_told else _LISTED]
    also_missing = [each for each in more if _is_missing_beside(first, each)]
    if also_missing:
        more = [each for each in more if each not in also_missing]
        paths = [_explain(dict(each), raw).path for each in also_missing]
        cures.append(f"{_listed(paths)} {'is' if len(paths) == 1 else 'are'} missing, too")
    if more:
        cures.append(f"{count(len(more), 'more problem')} to mend after it")
    return problem._replace(cure="; ".join(filter(None, cures)))


def _is_missing_beside(first: ErrorDetails, other: ErrorDetails) -> bool:
    """Two fields of one section of the document are both missing."""
    both_missing = first["type"] == other["type"] == "missing"
    return both_missing and first["loc"][:1] == other["loc"][:1]


def _listed(paths: Sequence[str]) -> str:
    """The first of some paths, and how many more there are."""
    texts = list(paths[:MOST_LISTED])
    if len(paths) > MOST_LISTED:
        texts.append(f"{len(paths) - MOST_LISTED} more")
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def field_problems(kind: type[BaseModel], field: str, value: Any) -> list[Problem]:
    """Problems that a field of a section has with a value, whatever other fields hold."""
    raw = tuples({field: value})
    try:
        kind.model_validate(raw)
    except ValidationError as error:
        found = [each for each in error.errors(include_url=False) if each["loc"][:1] == (field,)]
        return [_explain(dict(each), raw) for each in found]
    return []


_LISTED = "'carsim config schema' lists what may stand there"

_CURES = {
    "bool_type": "write true or false, without quotes",
    **dict.fromkeys(("int_type", "int_from_float"), "write it without point or exponent"),
    **dict.fromkeys(("float_type", "finite_number"), "write a plain number"),
    **dict.fromkeys(("tuple_type", "list_type"), "write a list: [a, b]"),
    "string_type": "write it in quotes",
    "too_short": "add one",
    **dict.fromkeys(
        ("greater_than", "greater_than_equal", "less_than", "less_than_equal"),
        "write a number within that limit",
    ),
}


def _explain(found: dict[str, Any], raw: Any) -> Problem:
    """Path of the field, what is wrong with it and how to mend it; no cure where none is known."""
    kind, value, context = found["type"], found["input"], found.get("ctx", {})
    path = _path(found["loc"], raw, is_missing=kind == "missing")

    def told(problem: str, cure: str, *below: str) -> Problem:
        return Problem(".".join(map(_key, [*path, *below])), problem, cure)

    if isinstance(clash := context.get("error"), FieldError):
        return told(clash.problem, clash.cure, *filter(None, clash.field.split(".")))
    if clash is not None:
        problem, _, advice = str(clash).partition("; ")
        return told(problem, advice)
    if kind == "missing":
        return told("is missing", "add it")
    if kind == "union_tag_not_found":
        return told("is missing", "'carsim config schema' lists the kinds", "kind")
    if kind == "union_tag_invalid":
        expected = context["expected_tags"]
        problem = f"should be one of {expected}, got {shown(context['tag'])}"
        return told(problem, _choice(context["tag"], expected), "kind")
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return told(f"should be a section, got {shown(value)}", "write 'key: value' lines below it")
    problem = f"{found['msg'].removeprefix('Input ')}, got {shown(value)}"
    if kind == "literal_error":
        return told(problem, _choice(value, context["expected"]))
    return told(problem, _cure(kind, value))


def _cure(kind: str, value: object) -> str:
    """Cure for a value of a wrong type, or beyond a limit; empty where none is known."""
    if value is None:
        return "write a value, or leave the field out"
    if kind in ("int_type", "float_type") and isinstance(value, str):
        return "write a plain number, without quotes, unit or leading zero"
    if kind == "int_type" and not isinstance(value, float):
        return "write a plain number"
    if kind == "string_type" and isinstance(value, tuple | list | Mapping):
        return "write a text"
    return _CURES.get(kind, "")


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """Sections among the alternatives of an annotation; keys of a mapping are those of a value."""
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, BaseModel) else []
    alternatives = () if get_origin(annotation) is dict else get_args(annotation)
    return [found for each in alternatives for found in sections_of(each)]


def _choice(value: object, expected: str) -> str:
    names = [name.strip("'") for name in expected.replace(" or ", ", ").split(", ")]
    return closest(value, names) + "choose one"


def _path(location: tuple[int | str, ...], raw: Any, *, is_missing: bool) -> list[str]:
    """Keys of the document on the way to a problem.

    Pydantic's location also names the kind of a section that comes in kinds, which is no key.
    """
    path: list[str] = []
    for part in location[: len(location) - is_missing]:
        is_index = isinstance(part, int) and isinstance(raw, Sequence) and not isinstance(raw, str)
        if part in raw if isinstance(raw, Mapping) else is_index:
            path.append(str(part))
            raw = raw[part]
    return [*path, *map(str, location[len(location) - is_missing :])]


def _key(part: str) -> str:
    return part if part.isprintable() and 0 < len(part) <= 60 else shown(part)
