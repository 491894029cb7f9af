"""The way in: a page that leads to an address which holds the token.

The browser is opened through a file that its owner alone can read. A token among the arguments of
the browser would be seen by all users of the machine.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

ENTRY = "/open/"
"""Addresses that begin so end in the token."""

HEAD = """<!doctype html><html lang="en"><title>carsim studio</title>
<link rel="icon" href="data:,">
"""
"""Opening of a page, which asks for no icon."""


def leading_to(address: str) -> str:
    """A page that leads to an address at once, and leaves none of its own in the history."""
    to = escape(address)
    refresh = f'<meta http-equiv="refresh" content="0; url={to}">'
    return f'{HEAD}{refresh}<a href="{to}">Open the studio</a></html>'


@contextmanager
def file_leading_to(address: str) -> Iterator[Path]:
    """A page that leads to an address, in a file, which is removed in the end."""
    with tempfile.NamedTemporaryFile(  # its mode is 0600 from the first moment on
        "w", prefix="carsim-studio-", suffix=".html", encoding="utf-8", delete=False
    ) as file:
        file.write(leading_to(address))
    path = Path(file.name)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
