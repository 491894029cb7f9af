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

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from carsim.base.errors import InputError
from carsim.base.files import admit
from carsim.base.paths import is_within, overlap, overlapping
from carsim.base.registry import PRESETS_LISTED
from carsim.base.section import FieldError, first_problem, tuples
from carsim.base.text import choose, closest
from carsim.base.yaml_file import MAX_DEPTH, parse_yaml, read_mapping, shown
from carsim.design.design import Design
from carsim.hardware.board import Board
from carsim.hardware.machine import Placement
from carsim.workload.workload import SAMPLES, Workload

PRESET_SECTIONS = ("board", "model", "energy")
MODEL_FILE = "model.from"
MODEL_PRESET = "model.preset"
PRESET_PATHS = (*(f"{section}.preset" for section in PRESET_SECTIONS), MODEL_FILE)
"""Sections that may start from a preset, which is merged beneath what the design says."""

OVERHEADS_FILE = "machine.overheads.from"

FILE_PATHS = (MODEL_FILE, OVERHEADS_FILE)
"""Fields of a design that name a file; everything else in a design is a value."""


def configs_folder() -> Path:
    """Folder of the designs that ship with carsim: inside the wheel, else beside the package."""
    package = Path(str(files("carsim")))
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def shipped_designs() -> list[str]:
    """Names of the designs that ship with carsim."""
    return sorted(path.stem for path in configs_folder().glob("*.yaml"))


def board_designs() -> dict[str, Path]:
    """Designs of boards that people calibrate, of published systems, and for networks, by name."""
    designs = {}
    for name in ("published", "boards", "networks"):
        for path in sorted((configs_folder() / name).glob("*.yaml")):
            designs[path.stem] = path
    return designs


def design_path(name_or_path: str) -> Path:
    """The file of a design, given its path or the name of a shipped one.

    Raises:
        InputError: Neither a file nor a shipped design, or the gate refuses it.
    """
    path = admit(Path(name_or_path))
    boards = board_designs()
    is_yaml = path.suffix in (".yaml", ".yml")
    if is_yaml and not path.exists() and path.stem in (*shipped_designs(), *boards):
        cure = f"name the shipped design without folder and suffix: {path.stem}"
        raise InputError(str(path), "there is no such file", cure)
    if path.is_file() or is_yaml:
        return path
    if name_or_path in shipped_designs():
        return configs_folder() / f"{name_or_path}.yaml"
    if name_or_path in boards:
        return boards[name_or_path]
    is_printable = name_or_path.isprintable() and name_or_path
    printed_name = name_or_path if is_printable else repr(name_or_path)
    near = closest(name_or_path, [*shipped_designs(), *boards])
    names = ", ".join([*shipped_designs(), "and those of configs/boards and configs/published"])
    cure = f"{near}shipped are {names}, or give a board and a model"
    raise InputError(printed_name, "is neither a YAML file nor a shipped design", cure)


def load_design(name_or_path: str, overrides: Iterable[str] = ()) -> Design:
    """Load, merge and validate a design.

    Args:
        name_or_path: A YAML file or the name of a shipped design.
        overrides: ``path=value`` texts such as ``machine.cores=8``; values are YAML.

    Raises:
        InputError: Anything wrong with the file or an override; one line.
    """
    raw, path = read_design(name_or_path)
    return overridden_design(raw, path, overrides)


def overridden_design(raw: Mapping[str, Any], path: Path, overrides: Iterable[str] = ()) -> Design:
    """The design that a file with these contents gives, without its description if overridden.

    Args:
        raw: Contents of the file, as of :func:`read_design`.
        path: The file.
        overrides: ``path=value`` texts, as of :func:`load_design`.

    Raises:
        InputError: The first thing that is wrong.
    """
    texts = list(overrides)
    contents = dict(raw)
    if texts:
        # The description is about the design as the file has it.
        contents.pop("description", None)
    return design_of(contents, path, texts)


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
    assigned = _assigned(overrides)
    merged = _of_board(_with_bases(raw, path, assigned), path, assigned)
    for dotted, value in assigned.items():
        if dotted not in (*PRESET_PATHS, OVERHEADS_FILE):
            _assign(merged, dotted, value)
    _expand_gguf_type(merged, path, assigned)
    design = build_design(merged, str(path), assigned)
    return design.with_sources(_precision_sources(raw, assigned))


