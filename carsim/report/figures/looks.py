"""Fixed looks of the categories of work and waiting, the same in all figures.

A category has one colour and one hatch, whatever else a figure shows: blue is the QKV projection in
a breakdown, in a timeline, on a page and in the studio. Work and transfers are coloured. Waits are
grey, so that a core that waits looks idle. Two categories differ in hatch, or in colour for people
with any colour vision.
"""

from collections.abc import Mapping
from typing import NamedTuple

from carsim.report.figures import style

WAITS_FOR = "waits for "
"""Begins the names of the waits of a timeline; what follows is a memory, a core or a part."""


class Look(NamedTuple):
    """The look of a category.

    Attributes:
        colour: Colour of its bars.
        hatch: Hatch of its bars, as of :class:`~carsim.report.figures.plot.Series`.
    """

    colour: str
    hatch: str = ""

    @property
    def css(self) -> str:
        """The look as a background of CSS.

        >>> Look("#000000").css
        '#000000'
        """
        if not self.hatch:
            return self.colour
        stripes = [
            f"repeating-linear-gradient({angle}, transparent 0 3px, rgba(255,255,255,.6) 3px 4px)"
            for angle in _ANGLES[self.hatch]
        ]
        return ", ".join([*stripes, self.colour])


_ANGLES: Mapping[str, tuple[str, ...]] = {
    "/": ("-45deg",),
    "\\": ("45deg",),
    "x": ("-45deg", "45deg"),
    "+": ("0deg", "90deg"),
    "-": ("0deg",),
    "|": ("90deg",),
}
"""Directions of the stripes of a hatch."""

MEMORY_WAIT = "waiting for a memory"
CORE_WAIT = "waiting for a core"
INSTRUCTION_WAIT = "waiting for instructions"
REPLAY_WAIT = "waiting for a replay"
IDLE = "idle"

LOOKS: Mapping[str, Look] = {
    "QKV projection": Look(style.BLUE),
    "attention": Look(style.ORANGE, "/"),
    "output projection": Look(style.SKY),
    "MLP": Look(style.GREEN, "\\"),
    "replay": Look(style.YELLOW),
    "DRS": Look(style.PURPLE, "x"),
    "head": Look(style.VERMILION, "|"),
    "kernel launch and host": Look(style.BLACK),
    "dispatch": Look(style.PURPLE),
    "exchange": Look(style.VERMILION),
    "weights": Look(style.BLUE, "/"),
    "KV": Look(style.ORANGE, "-"),
    "writes": Look(style.GREEN, "+"),
    MEMORY_WAIT: Look(style.MEMORY_GREY),
    CORE_WAIT: Look(style.MIDDLE_GREY, "\\"),
    INSTRUCTION_WAIT: Look(style.GREY, "|"),
    REPLAY_WAIT: Look(style.GREY, "-"),
    IDLE: Look(style.PALE_GREY),
}
"""Category -> look. The first ones are those of a run's breakdown; the others are of timelines."""

WAITS = (MEMORY_WAIT, CORE_WAIT, INSTRUCTION_WAIT, REPLAY_WAIT, IDLE)
"""Categories in which nothing is done."""

OTHER = Look(style.BLACK, "-")
"""Look of a name that is no category, such as one that a newer carsim has written."""

_ALIASES = {
    "waiting for DDR": MEMORY_WAIT,
    "waits for cores": CORE_WAIT,
    "waits for instructions": INSTRUCTION_WAIT,
    "waits for a replay": REPLAY_WAIT,
}
"""Other names of categories, in a breakdown or on a track."""


def category_of(name: str) -> str:
    """The category of a name in a breakdown or on a track of a timeline.

    >>> category_of("waits for core 3"), category_of("waits for hbm"), category_of("MLP")
    ('waiting for a core', 'waiting for a memory', 'MLP')
    """
    if name in _ALIASES:
        return _ALIASES[name]
    if name.startswith(f"{WAITS_FOR}core "):
        return CORE_WAIT
    return MEMORY_WAIT if name.startswith(WAITS_FOR) else name


def look_of(category: str) -> Look:
    """The look of a category."""
    return LOOKS.get(category, OTHER)
