"""Tables of numbers: as Markdown for the READMEs of studies, and columns with intervals."""

from collections.abc import Iterable, Sequence

from carsim.base.statistics import Interval


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


def columns(name: str, found: Interval) -> dict[str, float]:
    """A mean and its interval as columns of a table.

    >>> columns("loss", Interval(1.0, 0.5, 2.0))
    {'loss': 1.0, 'loss_low': 0.5, 'loss_high': 2.0}
    """
    return {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