PRECISION_FIELDS = ("weights", "weights_by_role", "weights_by_layer", "kv", "activations")
"""Fields of ``model`` that say in how many bits it is stored and computed."""


def _precision_sources(raw: Mapping[str, Any], assigned: Mapping[str, Any]) -> dict[str, str]:
    """Source of each precision: an override, the design, the model's own file or its preset."""
    section = raw.get("model")
    written = section if isinstance(section, Mapping) else {}
    base = ""
    for path in (MODEL_PRESET, MODEL_FILE):
        value = assigned.get(path, written.get(path.split(".")[1]))
        if value is None:
            continue
        name = Path(str(value)).name
        file = f"its {name if name.endswith('.json') else 'config.json'}"
        base = file if path == MODEL_FILE else f"preset {value}"
    sources = {}
    for field in PRECISION_FIELDS:
        if any(overlap(path, f"model.{field}") for path in assigned):
            sources[field] = "--set"
        elif base and field not in written:
            sources[field] = base
    return sources


def model_base(name_or_path: str) -> dict[str, str]:
    """The base of a section ``model``: a preset, or a ``config.json`` or its folder.

    >>> model_base("tiny")
    {'preset': 'tiny'}

    Raises:
        InputError: It is a folder that holds no model and has no preset's name.
    """
    path = Path(name_or_path)
    key = MODEL_FILE.split(".")[1]
    if path.suffix in (".json", ".gguf"):
        return {key: str(path.resolve())}
    if path.is_dir() and not _is_folder_without_model(path, name_or_path):
        return {key: str(path.resolve())}
    if len(path.parts) > 1:  # perhaps a name of Hugging Face, which is refused with a cure
        return {key: str(path.resolve()) if admit(path).exists() else name_or_path}
    return {"preset": name_or_path}


def _is_folder_without_model(path: Path, name: str) -> bool:
    """A folder of another purpose, such as a stored run, that has the name of a preset.

    Raises:
        InputError: The folder holds no model, and no preset has its name.
    """
    places = ("config.json", "transformer/config.json")
    if any(admit(path / place).is_file() for place in places):
        return False
    names = _preset_names("model")
    if name in names:
        return True
    problem = f"is a folder that holds neither {places[0]} nor {places[1]}"
    begin_so = [known for known in names if known.startswith(name)]
    nearly = f"one of the presets {', '.join(begin_so)}" if begin_so else "a preset"
    cure = f"name a folder of Hugging Face or of diffusers that holds one, or {nearly}"
    raise InputError(str(path), problem, cure)


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
        if not raw.get("model"):
            cure = f"name one, say model: {{preset: tiny}}; {PRESETS_LISTED}"
            raise InputError(f"{place}: $.model", "is missing", cure) from None
        first = first_problem(error, raw)
        location = _where(first.path, place, overridden)
        cure = first.cure
        if first.path == "machine":
            cure = (
                "add it: 'carsim config show FILE' prints the file with a machine that it chooses"
            )
        raise InputError(location, first.problem, cure) from None


def override(design: Design, changes: Mapping[str, Any]) -> Design:
    """A copy of ``design`` with fields replaced by dotted path, validated again.

    Raises:
        InputError: An unknown path, two paths of which one lies within the other, or a value that
            does not validate.
    """
    _refuse_overlaps(changes)
    # Sections that stay are taken as they are, which saves two thirds of the time.
    changed_sections = {path.partition(".")[0] for path in changes}
    raw = dict(design) | design.model_dump(include=changed_sections)
    for dotted, value in changes.items():
        _assign(raw, dotted, value)
    sources = dict(design.sources)
    for field in PRECISION_FIELDS:
        if any(overlap(path, f"model.{field}") for path in changes):
            sources[field] = "--set"
    return build_design(raw, design.name, changes).with_sources(sources)


