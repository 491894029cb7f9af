"""Documents of headed sections, and their form as Markdown; HTML is in :mod:`carsim.report.html`.

A section is a list of paragraphs (plain text), tables and pictures; both forms say the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as people read them.

    Attributes:
        headings: One per column.
        rows: As many cells each as there are headings.
        text_columns: So many columns from the left hold text; the others are aligned as numbers.
        marked: Rows that break something, by index.
        strong: Rows that matter most, by index.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1
    marked: frozenset[int] = frozenset()
    strong: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG file of the folder, by its name, and what it shows in words."""

    name: str
    alt: str


@dataclass(frozen=True, slots=True)
class Section:
    """What stands under one heading."""

    heading: str
    parts: tuple[str | Table | Picture, ...]


def as_markdown(title: str, sections: Sequence[Section]) -> str:
    """The document as Markdown, with links to the files of its pictures."""
    blocks = [f"# {title}"]
    for section in sections:
        blocks.append(f"## {section.heading}")
        for part in section.parts:
            if isinstance(part, Table):
                blocks.append(_markdown_table(part))
            elif isinstance(part, Picture):
                blocks.append(f"![{part.alt}]({part.name})")
            else:
                blocks.append(part)
    return "\n\n".join(blocks) + "\n"


def _markdown_table(table: Table) -> str:
    rules = ["---" if i < table.text_columns else "---:" for i in range(len(table.headings))]
    lines = [table.headings, rules, *table.rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )
