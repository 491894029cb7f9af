"""``carsim report``: a folder of results as one page that needs no other file."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from carsim.base.errors import InputError
from carsim.base.files import unwritable, write_whole
from carsim.explore.store import STORE_FILE
from carsim.report.files import REPORT
from carsim.report.html import GENERATOR, need_plotly
from carsim.report.stored import SUMMARY, StoredRun
from carsim.report.summary_file import read_run

if TYPE_CHECKING:
    from carsim.report.stored_study import StoredStudy

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
        folder: Output of ``carsim run``, ``carsim sweep`` or ``carsim search``.
        out: The file to write; ``report.html`` in the folder if not given.
        overwrite: Replace a file that carsim did not make.
        progress: Told what is being done.

    Returns:
        The file.

    Raises:
        InputError: The folder holds no results, or broken ones; the file is not carsim's, or cannot
            be written; plotly is missing.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise _noresults(folder)
    page = folder / REPORT if out is None else Path(out)
    check_page(page, overwrite=overwrite)
    need_plotly()
    progress("reading and drawing")
    text = _content(folder, _address(folder, page))
    write_whole(page, lambda path: path.write_text(text, encoding="utf-8"))
    return page


def _content(folder: Path, address: str) -> str:
    """The page of whatever results the folder holds."""
    from carsim.report.run_page import run_page
    from carsim.report.study_page import study_page

    found = results(folder)
    if isinstance(found, StoredRun):
        return run_page(found, folder, address)
    return study_page(found, folder, address)


def results(folder: Path) -> "StoredRun | StoredStudy":
    """The results of a folder.

    Raises:
        InputError: It holds none, or broken ones.
    """
    if (folder / SUMMARY).exists():
        return read_run(folder)
    if (folder / STORE_FILE).exists():
        from carsim.report.stored_study import read_study

        return read_study(folder)
    raise _noresults(folder)


def _noresults(folder: Path) -> InputError:
    problem = f"holds neither {SUMMARY} nor {STORE_FILE}"
    if not folder.is_dir():
        problem = "is no folder" if os.path.lexists(folder) else "there is no such folder"
    return InputError(
        str(folder), problem, "name the folder that carsim run, sweep or search wrote"
    )


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
        raise InputError(str(page), "exists and is no plain file", "name another with `out`")
    if overwrite:
        return
    try:
        with page.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except OSError as error:
        raise unwritable(page, error) from error
    if f'<meta name="generator" content="{GENERATOR}">'.encode() not in head:
        raise InputError(
            str(page),
            "exists and was not made by carsim",
            "name another file with `out`, or set `overwrite`",
        )


def _address(folder: Path, page: Path) -> str:
    """Of the folder, relative to the page; empty where they are together."""
    relative = os.path.relpath(folder.resolve(), page.parent.resolve())
    return "" if relative == "." else quote(Path(relative).as_posix()) + "/"