def with_work(
    raw: Mapping[str, Any], work: Workload | None, folder: Path = Path()
) -> dict[str, Any]:
    """Contents of a design's file with the model and sample that a workload names.

    A workload that names a model takes the place of the design's model, and the batch becomes the
    rows of one forward: one sample at a time. Where the design has that very network, its section
    stays, with the bits that it says, and only the sample is that of the workload.

    Args:
        raw: Contents of the design's file.
        work: The workload.
        folder: Folder of the design, in which its model's own file is looked for.
    """
    if work is None or work.kind not in SAMPLES:
        return dict(raw)
    contents = dict(raw)
    section = contents.get("model")
    model = dict(section) if isinstance(section, Mapping) else {}
    base = _over_its_base(model, folder)
    usual = base.get("sample")
    if work.model is not None:
        named = dict(model_base(work.model))
        named_in_full = _over_its_base(named, folder)
        usual = named_in_full.get("sample")
        if not _is_same_network(base, named_in_full):
            model = named
            base = named_in_full
    if not isinstance(usual, Mapping):
        problem = f"{base.get('name', 'the model')} is a decoder, which makes no sample at once"
        cure = "name a network, as in diffusion:wan2.1_1.3b"
        raise InputError(f"`workload` {work.kind}", problem, cure)
    _check_kind(work, base)
    sample = {**usual, **work.sample_changes}
    contents["model"] = {**model, "sample": sample}
    policy = contents.get("policy")
    passes = sample.get("passes", 1)
    if work.model is not None and isinstance(policy, Mapping) and isinstance(passes, int):
        contents["policy"] = {**policy, "batch": passes}
    return contents


def _is_same_network(model: Mapping[str, Any], named: Mapping[str, Any]) -> bool:
    """Whether a section ``model`` has the network of another one, by their name."""
    return "network" in named and model.get("name") == named.get("name")


def _check_kind(work: Workload, model: Mapping[str, Any]) -> None:
    """Refuse a kind of workload that a network does not make."""
    usual = model["sample"]
    network = model.get("network", {})
    name = model.get("name", "the model")
    chunked = "chunk_frames" in usual or work.chunk is not None
    if work.kind == "chunks" and not chunked:
        problem = f"{name} makes its samples at once"
        raise InputError("`workload` chunks", problem, "say diffusion, or add chunk=FRAMES")
    if work.kind == "diffusion" and network.get("kind") != "diffusion":
        problem = f"{name} is no diffusion transformer"
        raise InputError("`workload` diffusion", problem, f"say image:{work.model or ''}")
    if work.kind == "diffusion" and "chunk_frames" in usual:
        problem = f"{name} makes videos chunk by chunk"
        raise InputError("`workload` diffusion", problem, f"say chunks:{work.model or ''}")
    if work.kind == "image" and usual.get("frames", 1) > 1:
        problem = f"{name} makes videos"
        raise InputError("`workload` image", problem, f"say diffusion:{work.model or ''}")


def for_work(design: Design, work: Workload | None) -> Design:
    """A design with the model and sample that a workload names."""
    if work is None or work.kind not in SAMPLES:
        return design
    raw = with_work(design.model_dump(), work)
    model = _over_its_base(raw["model"], Path())
    raw["model"] = {key: value for key, value in model.items() if key not in ("preset", "from")}
    return build_design(raw, design.name)


