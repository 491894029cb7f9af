"""Files that the studio may read: shipped ones, those of its start folder, and those it was given.

An address names files, and an address can come from anybody. So a file elsewhere is refused before
it is looked for, even through a symbolic link. A file that is of another kind than the address says
is refused without quoting its content.

Two checks stand behind each other. :meth:`Reach.files` lists what a state reads, so that a wrong
kind of file is refused. :meth:`Reach.admits` is the gate (:mod:`carsim.base.files`) inside which
all answers are computed: it refuses whatever that list might have left out.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import wraps
from importlib import resources
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from carsim.base.errors import InputError
from carsim.base.files import gated, read_text
from carsim.base.text import one_line
from carsim.base.yaml_file import MAX_BYTES, mapping_of, parse_yaml
from carsim.decisions.trace.shipped import is_trace, trace_path, traces_folder
from carsim.design.load import FILE_PATHS, MODEL_FILE, configs_folder, design_path
from carsim.explore.store import STORE_FILE
from carsim.hardware.overheads import Overheads
from carsim.studio.state import TabState
from carsim.workload.workload import Workload, workload_file

SECTIONS = frozenset({"board", "model"})
"""Keys that every design has, so that a file without them is something else."""

PACKAGE = Path(str(resources.files("carsim")))
"""Folder of the package, which holds presets."""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Reach:
    """Files and folders that may be read.

    Attributes:
        places: Files and folders without symbolic links; what lies in such a folder may be read.
    """

    places: tuple[Path, ...]

    @classmethod
    def of(cls, start: TabState) -> "Reach":
        """Shipped files, the current folder, and what a command line names.

        Args:
            start: What the command line means.
        """
        named = [start.store] if start.store else []
        places = [Path(), PACKAGE, configs_folder(), traces_folder(), *map(Path, named)]
        places += _files(start)
        return cls(tuple(path.resolve() for path in places))

    def files(self, state: TabState) -> tuple[Path, ...]:
        """The files that a state reads, each of which may be read and is of the right kind.

        Args:
            state: The state.

        Raises:
            InputError: A file is missing, may not be read, or is of another kind.
        """
        with self.gate():
            paths = tuple(_files(state))
        for path in paths:  # the model's own file was named, but not read
            self.admits(path)
        return paths

    def store(self, name: str) -> Path:
        """The folder of a sweep or a search.

        Raises:
            InputError: It may not be read.
        """
        folder = Path(name)
        self.admits(folder / STORE_FILE)
        self.admits(folder)
        return folder

    def gate(self) -> AbstractContextManager[None]:
        """A context in which no other file can be read, whoever asks for it."""
        return gated(self.admits)

    def admits(self, path: Path) -> None:
        """Refuse a path that may not be read. Whether there is such a file is not told.

        Raises:
            InputError: It lies elsewhere, or leads there.
        """
        try:
            real = path.resolve()
            is_loop = real.is_symlink()  # Python 3.13 returns it, earlier ones raise
        except (OSError, RuntimeError, ValueError):  # a loop of links, or a null byte
            is_loop = True
        if is_loop or not any(real.is_relative_to(place) for place in self.places):
            problem = "is outside of the folder in which the studio was started"
            cure = "start it there, or name the file when you start it"
            raise InputError(one_line(str(path)), problem, cure)


class _HasReach(Protocol):
    """An object that knows which files may be read."""

    @property
    def reach(self) -> Reach:
        """Files that may be read."""


Owner = TypeVar("Owner", bound=_HasReach)


def through_the_gate(
    method: Callable[Concatenate[Owner, P], R],
) -> Callable[Concatenate[Owner, P], R]:
    """Wrap a method so that it reads only files within the reach of its object."""

    @wraps(method)
    def gated_method(self: Owner, /, *args: P.args, **named: P.kwargs) -> R:
        with self.reach.gate():
            return method(self, *args, **named)

    return gated_method


# -------------------------------------------------------------------- private


def _files(state: TabState) -> list[Path]:
    """The files that a state reads: its design, what that starts from, and what is decoded.

    Raises:
        InputError: A file is missing or of another kind. Nothing of it is quoted.
    """
    design = design_path(state.design)
    paths = [design, *_bases(design, state.changes)]
    traces: list[str] = []
    if state.workload:
        work = workload_file(state.workload)
        if work is not None:
            paths.append(work)
            _check_keys(work, "a workload", [field.name for field in fields(Workload)], {"kind"})
        traces += state.work.traces if state.work else ()
    if state.trace:
        traces.append(state.trace)
    return paths + [_trace(name) for name in traces]


def _trace(name: str) -> Path:
    path = trace_path(name)
    if path.is_file() and not is_trace(path):
        raise InputError(one_line(name), "is no trace", "make one with 'carsim capture'")
    return path


def _bases(design: Path, changes: Mapping[str, str]) -> list[Path]:
    """The files that a design starts from: its model's own, and overheads that were fitted.

    Args:
        design: The design's file.
        changes: Fields that are set, which may name other files.
    """
    raw = _mapping(design, "a design")
    if not raw.keys() >= SECTIONS:
        raise _no(design, "a design")
    paths = []
    for field in FILE_PATHS:
        *parents, last = field.split(".")
        section: Any = raw
        for parent in parents:
            section = section.get(parent) if isinstance(section, dict) else None
        folder = design.parent
        named = section.get(last) if isinstance(section, dict) else None
        if field in changes:
            folder = Path()
            named = parse_yaml(changes[field], field)
        if not isinstance(named, str):
            continue  # opening the design says what is wrong with it
        path = folder / named
        paths.append(path)
        if field == MODEL_FILE:
            paths.append(path / "config.json")  # a folder may stand for the file
        else:
            _check_keys(path, "overheads", Overheads.model_fields, set())
    return paths


def _check_keys(path: Path, kind: str, known: Collection[str], needed: set[str]) -> None:
    """Refuse a file whose keys are not those of its kind."""
    keys = _mapping(path, kind).keys()
    if not needed <= keys <= set(known):
        raise _no(path, kind)


def _mapping(path: Path, kind: str) -> dict[str, Any]:
    """Keys and values of a YAML file; what is wrong with its text is not told."""
    text = read_text(path, MAX_BYTES, "name a YAML file")
    try:
        return mapping_of(text, str(path))
    except InputError:
        raise _no(path, kind) from None


def _no(path: Path, kind: str) -> InputError:
    cure = "'carsim run' in a terminal says more"
    return InputError(one_line(str(path)), f"cannot be read as {kind}", cure)
