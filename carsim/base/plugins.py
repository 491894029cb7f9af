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
from traceback import extract_tb
from typing import NamedTuple

from carsim.base.answers import CURE, told
from carsim.base.errors import CarsimError, InputError, PluginError
from carsim.base.files import read_file

GROUP = "carsim.kinds"
"""Group of the entry points."""

VARIABLE = "CARSIM_PLUGINS"
"""Variable that lists plugin files, separated as the search path is."""

MOST_BYTES = 2**20

_loaded: dict[str, str] = {}
"""Absolute path of each plugin file that was loaded -> SHA-256 of its bytes."""

_installed: set[str] = set()
"""Files of installed modules that were imported for a kind."""


def loaded_plugins() -> Mapping[str, str]:
    """Absolute path -> SHA-256 of the plugin files of this process, in the order of loading."""
    return dict(_loaded)


def plugins_by_name() -> dict[str, str]:
    """Name -> SHA-256 of the plugin files of this process, as results record them."""
    return {Path(file).name: digest for file, digest in _loaded.items()}


class PluginGap(NamedTuple):
    """Difference between the plugins of a result and those that are loaded.

    Attributes:
        problem: What differs, as the predicate of the result.
        cure: What to do about it.
    """

    problem: str
    cure: str


def plugin_gap(recorded: Mapping[str, str], *, exactly: bool = False) -> PluginGap | None:
    """The first difference between the plugins of a result and those of this process.

    Args:
        recorded: Name -> SHA-256 of the plugins with which the result was made.
        exactly: Plugins that have changed, or that the result was made without, differ as well.

    Returns:
        None if there is no difference.

    >>> plugin_gap({"mine.py": "0"}).problem
    'was made with the plugin mine.py, which is not loaded'
    """
    loaded = plugins_by_name()
    lacking = sorted(recorded.keys() - loaded.keys())
    if lacking:
        is_or_are = "which is" if len(lacking) == 1 else "which are"
        plugins = "plugin" if len(lacking) == 1 else "plugins"
        problem = f"was made with the {plugins} {', '.join(lacking)}, {is_or_are} not loaded"
        return PluginGap(problem, f"add {' '.join(f'`plugins` {name}' for name in lacking)}")
    if not exactly:
        return None
    changed = sorted(name for name, digest in recorded.items() if loaded[name] != digest)
    if changed:
        problem = f"was made with another version of the plugin {', '.join(changed)}"
        return PluginGap(problem, "load the version that made it")
    added = sorted(loaded.keys() - recorded.keys())
    if added:
        problem = f"was made without the plugin {', '.join(added)}, which is loaded"
        return PluginGap(problem, "leave it out")
    return None


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
        if file := getattr(sys.modules.get(entry.module), "__file__", None):
            _installed.add(file)


def blamed(error: BaseException) -> PluginError | None:
    """The refusal of the plugin in whose code an exception was raised; None if it was in none.

    >>> blamed(ValueError("in no plugin"))
    """
    for frame in reversed(extract_tb(error.__traceback__)):
        if frame.filename in {*_loaded, *_installed}:
            place = f"{Path(frame.filename).name}:{frame.lineno}"
            return PluginError(place, f"{frame.name}() fails ({told(error)})", CURE)
    return None


@contextmanager
def _explained(place: str, cure: str) -> Iterator[None]:
    """Whatever goes wrong with the code of others is the refusal of a plugin."""
    try:
        yield
    except CarsimError:
        raise
    except (Exception, SystemExit) as error:  # sys.exit(0) would end carsim as if all were well
        raise InputError(place, f"fails as it is loaded ({told(error)})", cure) from error
