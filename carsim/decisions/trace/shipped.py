"""Traces by name: those that ship with carsim, and those in the folder ``traces``."""

import zipfile
from importlib.resources import files
from pathlib import Path

from carsim.base.errors import InputError
from carsim.base.files import admit
from carsim.base.text import closest

LOCAL = Path("traces")
"""Where names are looked up first, in the working directory."""

RENAMED = {
    f"published_{percent}": f"published_{percent}_correlated" for percent in (20, 50, 80, 87)
}
"""Earlier names of shipped traces."""


def traces_folder() -> Path:
    """Folder of the traces that ship with carsim: inside the wheel, else beside the package."""
    package = Path(str(files("carsim")))
    inside = package / "traces"
    return inside if inside.is_dir() else package.parent / "traces"


def traces_in(folder: Path) -> list[Path]:
    """The traces in a folder by name, whatever other archives it holds; none if there is none."""
    return [path for path in sorted(folder.glob("*.npz")) if is_trace(path)]


def shipped_traces() -> list[str]:
    """Names of the traces that ship with carsim."""
    return [path.stem for path in traces_in(traces_folder())]


def is_trace(path: Path) -> bool:
    """True for an archive of the arrays of a trace; they are not looked at."""
    try:
        with zipfile.ZipFile(admit(path)) as archive:
            return {"replay.npy", "tas.npy", "meta.npy"} <= set(archive.namelist())
    except (InputError, OSError, zipfile.BadZipFile):
        return False


def trace_path(name_or_path: str | Path, beside: Path = Path()) -> Path:
    """The file of a trace, given its path or its name.

    Args:
        name_or_path: A file, or the name of a trace in the folder ``traces`` or of a shipped one.
        beside: Folder that relative paths start from.

    Raises:
        InputError: Neither a file nor a name, or the gate refuses it.
    """
    relative = Path(name_or_path)
    admit(beside / relative)
    if relative.stem in RENAMED and not (beside / relative).exists():
        relative = relative.with_stem(RENAMED[relative.stem])
    path = beside / relative
    try:
        is_file = path.is_file()
        is_folder = path.is_dir()
    except (OSError, ValueError):  # no name of a file; opening it says why
        return path
    is_trace = path.suffix == ".npz"
    if is_trace and not is_file and not is_folder and path.stem in shipped_traces():
        cure = f"name the shipped trace without folder and suffix: {path.stem}"
        raise InputError(str(relative), "there is no such file", cure)
    if is_file or is_trace:
        return path
    name = str(relative)
    if Path(name).name == name:
        for folder in (LOCAL, traces_folder()):
            if admit(named := folder / f"{name}.npz").is_file():
                return named
    if is_folder:
        return path  # opening it says what it is
    shipped = shipped_traces()
    guess = closest(name, [*shipped, *(local.stem for local in traces_in(LOCAL))])
    problem = "is neither a trace file nor the name of a trace"
    cure = f"{guess}shipped are {', '.join(shipped) or 'none'}"
    raise InputError(name if name.isprintable() and name else repr(name), problem, cure)
