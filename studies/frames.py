"""Lines of frames as a picture, for the studies that show clips."""

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from carsim.decoder.content import Codebook

Codes = NDArray[np.int64]


def draw_frames(
    lines: list[tuple[str, Codes]], codebook: Codebook, inches: tuple[float, float]
) -> Figure:
    """A line of frames for each clip, its label above.

    Args:
        lines: Label and codes int64[T, 256] of each.
        codebook: Of the codes.
        inches: Width and height of a frame, label and gaps included.
    """
    n_frames = max(len(codes) for _, codes in lines)
    figure = Figure(figsize=(inches[0] * n_frames, inches[1] * len(lines)))
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(lines), n_frames, squeeze=False)
    for line, (label, codes) in zip(axes, lines, strict=True):
        for axis, frame in zip(line, codebook.decode(codes), strict=True):
            axis.imshow(frame, interpolation="nearest")
            axis.set_axis_off()
        line[0].set_title(label, fontsize=7, loc="left", pad=2)
    figure.subplots_adjust(0.01, 0.005, 0.99, 0.985, wspace=0.04, hspace=0.22)
    return figure
