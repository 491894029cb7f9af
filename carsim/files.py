"""Files that appear whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path

from carsim.errors import InputError


def write_whole(path: Path, write: Callable[[Path], object], *, cure: str = "make room") -> None:
    """Write a file beside its place, and put it there when it is complete.

    Args:
        path: Its place.
        write: Writes it to the path that it is given.
        cure: What to do where it cannot be written.

    Raises:
        InputError: It cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        write(unfinished)
        unfinished.replace(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(str(path), f"cannot be written ({reason})", cure) from error
    finally:
        unfinished.unlink(missing_ok=True)
