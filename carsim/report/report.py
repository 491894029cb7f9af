"""``carsim report``: a folder of results as one page that needs no other file."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from carsim.base.errors import InputError
from carsim.base.files import write_whole
from carsim.explore.store import STORE_FILE
from carsim.report.files import REPORT, RESULTS
from carsim.report.html import plotly_script
from carsim.report.stored import SUMMARY, StoredRun, read_run

if TYPE_CHECKING:
    from carsim.explore.study import Study
    from carsim.report.stored_study import StoredStudy


FILES = (*RESULTS, "points.parquet", "points.csv", "study.yaml", STORE_FILE)
"""Files of runs and studies that a page in their folder links to."""


def write_page(
    folder: str | Path,
    out: str | Path | None = None,
    *,
    overwrite: bool = False,
    robust: "Study | None" = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write the page of a folder of results.

    Args:
        folder: Output of ``carsim run``, ``carsim sweep`` or ``carsim search``.
        out: The file to write; ``report.html`` in the folder if not given.
        overwrite: Replace a file other than that in the folder.
        robust: The study of a sweep or a search, if the page shall say how robust each point of
            the front is (:mod:`carsim.explore.robust`).
        progress: Told what is being done.

    Returns:
        The file.

    Raises:
        InputError: The folder holds no results, or broken ones; the file exists, or cannot be
            written; plotly is missing.
    """
    folder = Path(folder)
    from carsim.report.run_page import run_page
    from carsim.report.study_page import study_page

    progress("reading and drawing")
    if (folder / SUMMARY).exists():
        plotly_script()  # says how to install it before anything is read
    result = results(folder)
    page = folder / REPORT if out is None else Path(out)
    if out is not None and os.path.lexists(page) and not (overwrite and page.is_file()):
        raise InputError(str(page), "exists already", "name another, or set `overwrite`")
    links = [name for name in FILES if out is None and (folder / name).is_file()]
    if isinstance(result, StoredRun):
        write_whole(page, run_page(result, folder, links))
    else:
        write_whole(page, study_page(replace(result, robust=robust), links))
    return page


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
    cure = "name the folder that carsim run, sweep or search wrote"
    raise InputError(str(folder), f"holds neither {SUMMARY} nor {STORE_FILE}", cure)
