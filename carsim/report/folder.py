"""An output folder that appears whole or not at all.

Everything is written into a hidden folder beside the final one, on the same file system, which is
renamed when it is complete. A folder that is replaced is moved aside first and deleted last: a run
that is killed leaves the old folder, the new one, or none, but never a part of one.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from carsim.base.errors import InputError
from carsim.base.files import hidden, leftovers, remove, unfinished, unwritable


def check_folder(path: Path, *, overwrite: bool, ours: Collection[str]) -> None:
    """Raise where writing the folder is bound to fail; call before long work.

    Args:
        path: The folder to be made.
        overwrite: Replace a folder that an earlier run left, but never one that holds other files.
        ours: Names of the files that a run writes.

    Raises:
        InputError: It exists and may not be replaced, or its parent cannot be written.
    """
    place = str(path)
    parent = path.resolve().parent
    if os.path.lexists(path):
        if path.is_symlink() or not path.is_dir():
            raise InputError(place, "exists and is no folder", "name another")
        try:
            foreign = sorted({entry.name for entry in path.iterdir()}.difference(ours))
        except OSError as error:
            raise unwritable(path, error) from error
        if not overwrite:
            raise InputError(place, "exists already", "name another folder, or set `overwrite`")
        if foreign:
            problem = f"holds {foreign[0]!r}, which carsim did not write, and is not replaced"
            raise InputError(place, problem, "name another folder")
    if not parent.is_dir():
        raise InputError(place, f"there is no folder {str(parent)!r} to hold it", "make it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(place, f"the folder {str(parent)!r} cannot be written", "name another")


@contextmanager
def whole_folder(path: Path, *, overwrite: bool, ours: Collection[str]) -> Iterator[Path]:
    """A folder to write into, which becomes ``path`` when the block ends without an exception.

    Args:
        path: The folder to be made.
        overwrite: As in :func:`check_folder`.
        ours: As in :func:`check_folder`.

    Yields:
        An empty folder beside ``path``.

    Raises:
        InputError: As in :func:`check_folder`, or writing failed (no space, no permission).
    """
    check_folder(path, overwrite=overwrite, ours=ours)
    final = path.resolve()
    replaced = hidden(final, "replaced")
    try:
        for aside in leftovers(final, "replaced"):
            if final.is_dir():
                remove(aside)
            else:
                aside.rename(final)  # whoever moved it aside was killed before it was replaced
        with unfinished(final) as beside:
            beside.mkdir()
            yield beside
            check_folder(path, overwrite=overwrite, ours=ours)  # it may have appeared meanwhile
            if final.is_dir():
                final.rename(replaced)
            try:
                beside.rename(final)
            except OSError:
                if replaced.is_dir():
                    replaced.rename(final)
                raise
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        if final.is_dir():
            remove(replaced)
