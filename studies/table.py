"""Tables of numbers as Markdown, for the READMEs of studies."""

from collections.abc import Iterable, Sequence


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> str:
    """A table whose first columns are text, to the left, and the others numbers, to the right.

    >>> print(markdown(["board", "s"], [["a", "1.5"]]))
    | board | s |
    |---|---:|
    | a | 1.5 |
    """
    rule = ["---"] * texts + ["---:"] * (len(header) - texts)
    lines = [f"| {' | '.join(header)} |", f"|{'|'.join(rule)}|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)
