"""Write the report of a validation into one folder."""

import io
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from carsim.report.document import as_markdown
from carsim.report.folder import whole_folder
from carsim.report.html import as_html
from carsim.report.validation_tables import sections

if TYPE_CHECKING:
    from carsim.validate.overview import Validation

VALIDATION_FILES = (
    "report.html",
    "report.md",
    "boards.png",
    "dram.png",
    "paper.png",
    "fidelity.png",
)
"""Names that :func:`save_validation` writes; a folder that holds others is never replaced."""


def save_validation(
    validation: "Validation",
    folder: str | Path,
    *,
    overwrite: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Write a report into a folder, which appears whole or not at all.

    Files: ``report.html``, which needs no other, ``report.md``, and the plots as PNG.

    Args:
        validation: What was found.
        folder: The folder to be made.
        overwrite: Replace a folder of an earlier validation.
        progress: Told what is being written.

    Returns:
        Names of the files.

    Raises:
        InputError: The folder cannot be written.
    """
    with whole_folder(Path(folder), overwrite=overwrite, ours=VALIDATION_FILES) as into:
        progress("plots")
        pictures = _pictures(validation)
        for name, png in pictures.items():
            (into / name).write_bytes(png)
        progress("report")
        title = f"Validation of carsim {version('carsim')}"
        content = sections(validation)
        (into / "report.md").write_text(as_markdown(title, content), encoding="utf-8")
        (into / "report.html").write_text(as_html(title, content, pictures), encoding="utf-8")
    return list(VALIDATION_FILES)


def _pictures(validation: "Validation") -> dict[str, bytes]:
    """Name of the file -> PNG."""
    from carsim.report.figures.boards import boards_numbers, draw_boards
    from carsim.report.figures.dram import dram_numbers, draw_dram
    from carsim.report.figures.fidelity import draw_fidelity, fidelity_numbers
    from carsim.report.figures.paper import draw_paper, paper_numbers
    from carsim.report.figures.style import style

    figures = {
        "boards.png": draw_boards(boards_numbers(validation.boards)),
        "dram.png": draw_dram(dram_numbers(validation.dram)),
        "paper.png": draw_paper(paper_numbers(validation.paper)),
        "fidelity.png": draw_fidelity(fidelity_numbers(validation.fidelity)),
    }
    pictures = {}
    with style():
        for name, figure in figures.items():
            png = io.BytesIO()
            figure.savefig(png, format="png")
            pictures[name] = png.getvalue()
    return pictures
