"""Tables of numbers: as Markdown for the READMEs of studies, and columns with intervals."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from carsim.base.statistics import bootstrap_mean


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


def percent(share: float, digits: int = 0) -> str:
    """A share in percent.

    >>> percent(0.25)
    '25 %'
    """
    return f"{100 * share:.{digits}f} %"


def columns(name: str, values: ArrayLike, level: float = 0.95) -> dict[str, float]:
    """The mean of some values and its interval (bootstrap) as columns of a table.

    >>> columns("loss", [1.0, 1.0, 1.0])
    {'loss': 1.0, 'loss_low': 1.0, 'loss_high': 1.0}
    """
    found = bootstrap_mean(np.asarray(values), level=level)
    return {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
