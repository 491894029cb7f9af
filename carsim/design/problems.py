"""What is wrong with a design, in one line: the place, the value, the cure.

Pydantic finds the problems; here they are put into the words of the YAML that the user wrote.
"""

import difflib
import typing
from collections.abc import Iterable
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from carsim.design.design import Design
from carsim.section import FieldError
from carsim.yaml_file import shown


class Problem(NamedTuple):
    """One problem of a design.

    Attributes:
        path: Dotted path of the field.
        problem: What is wrong, quoting the value.
        cure: What to do about it.
    """

    path: str
    problem: str
    cure: str


def first_problem(error: ValidationError) -> Problem:
    """The problem to mend first, and in its cure how many more there are."""
    found = error.errors(include_url=False)
    # An unknown key explains the missing one that it was meant to be.
    found.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    path, problem, cure = _explain(dict(found[0]))
    if len(found) > 1:
        cure += f"; {len(found) - 1} more problem{'s' if len(found) > 2 else ''} to mend after it"
    return Problem(".".join(_key(part) for part in path), problem, cure)


def closest(name: object, known: Iterable[str]) -> str:
    """A question that names the known name that was probably meant, or nothing."""
    close = difflib.get_close_matches(str(name), list(known), 1)
    return f"did you mean {close[0]!r}? " if close else ""


_PLAIN = "write a plain decimal number, without quotes, unit or leading zero"
_EXPECTED = {
    "int_type": ("a whole number", "write it without point or exponent"),
    "int_from_float": ("a whole number", "write it without point or exponent"),
    "float_type": ("a number", _PLAIN),
    "string_type": ("text", "put it in quotes"),
    "bool_type": ("true or false", "write it in small letters and without quotes"),
    "dict_type": ("a mapping", "write 'key: value' lines below it"),
    "model_type": ("a section", "write 'key: value' lines below it"),
    "model_attributes_type": ("a section", "write 'key: value' lines below it"),
    "finite_number": ("a finite number", "write one"),
    "too_short": ("at least one entry", "add one"),
}
_LIMITS = {
    "greater_than": ("more than", "gt", "enlarge it"),
    "greater_than_equal": ("at least", "ge", "enlarge it"),
    "less_than_equal": ("at most", "le", "make it smaller"),
}


def _explain(found: dict[str, Any]) -> tuple[list[str], str, str]:
    """Path of the field, what is wrong with it and how to mend it."""
    kind, value, context = found["type"], found["input"], found.get("ctx", {})
    path, section, field = _walk(found["loc"])
    got = f"got {shown(value)}"
    if kind == "extra_forbidden":
        known = sorted({key for model in section for key in model.model_fields})
        hint = closest(path[-1], known) + f"known here: {', '.join(known)}"
        return path, f"unknown key {shown(path[-1])}", hint
    if kind == "missing":
        return path, "is missing", "add it"
    if kind in ("int_type", "float_type") and isinstance(value, str):
        return path, f"expected {_EXPECTED[kind][0]}, got the text {shown(value)}", _PLAIN
    if kind in _EXPECTED:
        expected, cure = _EXPECTED[kind]
        return path, f"expected {expected}, {got}", cure
    if kind in _LIMITS:
        words, key, cure = _LIMITS[kind]
        return path, f"expected {words} {context[key]:.12g}, {got}", cure
    if kind == "literal_error":
        names = [name.strip("'") for name in context["expected"].replace(" or ", ", ").split(", ")]
        return path, f"expected {context['expected']}, {got}", closest(value, names) + "choose one"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        kinds = " or ".join(repr(_kind(model)) for model in field)
        if kind == "union_tag_not_found":
            return [*path, "kind"], "is missing", f"set it to {kinds}"
        return [*path, "kind"], f"expected {kinds}, got {shown(context['tag'])}", "choose one"
    if isinstance(context.get("error"), FieldError):
        clash: FieldError = context["error"]
        return [*path, *filter(None, clash.field.split("."))], clash.problem, clash.cure
    return path, f"{found['msg'].lower()}, {got}", "change it"


def _walk(
    location: tuple[int | str, ...],
) -> tuple[list[str], list[type[BaseModel]], list[type[BaseModel]]]:
    """Follow the location of a problem through the annotations of a design.

    Returns:
        The keys on the way, without what names the chosen kind of a section; the sections that may
        hold the last key; and those that may stand there.
    """
    annotation: Any = Design
    path: list[str] = []
    holder = here = _sections(annotation)
    for part in location:
        tagged = [model for model in here if len(here) > 1 and _kind(model) == part]
        if tagged:
            here = tagged
            continue
        path.append(str(part))
        holder = here
        if typing.get_origin(annotation) is dict:
            annotation = typing.get_args(annotation)[1]
        else:
            fields = [model.model_fields[str(part)] for model in here if part in model.model_fields]
            annotation = fields[0].annotation if fields else object
        here = _sections(annotation)
    return path, holder, here


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """Sections among the alternatives of an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if typing.get_origin(annotation) is dict:
        return []
    return [leaf for argument in typing.get_args(annotation) for leaf in _sections(argument)]


def _kind(model: type[BaseModel]) -> object:
    field = model.model_fields.get("kind")
    return field.default if field else None


def _key(part: str) -> str:
    return part if part.isprintable() and 0 < len(part) <= 60 else shown(part)
