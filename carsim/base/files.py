"""Files: read within limits, written whole or not at all.

Every file that a user can name is read through one gate, :func:`admit`. The gate stands open,
except inside :func:`gated`: there, a server decides which files its pages may name.

What is written gets a hidden name beside its place first, which says who writes it: this machine
and process. What a killed process has left there goes when the same file is written again.
"""

import csv
import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import resources
from pathlib import Path
from platform import node
from typing import Any

from carsim.base.errors import InputError, first_line

_CURES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "name a place that may be written"),
    errno.EISDIR: "remove that folder, or name another place",
    errno.ENAMETOOLONG: "take a shorter name",
}

Gate = Callable[[Path], object]
"""Raises InputError for a path that may not be read."""

_GATE: ContextVar[Gate | None] = ContextVar("gate", default=None)


@contextmanager
def gated(gate: Gate) -> Iterator[None]:
    """Let :func:`admit` refuse, within this context, what a gate refuses."""
    before = _GATE.set(gate)
    try:
        yield
    finally:
        _GATE.reset(before)


def admit(path: Path) -> Path:
    """Pass a path through the gate, before the file is looked for, opened or described.

    Args:
        path: A path that a user, a file or an address has named.

    Returns:
        The path, unchanged.

    Raises:
        InputError: The gate refuses it. Without a gate, nothing is refused.
    """
    gate = _GATE.get()
    if gate is not None:
        gate(path)
    return path


def read_file(path: Path, most_bytes: int, cure: str = "check the path") -> bytes:
    """The bytes of a regular file: a pipe might never end, and a device never does.

    Args:
        path: The file.
        most_bytes: A longer one is refused before it is read.
        cure: What to do where it cannot be read.

    Raises:
        InputError: It is missing, unreadable, no regular file, or too long, or the gate refuses
            it.
    """
    admit(path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise InputError(str(path), "is no regular file, but a pipe or a device", cure)
        if status.st_size > most_bytes:
            raise InputError(str(path), f"is too large: more than {most_bytes:,} bytes", cure)
        with path.open("rb") as file:
            data = file.read(status.st_size + 1)
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {reason(error)}", cure) from None
    except ValueError:  # a null byte in its name
        raise InputError(str(path), "is no path", cure) from None
    if len(data) > status.st_size:
        raise InputError(str(path), "grows while it is read", "read it when it is complete")
    return data


def read_text(path: Path, most_bytes: int, cure: str = "check the path") -> str:
    """The text of a regular file in UTF-8, line ends as they are.

    Args:
        path: The file.
        most_bytes: As of :func:`read_file`.
        cure: As there.

    Raises:
        InputError: As there, or it is no UTF-8.
    """
    try:
        return read_file(path, most_bytes, cure).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(str(path), "is not UTF-8 text", cure) from None


def read_json(path: Path, most_bytes: int, cure: str = "check the path") -> dict[str, Any]:
    """Keys and values of a JSON file.

    Raises:
        InputError: It cannot be read, is too large, is no JSON or holds something else.
    """
    try:
        document = json.loads(read_text(path, most_bytes, cure))
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), f"is no JSON: {first_line(error)}", cure) from None
    if not isinstance(document, dict):
        raise InputError(str(path), "should hold keys", cure)
    return document


def reason(error: OSError) -> str:
    """Words of the operating system on an error, without the path."""
    return error.strerror or str(error) or type(error).__name__


def unwritable(path: Path, error: OSError) -> InputError:
    """Error message for a file or a folder that cannot be written."""
    cure = _CURES.get(error.errno or 0, "name another place")
    return InputError(str(path), f"cannot be written ({reason(error)})", cure)


def hidden(path: Path, what: str) -> Path:
    """The name of this process for what is on its way to a path, or away from it."""
    return path.with_name(f".{path.name}.{node()}.{os.getpid()}.{what}")


def leftovers(path: Path, what: str) -> list[Path]:
    """Files that ended processes of this machine have left under :func:`hidden` names."""
    start = f".{path.name}.{node()}."
    left = []
    for file in path.parent.iterdir():
        if not file.name.startswith(start):
            continue
        pid = file.name.removeprefix(start).removesuffix(f".{what}")
        if pid.isdecimal() and not _is_alive(int(pid)):
            left.append(file)
    return left


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A hidden path for what is to take the place of another; leftovers there go.

    Yields:
        The hidden path, where nothing is.
    """
    for leftover in leftovers(path, "unfinished"):
        remove(leftover)
    here = hidden(path, "unfinished")
    try:
        yield here
    finally:
        remove(here)


def remove(path: Path) -> None:
    """Remove a file or a folder, if there is one; else nothing is tried that could fail."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        path.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder, unless it is there.

    Raises:
        InputError: It cannot be made, or a file has its name.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from None


def write_whole(path: Path, write: str | Callable[[Path], object]) -> None:
    """Write a file beside its place, and put it there when it is complete.

    Args:
        path: Its place.
        write: Its text, or what writes it to the path that it is given.

    Raises:
        InputError: It cannot be written.
    """
    try:
        with unfinished(path) as beside:
            if isinstance(write, str):
                beside.write_text(write, encoding="utf-8")
            else:
                write(beside)
            beside.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error


# -------------------------------------------------------------------- private


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # another user's
    return pid != os.getpid()


def packaged_rows(package: str, path: str) -> list[dict[str, str]]:
    """Rows of a table in CSV that a package holds."""
    text = resources.files(package).joinpath(path).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
