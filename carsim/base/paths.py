"""Dotted paths of fields, such as ``machine.array.cols``, compared part by part.

As texts, ``machine.array`` begins ``machine.arrays`` as well; as paths it does not.
"""

from collections.abc import Iterable
from itertools import pairwise


def is_within(path: str, holder: str) -> bool:
    """True if a path is another one, or a field below it.

    >>> is_within("machine.array.cols", "machine.array"), is_within("machine.arrays", "machine.arr")
    (True, False)
    """
    return f"{path}.".startswith(f"{holder}.")


def overlap(path: str, other: str) -> bool:
    """True if setting one of two paths changes what the other one sets.

    >>> overlap("machine", "machine.cores"), overlap("machine.cores", "machine.array")
    (True, False)
    """
    return is_within(path, other) or is_within(other, path)


def overlapping(paths: Iterable[str]) -> tuple[str, str] | None:
    """Two paths of which one lies within the other, the outer one first; None if there are none.

    >>> overlapping(["machine.array.cols", "machine.cores", "machine.array"])
    ('machine.array', 'machine.array.cols')
    """
    # In the order of their parts, everything within a path follows it directly.
    ordered = sorted(paths, key=lambda path: path.split("."))
    for outer, inner in pairwise(ordered):
        if is_within(inner, outer):
            return outer, inner
    return None
