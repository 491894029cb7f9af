"""Tables of documents in the terminal."""

from rich import box
from rich.table import Table

from carsim.report.document import Table as PlainTable


def rich_table(plain: PlainTable) -> Table:
    """The table, columns of numbers to the right, what breaks something in red."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for column, heading in enumerate(plain.headings):
        is_text = column < plain.text_columns
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=not is_text)
    for place, cells in enumerate(plain.rows):
        table.add_row(*cells, style="bold red" if place in plain.marked else None)
    return table
