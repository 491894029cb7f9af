"""From YAML to a validated :class:`~carsim.design.design.Design`.

A design file has the sections ``board``, ``machine``, ``model``, ``policy`` and ``energy``. The
sections ``board``, ``model`` and ``energy`` may start from a preset (``preset: NAME``) and override
single keys of it; presets are YAML files in ``carsim/design/presets/``. The section ``model`` may
start from the model's own file instead (``from: config.json``, relative to the design file; from
the command line, relative to the current folder).

Roles that ``machine.placement`` leaves out are placed as the board says (``board.placement``), or
in its only memory: a design that names a board and no memory goes with any other board. Overheads
likewise come from ``board.overheads``, or from a file that ``carsim calibrate`` wrote
(``machine.overheads: {from: FILE}``, found as a model's own file is).
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from carsim.base.errors import InputError
from carsim.base.section import first_problem, tuples
from carsim.base.text import choose
from carsim.base.yaml_file import MAX_DEPTH, parse_yaml, read_mapping, shown
from carsim.design.design import Design
from carsim.hardware.board import Board
from carsim.hardware.machine import Placement

PRESET_SECTIONS = ("board", "model", "energy")
MODEL_FILE = "model.from"
PRESET_PATHS = (*(f"{section}.preset" for section in PRESET_SECTIONS), MODEL_FILE)
"""What a section may start from; it is merged beneath what the design says."""

OVERHEADS_FILE = "machine.overheads.from"


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
    place = name_or_path if name_or_path.isprintable() and name_or_path else repr(name_or_path)
    cure = f"{choose(name_or_path, shipped_designs(), 'shipped are')}, or give a board and a model"
    raise InputError(place, "is neither a YAML file nor a shipped design", cure)


def load_design(name_or_path: str, overrides: Iterable[str] = ()) -> Design:
    """Load, merge and validate a design.

    Args:
        name_or_path: A YAML file or the name of a shipped design.
        overrides: ``path=value`` texts such as ``machine.cores=8``; values are YAML.

    Raises:
        InputError: Anything wrong with the file or an override; one line.
    """
    raw, path = read_design(name_or_path)
    overrides = list(overrides)
    if overrides:
        raw.pop("description", None)  # it is of the design as the file has it
    return design_of(raw, path, overrides)


def read_design(name_or_path: str) -> tuple[dict[str, Any], Path]:
    """Contents of a design's file, its name among them, and the file."""
    path = design_path(name_or_path)
    raw = read_mapping(path)
    raw.setdefault("name", path.stem)
    return raw, path


def design_of(raw: Mapping[str, Any], path: Path, overrides: Iterable[str] = ()) -> Design:
    """The design that a file with these contents gives: presets merged, roles placed.

    Args:
        raw: Contents of the file, its name among them.
        path: Its name in errors; a model's own file lies relative to it.
        overrides: As of :func:`load_design`.

    Raises:
        InputError: The first thing that is wrong.
    """
    assigned = dict(_assignment(text) for text in overrides)
    merged = _of_board(_with_bases(raw, path, assigned), path, assigned)
    for dotted, value in assigned.items():
        if dotted not in (*PRESET_PATHS, OVERHEADS_FILE):
            _assign(merged, dotted, value)
    return build_design(merged, str(path), assigned)


def model_base(name_or_path: str) -> dict[str, str]:
    """The base of a section ``model``: a preset, or a ``config.json`` or its folder.

    >>> model_base("tiny")
    {'preset': 'tiny'}
    """
    path = Path(name_or_path)
    if path.suffix == ".json" or len(path.parts) > 1 or path.is_dir():
        return {MODEL_FILE.split(".")[1]: str(path.resolve())}
    return {"preset": name_or_path}


def preset_board(name: str, where: str) -> Board:
    """A board as its preset has it.

    Args:
        name: Name of the preset.
        where: Its place in errors.

    Raises:
        InputError: No such preset.
    """
    return Board.model_validate(tuples(preset("board", name, where)))


def build_design(raw: Mapping[str, Any], place: str, overridden: Iterable[str] = ()) -> Design:
    """Validate a merged mapping into a design.

    Args:
        raw: The five sections, presets already merged.
        place: Its name in errors.
        overridden: Dotted paths that came from the command line, named so in errors.

    Raises:
        InputError: The first thing that is wrong, and how many more there are.
    """
    raw = tuples(raw)
    try:
        return Design.model_validate(raw)
    except ValidationError as error:
        found = first_problem(error, raw)
        raise InputError(_where(found.path, place, overridden), *found[1:]) from None


def override(design: Design, changes: Mapping[str, Any]) -> Design:
    """A copy of ``design`` with fields replaced by dotted path, validated again.

    Raises:
        InputError: An unknown path or a value that does not validate.
    """
    # Sections that stay are taken as they are, which saves two thirds of the time.
    raw = dict(design) | design.model_dump(include={path.partition(".")[0] for path in changes})
    for dotted, value in changes.items():
        _assign(raw, dotted, value)
    return build_design(raw, design.name, changes)


