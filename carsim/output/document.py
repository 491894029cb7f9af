"""Documents of headed sections, as Markdown and as HTML that needs no other file.

A section is a list of paragraphs (plain text), tables and pictures; both forms say the same.
"""

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as people read them.

    Attributes:
        headings: One per column.
        rows: As many cells each as there are headings.
        text_columns: So many columns from the left hold text; the others are aligned as numbers.
        marked: Rows that break something, by index.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1
    marked: frozenset[int] = frozenset()


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


_CSS = """
body { font: 15px/1.5 system-ui, sans-serif; color: #111; max-width: 72rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-size: 0.87rem; margin: 0.8rem 0;
        font-variant-numeric: tabular-nums; }
th, td { padding: 0.15rem 0.7rem 0.15rem 0; text-align: left; vertical-align: top; }
th { border-bottom: 1px solid #888; }
tbody tr:nth-child(even) { background: #f4f4f4; }
.number { text-align: right; white-space: nowrap; }
.marked td { color: #b00; font-weight: bold; }
img { max-width: 100%; height: auto; }
@media print {
  body { font-size: 9pt; max-width: none; margin: 0; padding: 0; }
  h2 { break-after: avoid; }
  tr, img { break-inside: avoid; }
  thead { display: table-header-group; }
}
"""


def as_html(title: str, sections: Sequence[Section], pictures: Mapping[str, bytes]) -> str:
    """The document as HTML of one file.

    Args:
        title: Its heading.
        sections: What it says.
        pictures: Name -> PNG, for every picture of the sections.
    """
    body = [f"<h1>{html.escape(title)}</h1>"]
    for section in sections:
        body.append(f"<h2>{html.escape(section.heading)}</h2>")
        for part in section.parts:
            if isinstance(part, Table):
                body.append(_html_table(part))
            elif isinstance(part, Picture):
                data = base64.b64encode(pictures[part.name]).decode("ascii")
                alt = html.escape(part.alt)
                body.append(f'<p><img src="data:image/png;base64,{data}" alt="{alt}"></p>')
            else:
                body.append(f"<p>{html.escape(part)}</p>")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _html_table(table: Table) -> str:
    def line(cells: Sequence[str], tag: str, row_class: str = "") -> str:
        inside = "".join(
            f"<{tag}>{html.escape(cell)}</{tag}>"
            if column < table.text_columns
            else f'<{tag} class="number">{html.escape(cell)}</{tag}>'
            for column, cell in enumerate(cells)
        )
        return f"<tr{row_class}>{inside}</tr>"

    rows = [
        line(cells, "td", ' class="marked"' if index in table.marked else "")
        for index, cells in enumerate(table.rows)
    ]
    head = line(table.headings, "th")
    return f"<table>\n<thead>{head}</thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody>\n</table>"
