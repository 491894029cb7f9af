"""Efficiency of a DRAM: carsim's, two cycle-accurate simulators', and the naive rival's."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from carsim.report.figures import style

if TYPE_CHECKING:
    from carsim.validate.dram import DramCheck, DramReport

MARKERS = ("s", "D", "^", "v")
COLUMNS = 3


@dataclass(frozen=True)
class DramPanel:
    """Efficiencies of situations that differ in one thing. K of them.

    Attributes:
        title: What they have in common.
        over: What they differ in.
        ticks: K values of it, as shown.
        carsim: K efficiencies.
        references: Simulator -> K efficiencies, None where it has none.
    """

    title: str
    over: str
    ticks: tuple[str, ...]
    carsim: tuple[float, ...]
    references: dict[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class DramNumbers:
    """Panels, and the efficiency that the naive rival takes for granted."""

    title: str
    panels: tuple[DramPanel, ...]
    null: float


def dram_numbers(report: "DramReport") -> DramNumbers:
    """The numbers of the figure: every efficiency of the report in one panel."""
    from carsim.validate.dram import NULL_EFFICIENCY, STANDARD

    panels: dict[_Key, list[tuple[int, str, DramCheck]]] = {}
    for kind in report.kinds:
        for check in kind.checks:
            if kind.name.startswith("efficiency"):
                key, place, tick = _place(check)
                panels.setdefault(key, []).append((place, tick, check))
    return DramNumbers(
        f"share of the peak bandwidth that one channel of {STANDARD} sustains",
        tuple(
            _panel(title, over, sorted(found, key=lambda each: each[:2]))
            for (_, title, over), found in sorted(panels.items(), key=lambda item: item[0])
        ),
        NULL_EFFICIENCY,
    )


_Key = tuple[int, str, str]
"""Rank, title and horizontal axis of a panel."""


def _place(check: "DramCheck") -> tuple[_Key, int, str]:
    """Panel, order within it, and tick of a situation."""
    asked = check.situation
    chunk, pattern = _bytes(asked.chunk_bytes), asked.access.pattern
    if asked.read_fraction < 1:
        reads = round(100 * asked.read_fraction)
        order = 100 * (pattern == "random") + reads
        return (100, "reads and writes", "share of reads"), order, f"{pattern},\n{reads}%"
    if "@w" in asked.name or asked.pattern == "seq":
        is_random = pattern == "random"
        of = f"random chunks of {chunk}" if is_random else pattern
        key = (200 + is_random * asked.chunk_bytes, f"few requests, {of}", "requests in flight")
        return key, asked.window, str(asked.window)
    title = f"{asked.streams} streams" if asked.streams > 1 else "random"
    return (asked.streams, title, "bytes of a chunk"), asked.chunk_bytes, chunk


def _panel(title: str, over: str, found: "list[tuple[int, str, DramCheck]]") -> DramPanel:
    checks = [check for _, _, check in found]
    simulators = sorted({name for check in checks for name in check.references})
    return DramPanel(
        title,
        over,
        tuple(tick for _, tick, _ in found),
        tuple(check.value for check in checks),
        {name: tuple(check.references.get(name) for check in checks) for name in simulators},
    )


def _bytes(count: int) -> str:
    return f"{count // 1024}K" if count >= 1024 else str(count)


def draw_dram(numbers: DramNumbers) -> Figure:
    """A panel per group of situations, on one scale."""
    with style.style():
        rows = -(-len(numbers.panels) // COLUMNS)
        figure = style.new_figure(10, 0.9 + 2.2 * rows, numbers.title, misfit=False)
        grid = list(figure.subplots(rows, COLUMNS, sharey=True, squeeze=False).flat)
        for axes, panel in zip(grid, numbers.panels, strict=False):
            _draw_panel(axes, panel, numbers.null)
        for axes in grid[len(numbers.panels) :]:
            axes.set_visible(False)
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _draw_panel(axes: Axes, panel: DramPanel, null: float) -> None:
    places = range(len(panel.ticks))
    axes.axhline(
        null, color=style.GREY, linestyle="--", linewidth=0.9, label=f"null model: {null:g}"
    )
    for (name, values), marker, colour in zip(
        panel.references.items(), MARKERS, (style.ORANGE, style.GREEN), strict=False
    ):
        known = [(place, value) for place, value in enumerate(values) if value is not None]
        axes.plot(
            [place for place, _ in known],
            [value for _, value in known],
            marker,
            color=colour,
            markerfacecolor="none",
            markersize=7,
            label=name,
        )
    axes.plot(places, panel.carsim, "o", color=style.BLUE, markersize=3.5, label="carsim")
    axes.set_xticks(list(places), panel.ticks)
    axes.set_xlim(-0.5, len(panel.ticks) - 0.5)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.set_title(panel.title)
    axes.set_xlabel(panel.over)
    axes.grid(axis="y")
