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

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY, LIGHT_GREY = "#7F7F7F", "#D9D9D9"

DPI = 150
CHARACTERS_PER_INCH = 11
"""Width of text in a figure's title, with some room to spare."""

_RC: Any = {
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": LIGHT_GREY,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "pdf.fonttype": 42,  # TrueType: many conferences refuse type 3
    "svg.hashsalt": "carsim",  # equal figures, equal files
    "hatch.linewidth": 0.6,
}


logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no word on where it keeps its files


def style() -> AbstractContextManager[None]:
    """Settings to draw and save within."""
    import matplotlib as mpl

    return mpl.rc_context(_RC)


def new_figure(width_in: float, height_in: float, title: str, *, misfit: bool) -> "Figure":
    """An empty figure with its title, in red if it is of a design that does not fit."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    look: Any = {"fontsize": 10.5, "fontweight": "bold", "color": VERMILION if misfit else BLACK}
    text = textwrap.fill(title, round(width_in * CHARACTERS_PER_INCH))
    figure.suptitle(text, x=0.01, ha="left", **look)
    return figure
