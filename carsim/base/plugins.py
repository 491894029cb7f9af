"""Plugins: files and installed packages that add kinds to the registries.

A plugin file is a Python module that registers kinds when it runs, such as
``RULES.register(MyRule)``. It is loaded only if it is named on the command line, in the variable
``CARSIM_PLUGINS`` or by :func:`load_plugin`; designs, traces, recipes and studies name kinds and
never load code. An installed package names its kinds as entry points of the group
``carsim.kinds``; one is imported when its name is first looked up.

Plugins are recognised by the SHA-256 of their bytes: results say which were loaded, a store filled
with one is not filled further with another, and a worker refuses a job whose plugins it lacks.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from carsim.base.errors import CarsimError, InputError
from carsim.base.files import read_file
from carsim.base.text import one_line

GROUP = "carsim.kinds"
"""Group of the entry points."""

VARIABLE = "CARSIM_PLUGINS"
"""Variable that lists plugin files, separated as the search path is."""

MOST_BYTES = 2**20

_loaded: dict[str, str] = {}
"""Absolute path of each plugin file that was loaded -> SHA-256 of its bytes."""


def loaded_plugins() -> Mapping[str, str]:
    """Absolute path -> SHA-256 of the plugin files of this process, in the order of loading."""
    return dict(_loaded)


def load_plugins(files: Iterable[str | Path]) -> None:
    """Load the plugin files that the environment names, then these.

    Raises:
        InputError: A file cannot be read or run, has changed, or adds a kind of carsim's own.
    """
    for file in (*filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)), *files):
        load_plugin(Path(file).absolute())


def load_plugin(path: Path) -> str:
    """Run a plugin file, once per process and content.

    Returns:
        SHA-256 of its bytes.

    Raises:
        InputError: It cannot be read or run, or was loaded before with other bytes.
    """
    place = str(path)
    source = read_file(path, MOST_BYTES, "name another")
    digest = sha256(source).hexdigest()
    if _loaded.get(place, digest) != digest:
        raise InputError(place, "has changed since it was loaded", "start carsim again")
    if place in _loaded:
        return digest
    name = f"carsim_plugin_{digest[:16]}"
    spec = spec_from_file_location(name, path)
    if spec is None:
        raise InputError(place, "is no Python file", "name a file that ends with .py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # so that its classes can be found again by name
    with _explained(place, "run it with Python to see where"):
        exec(compile(source, place, "exec"), module.__dict__)
    _loaded[place] = digest
    return digest


@lru_cache(1 << 12)
def load_named(name: str) -> None:
    """Import the installed kinds of a name, if there are any; packages are asked once.

    Raises:
        InputError: A package's kind cannot be imported.
    """
    for entry in entry_points(group=GROUP, name=name):
        with _explained(f"kind {name!r} of {entry.value}", "reinstall it"):
            entry.load()


@contextmanager
def _explained(place: str, cure: str) -> Iterator[None]:
    """Whatever goes wrong with the code of others is the refusal of a plugin."""
    try:
        yield
    except CarsimError:
        raise
    except Exception as error:
        problem = f"fails as it is loaded ({type(error).__name__}: {one_line(str(error))})"
        raise InputError(place, problem, cure) from error
