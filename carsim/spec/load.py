"""From YAML to a validated :class:`~carsim.spec.design.Design`.

A design file has the sections ``board``, ``machine``, ``model``, ``policy`` and ``energy``. The
sections ``board``, ``model`` and ``energy`` may start from a preset (``preset: NAME``) and override
single keys of it; presets are YAML files in ``carsim/spec/presets/``.
"""

import difflib
import typing
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from carsim.errors import InputError
from carsim.spec.design import Design
from carsim.spec.yaml_file import parse_yaml, read_mapping

PRESET_SECTIONS = ("board", "model", "energy")


def configs_folder() -> Path:
    """Folder of the designs that ship with carsim: inside the wheel, else beside the package."""
    package = Path(str(files("carsim")))
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def shipped_designs() -> list[str]:
    """Names of the designs that ship with carsim."""
    return sorted(path.stem for path in configs_folder().glob("*.yaml"))


def design_path(name_or_path: str) -> Path:
    """The file of a design, given its path or the name of a shipped one.

    Raises:
        InputError: Neither a file nor a shipped design.
    """
    path = Path(name_or_path)
    if path.is_file() or path.suffix in (".yaml", ".yml"):
        return path
    if name_or_path in shipped_designs():
        return configs_folder() / f"{name_or_path}.yaml"
    raise InputError(
        name_or_path,
        "is neither a YAML file nor a shipped design",
        f"shipped are {', '.join(shipped_designs())}",
    )


def load_design(name_or_path: str, overrides: Iterable[str] = ()) -> Design:
    """Load, merge and validate a design.

    Args:
        name_or_path: A YAML file or the name of a shipped design.
        overrides: ``path=value`` texts such as ``machine.cores=8``; values are YAML.

    Raises:
        InputError: Anything wrong with the file or an override; one line.
    """
    path = design_path(name_or_path)
    raw = read_mapping(path)
    raw.setdefault("name", path.stem)
    raw = _with_presets(raw, str(path))
    assigned = dict(_assignment(text) for text in overrides)
    for dotted, value in assigned.items():
        _assign(raw, dotted, value)
    return build_design(raw, str(path), set(assigned))


def build_design(raw: Mapping[str, Any], place: str, overridden: Iterable[str] = ()) -> Design:
    """Validate a merged mapping into a design.

    Args:
        raw: The five sections, presets already merged.
        place: What to call it in errors.
        overridden: Dotted paths that came from the command line, named so in errors.

    Raises:
        InputError: The first thing that is wrong, and how many more there are.
    """
    try:
        return Design.model_validate(_tuples(raw))
    except ValidationError as error:
        raise _first_problem(error, place, set(overridden)) from None


def override(design: Design, changes: Mapping[str, Any]) -> Design:
    """A copy of ``design`` with fields replaced by dotted path, validated again.

    Raises:
        InputError: An unknown path or a value that does not validate.
    """
    raw = design.model_dump()
    for dotted, value in changes.items():
        _assign(raw, dotted, value)
    return build_design(raw, design.name, changes)


def _tuples(value: Any) -> Any:
    # Strict validation wants tuples where YAML can only write lists.
    if isinstance(value, Mapping):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _with_presets(raw: dict[str, Any], place: str) -> dict[str, Any]:
    merged = dict(raw)
    for section in PRESET_SECTIONS:
        body = merged.get(section)
        if isinstance(body, dict) and "preset" in body:
            body = dict(body)
            preset = _preset(section, body.pop("preset"), place)
            merged[section] = _merge(preset, body)
    return merged


def _preset(section: str, name: Any, place: str) -> dict[str, Any]:
    folder = Path(str(files("carsim.spec"))) / "presets" / section
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in known:
        raise InputError(
            f"{place}: $.{section}.preset", f"no preset {name!r}", f"choose from {', '.join(known)}"
        )
    return read_mapping(folder / f"{name}.yaml")


def _merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        # A section of another kind replaces the preset's instead of mixing with it.
        if (
            isinstance(old, dict)
            and isinstance(value, dict)
            and value.get("kind", old.get("kind")) == old.get("kind")
        ):
            merged[key] = _merge(old, value)
        else:
            merged[key] = value
    return merged


