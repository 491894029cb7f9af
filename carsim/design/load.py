"""From YAML to a validated :class:`~carsim.design.design.Design`.

A design file has the sections ``board``, ``machine``, ``model``, ``policy`` and ``energy``. The
sections ``board``, ``model`` and ``energy`` may start from a preset (``preset: NAME``) and override
single keys of it; presets are YAML files in ``carsim/design/presets/``.
"""

from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from carsim.design.design import Design
from carsim.errors import InputError
from carsim.section import first_problem
from carsim.yaml_file import parse_yaml, read_mapping, shown

PRESET_SECTIONS = ("board", "model", "energy")
PRESET_PATHS = tuple(f"{section}.preset" for section in PRESET_SECTIONS)


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
        name_or_path if name_or_path.isprintable() and name_or_path else repr(name_or_path),
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
    assigned = dict(_assignment(text) for text in overrides)
    raw = _with_presets(raw, str(path), assigned)
    for dotted, value in assigned.items():
        if dotted not in PRESET_PATHS:
            _assign(raw, dotted, value)
    return build_design(raw, str(path), assigned)


def build_design(raw: Mapping[str, Any], place: str, overridden: Iterable[str] = ()) -> Design:
    """Validate a merged mapping into a design.

    Args:
        raw: The five sections, presets already merged.
        place: Its name in errors.
        overridden: Dotted paths that came from the command line, named so in errors.

    Raises:
        InputError: The first thing that is wrong, and how many more there are.
    """
    raw = _tuples(raw)
    try:
        return Design.model_validate(raw)
    except ValidationError as error:
        found = first_problem(error, raw)
        where = _where(found.path, place, overridden)
        raise InputError(where, found.problem, found.cure) from None


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


def _with_presets(
    raw: Mapping[str, Any], place: str, assigned: Mapping[str, Any]
) -> dict[str, Any]:
    merged = dict(raw)
    for section, path in zip(PRESET_SECTIONS, PRESET_PATHS, strict=True):
        body = merged.get(section)
        if isinstance(body, dict) and "preset" in body:
            body = dict(body)
            named = body.pop("preset")
            where = _where(path, place, assigned)
            merged[section] = _merge(_preset(section, assigned.get(path, named), where), body)
        elif path in assigned:
            raise InputError(
                f"--set {path}",
                f"{place} gives the {section} in full, from no preset",
                "override its keys one by one",
            )
    return merged


def _preset(section: str, name: Any, where: str) -> dict[str, Any]:
    folder = Path(str(files("carsim.design"))) / "presets" / section
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in known:
        raise InputError(where, f"no preset {shown(name)}", f"choose from {', '.join(known)}")
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
    dotted = dotted.strip()
    if not equals or not all(dotted.split(".")) or not dotted.isprintable():
        raise InputError(
            "--set", f"{shown(text)} is not of the form path=value", "say machine.cores=8"
        )
    return dotted, parse_yaml(value, f"--set {dotted}")


def _assign(raw: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    section = raw
    for parent in parents:
        # Let validation speak of an unknown or absent key, with its suggestions.
        inner = section.get(parent)
        if inner is None:
            inner = {}
        if not isinstance(inner, dict):
            raise InputError(
                f"--set {dotted}", f"{parent!r} is a value and has no fields", "shorten the path"
            )
        section[parent] = section = dict(inner)
    section[last] = value


def _where(path: str, place: str, overridden: Iterable[str]) -> str:
    """Name the override that a problem is about, else the file and all that has changed it."""
    texts = list(overridden)
    if path in texts:
        return f"--set {path}"
    for dotted in texts:
        if f"{path}.".startswith(f"{dotted}.") or f"{dotted}.".startswith(f"{path}."):
            return f"--set {dotted}: $.{path}"
    changed = f" with --set {', '.join(texts)}" if texts else ""
    return f"{place}{changed}: $.{path}"
