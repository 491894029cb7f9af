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

LONGEST_CURED = 60
"""Characters from which on a cure does not repeat a value, which may be shown in part."""


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
        """Refuse unknown keys, and leave out obsolete ones with a warning."""
        if not isinstance(raw, Mapping):
            return raw
        field_names = sorted(cls.model_fields)
        for key in raw:
            if key in cls.obsolete:
                note = f"{cls.__name__.lower()}.{key} has no effect: {cls.obsolete[key]}"
                warnings.warn(note, IgnoredKeyWarning, stacklevel=2)
            elif key not in field_names:
                cure = choose(key, field_names, "known here:")
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
        unsaid = set()
        for name, defaults in _usual_values(type(self)).items():
            value = getattr(self, name)
            if all(value == default for default in defaults):
                unsaid.add(name)
        return unsaid


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
    first = first_problem(error, raw, cure)
    path = f"$.{first.path}" if first.path else "$"
    return InputError(f"{place}: {path}", first.problem, first.cure)


def first_problem(error: ValidationError, raw: Any, cure: str = "") -> Problem:
    """The problem to mend first, and in its cure how many more there are.

    Args:
        error: What pydantic found.
        raw: What was validated.
        cure: What else to do than to mend the field.
    """
    details = error.errors(include_url=False)
    # A default that depends on a field with a problem is no problem of its own.
    details = [detail for detail in details if detail["type"] != "default_factory_not_called"]
    first = details[0]
    problem = _explain(dict(first), raw)
    if problem.cure or cure:
        cures = [", or ".join(filter(None, [problem.cure, cure]))]
    elif first["type"] == "value_error":
        cures = []  # the problem is in carsim's own words, which say all
    else:
        cures = [_LISTED]
    also_missing = [detail for detail in details[1:] if _is_missing_beside(first, detail)]
    others = [detail for detail in details[1:] if detail not in also_missing]
    if also_missing:
        paths = [_explain(dict(detail), raw).path for detail in also_missing]
        cures.append(f"{_listed(paths)} {'is' if len(paths) == 1 else 'are'} missing, too")
    if others:
        cures.append(f"{count(len(others), 'more problem')} to mend after it")
    return problem._replace(cure="; ".join(cures))


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
        details = error.errors(include_url=False)
        of_field = [detail for detail in details if detail["loc"][:1] == (field,)]
        return [_explain(dict(detail), raw) for detail in of_field]
    return []


_LISTED = "'carsim config schema' lists what may stand there"

_CURES = {
    "bool_type": "write true or false, without quotes",
    "int_type": "write it without point or exponent",
    "int_from_float": "write it without point or exponent",
    "float_type": "write a plain number",
    "finite_number": "write a plain number",
    "tuple_type": "write a list: [a, b]",
    "list_type": "write a list: [a, b]",
    "string_type": "write it in quotes",
    "too_short": "add one",
    "greater_than": "write a number within that limit",
    "greater_than_equal": "write a number within that limit",
    "less_than": "write a number within that limit",
    "less_than_equal": "write a number within that limit",
}
"""Kind of a problem, as pydantic names it -> cure."""


def _explain(detail: dict[str, Any], raw: Any) -> Problem:
    """Path of the field, what is wrong with it and how to mend it; no cure where none is known.

    Args:
        detail: A problem as pydantic describes it.
        raw: What was validated.
    """
    kind = detail["type"]
    value = detail["input"]
    context = detail.get("ctx", {})
    path = _path(detail["loc"], raw, is_missing=kind == "missing")
    own_error = context.get("error")  # raised by a validator of carsim
    if isinstance(own_error, FieldError):
        path += filter(None, own_error.field.split("."))
        return Problem(_dotted(path), own_error.problem, own_error.cure)
    if own_error is not None:
        problem, _, advice = str(own_error).partition("; ")
        return Problem(_dotted(path), problem, advice)
    if kind == "missing":
        return Problem(_dotted(path), "is missing", "add it")
    if kind == "union_tag_not_found":
        cure = "'carsim config schema' lists the kinds"
        return Problem(_dotted([*path, "kind"]), "is missing", cure)
    if kind == "union_tag_invalid":
        kinds = context["expected_tags"]
        problem = f"should be one of {kinds}, got {shown(context['tag'])}"
        return Problem(_dotted([*path, "kind"]), problem, _choice(context["tag"], kinds))
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        problem = f"should be a section, got {shown(value)}"
        return Problem(_dotted(path), problem, "write 'key: value' lines below it")
    message = detail["msg"].removeprefix("Input ").replace("a valid tuple", "a list")
    problem = f"{message}, got {shown(value)}"
    if kind == "literal_error":
        return Problem(_dotted(path), problem, _choice(value, context["expected"]))
    return Problem(_dotted(path), problem, _cure(kind, value))


def _cure(kind: str, value: object) -> str:
    """Cure for a value of a wrong type, or beyond a limit; empty where none is known."""
    if value is None:
        return "write a value, or leave the field out"
    if kind in ("int_type", "float_type") and isinstance(value, str):
        return "write a plain number, without quotes, unit or leading zero"
    if kind == "int_type" and not isinstance(value, float):
        return "write a plain number"
    is_short_text = isinstance(value, str) and len(shown(value)) < LONGEST_CURED
    if kind in ("tuple_type", "list_type") and is_short_text:
        return f"write a list: [{shown(value)}]"
    if kind == "string_type" and isinstance(value, tuple | list | Mapping):
        return "write a text"
    return _CURES.get(kind, "")


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """Sections among the alternatives of an annotation; keys of a mapping are those of a value."""
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, BaseModel) else []
    if get_origin(annotation) is dict:
        return []
    sections = []
    for alternative in get_args(annotation):
        sections += sections_of(alternative)
    return sections


def _choice(value: object, expected: str) -> str:
    """Cure for a value that is none of a few, which pydantic lists: the closest of them first."""
    names = [name.strip("'") for name in expected.replace(" or ", ", ").split(", ")]
    return closest(value, names) + "choose one"


def _path(location: tuple[int | str, ...], raw: Any, *, is_missing: bool) -> list[str]:
    """Keys of the document on the way to a problem.

    Pydantic's location also names the kind of a section that comes in kinds, which is no key.
    """
    path: list[str] = []
    missing = location[-1:] if is_missing else ()  # it is no key of the document
    for step in location[: len(location) - len(missing)]:
        if isinstance(raw, Mapping):
            is_key = step in raw
        else:
            is_list = isinstance(raw, Sequence) and not isinstance(raw, str)
            is_key = is_list and isinstance(step, int)
        if is_key:
            path.append(str(step))
            raw = raw[step]
    return [*path, *map(str, missing)]


def _dotted(path: Sequence[str]) -> str:
    """A path with dots between its keys; keys that would hide one are quoted."""
    keys = []
    for key in path:
        is_plain = key.isprintable() and 0 < len(key) <= 60
        keys.append(key if is_plain else shown(key))
    return ".".join(keys)