def _assignment(text: str) -> tuple[str, Any]:
    dotted, equals, value = text.partition("=")
    if not equals or not dotted.strip():
        raise InputError(f"--set {text}", "is not of the form path=value", "say machine.cores=8")
    return dotted.strip(), parse_yaml(value, f"--set {text}")


def _assign(raw: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    section = raw
    for parent in parents:
        inner = section.get(parent)
        if inner is None and parent in section:
            inner = {}
        if parent not in section:
            # Let validation speak of the unknown or absent key, with its suggestions.
            inner = {}
        if not isinstance(inner, dict):
            raise InputError(
                f"--set {dotted}", f"{parent!r} is a value and has no fields", "shorten the path"
            )
        section[parent] = section = dict(inner)
    section[last] = value


def _first_problem(error: ValidationError, place: str, overridden: set[str]) -> InputError:
    problems = error.errors(include_url=False)
    # An unknown key explains the missing one that it was meant to be.
    problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    problem = problems[0]
    location = [part for part in problem["loc"] if not _is_union_tag(part, problem["loc"])]
    dotted = ".".join(str(part) for part in location)
    where = f"--set {dotted}" if dotted in overridden else f"{place}: $.{dotted}".rstrip(".")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    what, cure = _explain(dict(problem), location)
    return InputError(where, what, cure + more)


def _is_union_tag(part: int | str, location: tuple[int | str, ...]) -> bool:
    tags = {"dense", "streaming", "depth_transformer", "linear", "float", "tuple[float, ...]"}
    return (
        isinstance(part, str)
        and (part in tags or part.startswith(("literal[", "constrained-", "tuple[")))
        and part != location[0]
    )


_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a section with keys",
    "model_attributes_type": "a section with keys",
    "tuple_type": "a list",
    "finite_number": "a finite number",
}


def _explain(problem: dict[str, Any], location: list[int | str]) -> tuple[str, str]:
    kind, value, context = problem["type"], problem["input"], problem.get("ctx", {})
    if kind == "extra_forbidden":
        known = _known_keys(location[:-1])
        close = difflib.get_close_matches(str(location[-1]), known, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        return f"unknown key {location[-1]!r}", f"{hint}known here: {', '.join(known)}"
    if kind == "missing":
        return "is missing", "add it"
    if kind in _EXPECTED:
        shown = _shown(value)
        if isinstance(value, str) and kind in ("int_type", "float_type"):
            return f"expected {_EXPECTED[kind]}, got the text {shown}", "write a plain number"
        return f"expected {_EXPECTED[kind]}, got {shown}", "change it"
    if kind == "greater_than":
        return f"expected more than {context['gt']}, got {_shown(value)}", "change it"
    if kind == "greater_than_equal":
        return f"expected at least {context['ge']}, got {_shown(value)}", "change it"
    if kind == "literal_error":
        return f"expected {context['expected']}, got {_shown(value)}", "choose one of them"
    if kind == "value_error":
        text, _, cure = str(context["error"]).partition("; ")
        return text, cure
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        expected = context.get("expected_tags", "a known kind")
        return f"expected a section whose 'kind' is one of {expected}, got {_shown(value)}", (
            "set 'kind'"
        )
    return f"{problem['msg'].lower()}, got {_shown(value)}", "change it"


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _known_keys(location: list[int | str]) -> list[str]:
    """Keys allowed at a place of the design, by walking the annotations."""
    annotation: Any = Design
    for part in location:
        annotation = _inner(annotation, str(part))
    models = [item for item in _alternatives(annotation) if issubclass(item, BaseModel)]
    return sorted({key for model in models for key in model.model_fields})


def _inner(annotation: Any, key: str) -> Any:
    for model in _alternatives(annotation):
        if issubclass(model, BaseModel) and key in model.model_fields:
            return model.model_fields[key].annotation
    if typing.get_origin(annotation) is dict:
        return typing.get_args(annotation)[1]
    return object


def _alternatives(annotation: Any) -> list[type]:
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return [annotation]
    return [leaf for argument in typing.get_args(annotation) for leaf in _alternatives(argument)]
