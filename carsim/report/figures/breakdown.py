"""Time of a batch by category, policy by policy."""

from collections.abc import Sequence
from itertools import cycle
from math import fsum

from carsim.base.text import number
from carsim.report.figures import Shown, style
from carsim.report.figures.plot import Panel, Plot, Series

LOOKS = (
    *((style.BLUE, ""), (style.ORANGE, "/"), (style.SKY, ""), (style.GREEN, "\\")),
    *((style.YELLOW, ""), (style.BLACK, ""), (style.PURPLE, "x")),
    *((style.LIGHT_GREY, ""), (style.VERMILION, ".")),
)
"""Colour and hatch of the categories of a run, in their order."""

LEAST_SHARE = 0.001
"""Share of the longest bar below which a category is left out, if it is so in all bars."""


def breakdown_plot(policies: Sequence[Shown]) -> Plot:
    """A stacked bar per policy."""
    starts = [0.0] * len(policies)
    longest_s = max(fsum(policy.breakdown_s.values()) for _, policy, _ in policies)
    categories = dict.fromkeys(label for _, policy, _ in policies for label in policy.breakdown_s)
    series = []
    for label, (colour, hatch) in zip(categories, cycle(LOOKS), strict=False):
        seconds = [policy.breakdown_s.get(label, 0.0) for _, policy, _ in policies]
        ends = [start + more for start, more in zip(starts, seconds, strict=True)]
        if max(seconds) > LEAST_SHARE * longest_s:
            hover = [
                f"{policy.policy}: {label} {number(part)} s, {part / policy.latency_s:.1%}"
                for (_, policy, _), part in zip(policies, seconds, strict=True)
            ]
            lines = range(len(policies))
            bar = Series(label, ends, lines, "bar", colour, starts, hover=hover, hatch=hatch)
            series.append(bar)
        starts = ends
    names = tuple(name for name, *_ in policies)
    return Plot(
        f"where the time of a batch goes: {policies[0].run.design}",
        (Panel("seconds of a batch", tuple(series), categories=names),),
        alt="Seconds of a batch by what they are spent on",
        size_in=(10, 1.6 + 0.5 * len(policies)),
        shares="y",
        misfit=not all(run.fits for *_, run in policies),
    )
