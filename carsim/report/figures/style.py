"""Common style of all figures: colours, type, and the mark of a design that does not fit.

Colours are those of Okabe and Ito, which people with any colour vision can tell apart. Figures are
drawn through matplotlib's object interface on an Agg canvas: no display, no global state.
"""

import logging
import textwrap
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # 0.4 s; imported by what draws files
    from matplotlib.figure import Figure

BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"

GREY = "#7F7F7F"
MIDDLE_GREY = "#A6A6A6"
LIGHT_GREY = "#D9D9D9"

# Greys of waits for a memory and of idling, which are often next to each other.
MEMORY_GREY = "#BFBFBF"
PALE_GREY = "#E8E8E8"

# Further colours, of policies that are not shipped.
VIOLET = "#7733CC"
OLIVE = "#999933"
BROWN = "#994411"
MINT = "#66EEBB"

INTERVAL = "#3F3F3F"
"""Colour of whiskers, which are seen on grey bars, too."""

PALETTE = (
    (BLUE, ""),
    (ORANGE, "/"),
    (SKY, ""),
    (GREEN, "\\"),
    (YELLOW, ""),
    (BLACK, ""),
    (PURPLE, "x"),
    (LIGHT_GREY, ""),
    (VERMILION, "-"),
)
"""Colours and hatches of series that are no categories, such as policies or boards, in order."""

DPI = 150
PAPER_DPI = 300
"""Of figures for print, where they are no vectors."""

CHARACTERS_PER_INCH = 11
"""Width of text in a figure's title, with some room to spare."""

_RC: Any = {
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,  # a number on an axis is the number
    "grid.color": LIGHT_GREY,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "pdf.fonttype": 42,  # TrueType: many conferences refuse type 3
    "svg.hashsalt": "carsim",  # equal figures, equal files
    "hatch.linewidth": 0.6,
}


logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no word on where it keeps its files


_PAPER: Any = {
    **_RC,
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "axes.linewidth": 0.6,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.0,
    "savefig.dpi": PAPER_DPI,
}
"""Type of 7 to 8 points, and thinner lines."""


def style(look: str = "usual") -> AbstractContextManager[None]:
    """Settings to draw and save within: ``usual``, or ``paper`` for print."""
    import matplotlib as mpl

    return mpl.rc_context(_PAPER if look == "paper" else _RC)


def title_width(width_in: float) -> int:
    """Characters in a line of the title of a figure of a width in inches."""
    return round(width_in * CHARACTERS_PER_INCH)


def new_figure(width_in: float, height_in: float, title: str, *, misfit: bool) -> "Figure":
    """An empty figure with its title, in red if it is of a design that does not fit."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(
        textwrap.fill(title, title_width(width_in)),
        x=0.01,
        ha="left",
        fontsize=10.5,
        fontweight="bold",
        color=VERMILION if misfit else BLACK,
    )
    return figure
