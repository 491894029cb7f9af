"""``carsim report``: a folder of results as one page that needs no other file."""

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from carsim.errors import InputError
from carsim.output.files import REPORT
from carsim.output.html import GENERATOR, as_html
from carsim.output.stored import read_run

HEAD_BYTES = 4096
"""The page's generator is named within so many bytes of its start."""


def write_page(
    folder: str | Path,
    out: str | Path | None = None,
    *,
    overwrite: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write the page of a folder of results.

    Args:
        folder: What ``carsim run --out`` left.
        out: The file to write; ``report.html`` in the folder if not given.
        overwrite: Replace a file that carsim did not make.
        progress: Told what is being done.

    Returns:
        The file.

    Raises:
        InputError: The folder holds no results, or broken ones; the file is not carsim's, or cannot
            be written.
    """
    folder = Path(folder)
    page = folder / REPORT if out is None else Path(out)
    progress("reading")
    run = read_run(folder)
    check_page(page, overwrite=overwrite)
    progress("drawing")
    from carsim.output.run_page import run_page

    title, sections, pictures = run_page(run, folder, _address(folder, page))
    _write_whole(page, as_html(title, sections, pictures))
    return page


def check_page(page: Path, *, overwrite: bool) -> None:
    """Refuse to replace what carsim did not make.

    Raises:
        InputError: The file is another's, or no file, or there is no folder to hold it.
    """
    if not page.parent.is_dir():
        raise InputError(str(page), "there is no folder to hold it", "make it first")
    if not os.path.lexists(page):
        return
    if page.is_symlink() or not page.is_file():
        raise InputError(str(page), "exists and is no plain file", "name another with --out")
    if overwrite:
        return
    try:
        with page.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except OSError as error:
        raise _unwritable(page, error) from error
    if f'<meta name="generator" content="{GENERATOR}">'.encode() not in head:
        raise InputError(
            str(page),
            "exists and was not made by carsim",
            "name another file with --out, or pass --overwrite",
        )


def _address(folder: Path, page: Path) -> str:
    """Of the folder, relative to the page; empty where they are together."""
    relative = os.path.relpath(folder.resolve(), page.parent.resolve())
    return "" if relative == "." else quote(Path(relative).as_posix()) + "/"


def _write_whole(page: Path, text: str) -> None:
    """The file appears whole or not at all."""
    unfinished = page.with_name(f".{page.name}.{os.getpid()}.unfinished")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(page)
    except OSError as error:
        raise _unwritable(page, error) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _unwritable(page: Path, error: OSError) -> InputError:
    reason = error.strerror or type(error).__name__
    return InputError(str(page), f"cannot be written ({reason})", "name another file with --out")