def _over_its_base(model: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A section ``model`` over its preset or its own file, if it starts from one."""
    if "preset" in model:
        return {**preset("model", model["preset"], "`workload` model"), **model}
    if "from" in model:
        from carsim.workload.hf_config import read_hf_config

        file = _model_path(folder, model["from"], "`workload` model")
        return {**read_hf_config(file, is_weighed=_gives_bits(model, {})), **model}
    return dict(model)


def _of_board(raw: Mapping[str, Any], file: Path, assigned: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping with what its board says of the machine: places of roles, and overheads.

    The design's own values hold before those of the board. What is no mapping is left as it is,
    for the validation to refuse.

    Args:
        raw: The sections of the design, presets already merged.
        file: The design's file.
        assigned: Overrides by dotted path.
    """
    board = raw.get("board")
    machine = raw.get("machine")
    if not isinstance(board, dict) or not isinstance(machine, dict):
        return dict(raw)
    board = dict(board)
    machine = dict(machine)
    placement = _placement_of(board, machine, file)
    board_overheads = board.pop("overheads", {})
    design_overheads = machine.get("overheads", {})
    if isinstance(design_overheads, dict) and isinstance(board_overheads, dict):
        design_overheads = dict(design_overheads)
        name = design_overheads.pop("from", None)
        machine["overheads"] = design_overheads
        stated = {**board_overheads, **design_overheads}
        fitted = _fitted_overheads(name, stated, file, assigned)
        board_overheads = {**board_overheads, **fitted}
    for key, of_board in (("placement", placement), ("overheads", board_overheads)):
        of_design = machine.get(key, {})
        if isinstance(of_board, dict) and isinstance(of_design, dict):
            machine[key] = {**of_board, **of_design}
    return {**raw, "board": board, "machine": machine}


def _placement_of(board: dict[str, Any], machine: Mapping[str, Any], file: Path) -> Any:
    """The board's placement, which is taken out of it; all roles in its memory if it has but one.

    Raises:
        InputError: There are several memories, and neither board nor machine says what lies where.
    """
    placement = board.pop("placement", None)
    memories = board.get("memories")
    if placement is not None or not isinstance(memories, dict) or not memories:
        return placement
    roles = [name for name, role in Placement.model_fields.items() if role.is_required()]
    if len(memories) == 1:
        (only_memory,) = memories
        return dict.fromkeys(roles, only_memory)
    if "placement" not in machine:
        problem = f"is missing, and the board has {', '.join(map(str, memories))}"
        cure = f"say where {', '.join(roles)} lie"
        raise InputError(f"{file}: $.board.placement", problem, cure)
    return None


def _fitted_overheads(
    name: Any, stated: Mapping[str, Any], file: Path, assigned: Mapping[str, Any]
) -> dict[str, Any]:
    """Overheads of a file of ``carsim calibrate``; none if neither design nor override names one.

    Args:
        name: The file that the design names, relative to the design; None if it names none.
        stated: Overheads that board and design state.
        file: The design's file.
        assigned: Overrides by dotted path; a file there is relative to the working directory.

    Raises:
        InputError: It is no such file, or it contradicts what is stated.
    """
    folder = file.parent
    if OVERHEADS_FILE in assigned:
        folder = Path()
        name = assigned[OVERHEADS_FILE]
    if name is None:
        return {}
    where = _where(OVERHEADS_FILE, str(file), assigned)
    fitted = read_mapping(_path(folder, name, where, "name a file of carsim calibrate"))
    twice = sorted(key for key in fitted.keys() & stated if fitted[key] != stated[key])
    if twice:
        problem = f"{name} and the design both set {', '.join(twice)}"
        raise InputError(where, problem, "leave one of them out")
    return dict(fitted)


def _path(folder: Path, name: Any, where: str, cure: str) -> Path:
    """A file of a folder; what is no path raises InputError."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InputError(where, f"{shown(name)} is no path", cure)
    return folder / name


def _model_path(folder: Path, name: Any, where: str) -> Path:
    """The file of a model, or its folder; a name of Hugging Face gets the command that fetches it.

    Raises:
        InputError: It is no path, or there is no such file or folder.
    """
    path = _path(folder, name, where, "name a model's config.json")
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]*[\w-]", str(name)):
        return path
    if admit(path).exists() or path.suffix in (".json", ".gguf"):
        return path
    problem = f"{shown(name)} is no file or folder here; models are read from files alone"
    fetch = f"hf download {name} --include '*.json' --local-dir FOLDER"
    raise InputError(where, problem, f"fetch it with '{fetch}', and name that folder")


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
            cure = f"write {section}: {{preset: NAME}} in the file, or override its keys one by one"
            raise InputError(f"`overrides` {next(iter(changed))}", problem, cure)
        for bases in (changed, named):
            if len(bases) > 1:
                where = _where(next(iter(bases)), str(file), assigned)
                raise InputError(where, f"goes against {list(bases)[1]}", "give one of them")
        for path, value in (changed or named).items():
            where = _where(path, str(file), assigned)
            if path == MODEL_FILE:
                folder = Path() if changed else file.parent
                config = _model_path(folder, value, where)
                from carsim.workload.hf_config import read_hf_config

                base = read_hf_config(config, is_weighed=_gives_bits(body, assigned))
                base = _without_roles(base, _roles_given(body, assigned))
            else:
                base = preset(section, value, where)
            merged[section] = _merge(base, body)
    return merged


def _expand_gguf_type(merged: dict[str, Any], file: Path, assigned: Mapping[str, Any]) -> None:
    """Put bits by role in the place of a name such as ``q4_k_m`` in ``model.weights``."""
    model = merged.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("weights"), str):
        return
    from carsim.workload.hf_config import read_gguf_type

    try:
        fields = read_gguf_type(model["weights"], model)
    except FieldError as error:
        where = _where(f"model.{error.field}", str(file), assigned)
        raise InputError(where, error.problem, error.cure) from None
    own_roles = model.get("weights_by_role", {})
    fields = _without_roles(fields, own_roles)
    by_role = {**fields.get("weights_by_role", {}), **own_roles}
    by_layer = (*fields.get("weights_by_layer", ()), *model.get("weights_by_layer", ()))
    merged["model"] = {**model, **fields, "weights_by_role": by_role, "weights_by_layer": by_layer}


def _roles_given(model: Mapping[str, Any], assigned: Mapping[str, Any]) -> set[str]:
    """Roles whose precision a design, or an override of it, gives itself."""
    written = model.get("weights_by_role")
    roles = set(written) if isinstance(written, Mapping) else set()
    prefix = "model.weights_by_role"
    for path, value in assigned.items():
        if path == prefix and isinstance(value, Mapping):
            roles |= set(value)
        elif is_within(path, prefix) and path != prefix:
            roles.add(path.removeprefix(f"{prefix}.").partition(".")[0])
    return roles


def _without_roles(model: Mapping[str, Any], roles: Collection[str]) -> dict[str, Any]:
    """A model of a file, whose layers say nothing of roles that the design gives itself."""
    if "weights_by_layer" not in model:
        return dict(model)
    dropped_roles = set(roles)
    if "attention" in dropped_roles:  # short for both
        dropped_roles |= {"attention_qkv", "attention_output"}
    entries = []
    for entry in model["weights_by_layer"]:
        remaining = {key: value for key, value in entry.items() if key not in dropped_roles}
        if len(remaining) > 1:  # more than the layers that it is of
            entries.append(remaining)
    return {**model, "weights_by_layer": entries}


def _gives_bits(model: Mapping[str, Any], assigned: Mapping[str, Any]) -> bool:
    """A design, or an override of it, gives the bits of the model's weights itself."""
    if "model.weights" in assigned or "model.weights.bits" in assigned:
        return True
    weights = model.get("weights")
    return weights is not None and (not isinstance(weights, dict) or "bits" in weights)


def preset(section: str, name: Any, where: str) -> dict[str, Any]:
    """Contents of a preset, which nothing changes; an unknown one raises InputError."""
    preset_names = _preset_names(section)
    if name in preset_names:
        return _read_preset(_preset_folder(section) / f"{name}.yaml")
    if isinstance(name, str) and Path(name).is_file():
        problem = f"{shown(name)} is a file, and a preset is named without one"
        cure = f"write a section {section} in a design's file, and run that: carsim run {name}"
        raise InputError(where, problem, cure)
    choice = choose(name, preset_names, words="choose from", more=PRESETS_LISTED)
    cure = f"{choice}, or write the {section} in full"
    raise InputError(where, f"no preset {shown(name)}", cure)


def _preset_folder(section: str) -> Path:
    """The folder with the presets of a section."""
    return Path(str(files("carsim.design"))) / "presets" / section


def _preset_names(section: str) -> list[str]:
    """Names of the presets of a section, sorted."""
    return sorted(path.stem for path in _preset_folder(section).glob("*.yaml"))


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
    comment_lines = takewhile(lambda line: line.startswith("#"), lines)
    comment = " ".join(line.lstrip("# ") for line in comment_lines)
    first_sentence, _, _ = comment.partition(". ")
    return first_sentence.rstrip(".")


def _merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A section with changes: sections within it are merged, values replaced."""
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key, {})
        # A section of another kind replaces the preset's instead of mixing with it.
        are_sections = isinstance(old, dict) and isinstance(value, dict)
        mixes = are_sections and value.get("kind", old.get("kind")) == old.get("kind")
        merged[key] = _merge(old, value) if mixes else value
    return merged


def _assigned(texts: Iterable[str]) -> dict[str, Any]:
    """Values by dotted path of ``path=value`` texts.

    Raises:
        InputError: A text of another form, or two of which one sets what the other one sets.
    """
    assigned: dict[str, Any] = {}
    for text in texts:
        dotted, value = _assignment(text)
        if dotted in assigned:
            raise InputError(f"`overrides` {dotted}", "is set twice", "set it once")
        assigned[dotted] = value
    _refuse_overlaps(assigned)
    return assigned


def _refuse_overlaps(paths: Iterable[str]) -> None:
    """Refuse two paths of which one lies within the other: the order would decide the design."""
    pair = overlapping(paths)
    if pair is not None:
        outer, inner = pair
        problem = f"holds {inner}, which is set by itself, too"
        raise InputError(f"`overrides` {outer}", problem, "set it in one place")


def _assignment(text: str) -> tuple[str, Any]:
    """Dotted path and value of a text ``path=value``; the value is YAML."""
    dotted, equals, value = text.partition("=")
    dotted = dotted.strip()
    keys = dotted.split(".")
    if not equals or not all(keys) or len(keys) > MAX_DEPTH or not dotted.isprintable():
        problem = f"{shown(text)} is not of the form path=value"
        raise InputError("`overrides`", problem, "say machine.cores=8")
    return dotted, parse_yaml(value, f"`overrides` {dotted}")


def _assign(raw: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a value in a mapping by its dotted path; sections on the way are copied."""
    *parents, last = dotted.split(".")
    section = raw
    for parent in parents:
        # Let validation speak of an unknown or absent key, with its suggestions.
        inner = {} if section.get(parent) is None else section[parent]
        if not isinstance(inner, dict):
            problem = f"{parent!r} is a value and has no fields"
            raise InputError(f"`overrides` {dotted}", problem, "shorten the path")
        copy = dict(inner)
        section[parent] = copy
        section = copy
    section[last] = value


def _where(path: str, place: str, overridden: Iterable[str]) -> str:
    """Name the override that a problem is about, else the file and all that has changed it."""
    texts = list(overridden)
    if path in texts:
        return f"`overrides` {path}"
    for dotted in texts:
        if overlap(path, dotted):
            return f"`overrides` {dotted}: $.{path}"
    changed = f" with `overrides` {', '.join(texts)}" if texts else ""
    return f"{place}{changed}: $.{path}"