def _of_board(raw: Mapping[str, Any], file: Path, assigned: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping with what its board says of the machine: places of roles, and overheads.

    What is no mapping is left as it is, for the validation to refuse.
    """
    board, machine = raw.get("board"), raw.get("machine")
    if not isinstance(board, dict) or not isinstance(machine, dict):
        return dict(raw)
    board, machine = dict(board), dict(machine)
    usual, memories = board.pop("placement", None), board.get("memories")
    if usual is None and isinstance(memories, dict) and memories:
        roles = Placement.model_fields
        if len(memories) == 1:
            usual = dict.fromkeys(roles, next(iter(memories)))
        elif "placement" not in machine:
            problem = f"is missing, and the board has {', '.join(map(str, memories))}"
            cure = f"say where {', '.join(roles)} lie"
            raise InputError(f"{file}: $.board.placement", problem, cure)
    own, charged = machine.get("overheads", {}), board.pop("overheads", {})
    if isinstance(own, dict) and isinstance(charged, dict):
        own = dict(own)
        folder, name = file.parent, own.pop("from", None)
        if OVERHEADS_FILE in assigned:
            folder, name = Path(), assigned[OVERHEADS_FILE]
        if name is not None:
            where = _where(OVERHEADS_FILE, str(file), assigned)
            fitted = read_mapping(_path(folder, name, where, "name a file of carsim calibrate"))
            stated = {**charged, **own}
            twice = sorted(key for key in fitted.keys() & stated if fitted[key] != stated[key])
            if twice:
                problem = f"{name} and the design both set {', '.join(twice)}"
                raise InputError(where, problem, "leave one of them out")
            charged = {**charged, **fitted}
        machine["overheads"] = own
    for key, below in {"placement": usual, "overheads": charged}.items():
        stated = machine.get(key, {})
        if isinstance(below, dict) and isinstance(stated, dict):
            machine[key] = {**below, **stated}
    return {**raw, "board": board, "machine": machine}


def _path(folder: Path, name: Any, where: str, cure: str) -> Path:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InputError(where, f"{shown(name)} is no path", cure)
    return folder / name


def _with_bases(raw: Mapping[str, Any], file: Path, assigned: Mapping[str, Any]) -> dict[str, Any]:
    """The sections merged over what they start from: a preset, or a model's own file."""
    merged = dict(raw)
    for section in PRESET_SECTIONS:
        body = merged.get(section)
        paths = [path for path in PRESET_PATHS if path.startswith(f"{section}.")]
        body = dict(body) if isinstance(body, dict) else {}
        named = {path: body.pop(key) for path in paths if (key := path.split(".")[1]) in body}
        changed = {path: assigned[path] for path in paths if path in assigned}
        if changed and not named:
            problem = f"{file} gives the {section} in full, from no preset"
            cure = "override its keys one by one"
            raise InputError(f"`overrides` {next(iter(changed))}", problem, cure)
        for bases in (changed, named):
            if len(bases) > 1:
                where = _where(next(iter(bases)), str(file), assigned)
                raise InputError(where, f"goes against {list(bases)[1]}", "give one of them")
        for path, value in (changed or named).items():
            where = _where(path, str(file), assigned)
            if path == MODEL_FILE:
                folder = Path() if changed else file.parent
                config = _path(folder, value, where, "name a model's config.json")
                from carsim.workload.hf_config import read_hf_config

                base = read_hf_config(config, body)
            else:
                base = preset(section, value, where)
            merged[section] = _merge(base, body)
    return merged


def preset(section: str, name: Any, where: str) -> dict[str, Any]:
    """Contents of a preset, which nothing changes; an unknown one raises InputError."""
    folder = Path(str(files("carsim.design"))) / "presets" / section
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in known:
        cure = f"{choose(name, known, 'choose from')}, or write the {section} in full"
        raise InputError(where, f"no preset {shown(name)}", cure)
    return _read_preset(folder / f"{name}.yaml")


_read_preset = cache(read_mapping)
"""Reads a preset, which nothing changes: what is merged with it or set in it is a copy."""


def shipped_presets() -> dict[str, dict[str, str]]:
    """Presets by section and name, each with the first sentence of its file."""
    folder = Path(str(files("carsim.design"))) / "presets"
    return {
        section: {path.stem: _opening(path) for path in sorted((folder / section).glob("*.yaml"))}
        for section in PRESET_SECTIONS
    }


def _opening(path: Path) -> str:
    """The first sentence of the comment that a file begins with."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = takewhile(lambda line: line.startswith("#"), lines)
    return " ".join(line.lstrip("# ") for line in comment).partition(". ")[0].rstrip(".")


def _merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key, {})
        # A section of another kind replaces the preset's instead of mixing with it.
        are_sections = isinstance(old, dict) and isinstance(value, dict)
        mixes = are_sections and value.get("kind", old.get("kind")) == old.get("kind")
        merged[key] = _merge(old, value) if mixes else value
    return merged


def _assignment(text: str) -> tuple[str, Any]:
    dotted, equals, value = text.partition("=")
    dotted = dotted.strip()
    parts = dotted.split(".")
    if not equals or not all(parts) or len(parts) > MAX_DEPTH or not dotted.isprintable():
        problem = f"{shown(text)} is not of the form path=value"
        raise InputError("`overrides`", problem, "say machine.cores=8")
    return dotted, parse_yaml(value, f"`overrides` {dotted}")


def _assign(raw: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    section = raw
    for parent in parents:
        # Let validation speak of an unknown or absent key, with its suggestions.
        inner = {} if section.get(parent) is None else section[parent]
        if not isinstance(inner, dict):
            problem = f"{parent!r} is a value and has no fields"
            raise InputError(f"`overrides` {dotted}", problem, "shorten the path")
        section[parent] = section = dict(inner)
    section[last] = value


def _where(path: str, place: str, overridden: Iterable[str]) -> str:
    """Name the override that a problem is about, else the file and all that has changed it."""
    texts = list(overridden)
    if path in texts:
        return f"`overrides` {path}"
    for dotted in texts:
        if f"{path}.".startswith(f"{dotted}.") or f"{dotted}.".startswith(f"{path}."):
            return f"`overrides` {dotted}: $.{path}"
    changed = f" with `overrides` {', '.join(texts)}" if texts else ""
    return f"{place}{changed}: $.{path}"
