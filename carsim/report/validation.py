"""Write the report of a validation into one folder."""

import json
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from carsim.base.text import Table
from carsim.explore.code import MANIFEST, manifest
from carsim.report.comparisons import comparison_plot, comparison_table, sources
from carsim.report.folder import whole_folder

if TYPE_CHECKING:
    from carsim.validate.part import Group, Part

PARTS = ("boards", "array", "dram", "paper", "fidelity")

VALIDATION_FILES = ("report.html", *(f"{name}.png" for name in PARTS), MANIFEST)
"""Names that :func:`save_validation` writes; a folder that holds others is never replaced."""


def save_validation(
    parts: "Sequence[Part]",
    folder: str | Path,
    command: str = "",
    *,
    overwrite: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Write a report into a folder, which appears whole or not at all.

    Files: ``report.html``, which needs no other, a plot of each part as PNG, and ``manifest.json``
    with hashes and versions of what the report depends on.

    Args:
        parts: Results of the parts.
        folder: The folder to be made.
        command: The command that repeats it.
        overwrite: Replace a folder of an earlier validation.
        progress: Told what is being written.

    Returns:
        Names of the files.

    Raises:
        InputError: The folder cannot be written.
    """
    from carsim.report.figures.draw import image
    from carsim.report.html import page

    title = f"Validation of carsim {version('carsim')}"
    with whole_folder(Path(folder), overwrite=overwrite, ours=VALIDATION_FILES) as into:
        progress("writing plots")
        pictures = {}
        for part in parts:
            groups = {group.title: group.rows for group in part.groups}
            counted = [group.title for group in part.groups if not group.shown]
            pictures[f"{part.name}.png"] = image(comparison_plot(part.title, groups, counted))
        progress("writing report")
        html = page(
            "validation.html",
            title,
            verdict=verdict(parts),
            summary=summary_table(parts),
            failures=[line for part in parts for line in part.failures],
            parts=parts,
            pictures=pictures,
            alt=_alt,
            table=_group_table,
            notes=_notes,
        )
        for name, png in pictures.items():
            (into / name).write_bytes(png)
        (into / "report.html").write_text(html, encoding="utf-8")
        facts = json.dumps(manifest(command, without=()), indent=2) + "\n"
        (into / MANIFEST).write_text(facts, encoding="utf-8")
        return [name for name in VALIDATION_FILES if (into / name).exists()]


def verdict(parts: "Sequence[Part]") -> str:
    """Number of groups within their bounds, and groups in which the rival is as near."""
    groups = [group for part in parts for group in part.groups]
    rivalled = [
        group.title for group in groups if group.theirs and group.theirs.mean <= group.ours.mean
    ]
    text = f"{sum(not group.failures for group in groups)} of {len(groups)} groups of comparisons "
    text += "are within their bounds."
    return text + (f" A rival is as near for: {'; '.join(rivalled)}." if rivalled else "")


def summary_table(parts: "Sequence[Part]") -> Table:
    """A line per group of comparisons: errors of carsim, errors of the rival, verdict."""
    groups = [(part, group) for part in parts for group in part.groups]
    headings = ("part", "comparisons", "rows", "mean", "median", "worst", "bias")
    return Table(
        (*headings, "rival: mean", "rival: worst", "nearer", "verdict"),
        tuple(_summary(part, group) for part, group in groups),
        text_columns=2,
        marked=frozenset(place for place, (_, group) in enumerate(groups) if group.failures),
        title="Relative errors",
    )


def _summary(part: "Part", group: "Group") -> tuple[str, ...]:
    ours, theirs = group.ours, group.theirs
    rival = ("", "", "")
    if theirs:
        rival = _percent(theirs.mean), _percent(theirs.worst), f"{group.wins} of {theirs.count}"
    return (
        part.name,
        group.title,
        f"{ours.count:,}",
        *(_percent(each) for each in (ours.mean, ours.median, ours.worst)),
        f"{100 * ours.bias:+.2f} %",
        *rival,
        "OUTSIDE" if group.failures else "within",
    )


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %" if share else "0 %"


def _group_table(group: "Group") -> Table:
    return comparison_table(group.rows, group.title, group.rival)


def _notes(part: "Part") -> list[str]:
    return [*part.notes, *sources([row for group in part.groups for row in group.rows])]


def _alt(part: "Part") -> str:
    return f"Errors of carsim and its rivals: {part.title}"
