"""Files that the studio may read: shipped ones, those of its start folder, and those it was given.

An address names files, and an address can come from anybody. So a file elsewhere is refused before
it is looked for, be it through a symbolic link; and what is no design and no trace is refused
without a word of its content.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carsim.base.errors import InputError
from carsim.base.files import read_text
from carsim.base.text import one_line
from carsim.base.yaml_file import MAX_BYTES, mapping_of, parse_yaml
from carsim.decisions.trace.shipped import is_trace, trace_path, traces_folder
from carsim.design.load import MODEL_FILE, configs_folder, design_path
from carsim.explore.store import STORE_FILE
from carsim.studio.state import TabState

SECTIONS = frozenset({"board", "model"})
"""Keys that every design has, so that a file without them is something else."""


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
        given = [Path(), configs_folder(), traces_folder(), design_path(start.design)]
        given += _models(given[-1], start.changes)
        given += [trace_path(start.trace)] if start.trace else []
        given += [Path(start.store)] if start.store else []
        return cls(tuple(path.resolve() for path in given))

    def design(self, name: str, changes: Mapping[str, str]) -> Path:
        """The file of a design by its name or path.

        Args:
            name: Its name or path.
            changes: Fields that are set, of which one may name the model's own file.

        Raises:
            InputError: There is none, it may not be read, or it is no design.
        """
        path = self._checked(design_path(str(self._checked(name))))
        for model in _models(path, changes):
            self._checked(model)
        return path

    def trace(self, name: str) -> Path:
        """The file of a trace by its name or path.

        Raises:
            InputError: There is none, it may not be read, or it is no trace.
        """
        path = self._checked(trace_path(self._checked(name)))
        if path.is_file() and not is_trace(path):
            raise InputError(one_line(name), "is no trace", "make one with 'carsim capture'")
        return path

    def store(self, name: str) -> Path:
        """The folder of a sweep or a search.

        Raises:
            InputError: It may not be read.
        """
        self._checked(Path(name) / STORE_FILE)
        return self._checked(name)

    def _checked(self, path: str | Path) -> Path:
        """A path that may be read. Whether there is such a file elsewhere is not told."""
        try:
            real = Path(path).resolve()
            is_loop = real.is_symlink()  # Python 3.13 returns it, earlier ones raise
        except (OSError, RuntimeError, ValueError):  # a loop of links, or a null byte
            is_loop = True
        if is_loop or not any(real.is_relative_to(place) for place in self.places):
            problem = "is outside of the folder in which the studio was started"
            cure = "start it there, or name the file when you start it"
            raise InputError(one_line(str(path)), problem, cure)
        return Path(path)


def _models(path: Path, changes: Mapping[str, str]) -> list[Path]:
    """The model's own file that a design starts from, which a folder may stand for.

    Raises:
        InputError: The file is no design. Nothing of it is quoted.
    """
    text = read_text(path, MAX_BYTES, "name a YAML file")
    try:
        raw = mapping_of(text, str(path))
    except InputError:
        raw = {}
    if not raw.keys() >= SECTIONS:
        cure = "'carsim config show' says more"
        raise InputError(one_line(str(path)), "cannot be read as a design", cure)
    section, key = MODEL_FILE.split(".")
    named: Any = raw[section].get(key) if isinstance(raw[section], dict) else None
    folder = path.parent
    if MODEL_FILE in changes:
        folder, named = Path(), parse_yaml(changes[MODEL_FILE], MODEL_FILE)
    return [folder / named, folder / named / "config.json"] if isinstance(named, str) else []
