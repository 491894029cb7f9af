"""Time of a batch by category, policy by policy."""

from collections.abc import Sequence
from itertools import cycle
from math import fsum
from typing import TYPE_CHECKING

from carsim.base.text import number
from carsim.report.figures import style
from carsim.report.figures.plot import Panel, Plot, Series

if TYPE_CHECKING:
    from carsim.report.stored import StoredRun

LOOKS = (
    (style.BLUE, ""),
    (style.ORANGE, "/"),
    (style.SKY, ""),
    (style.GREEN, "\\"),
    (style.YELLOW, ""),
    (style.BLACK, ""),
    (style.PURPLE, "x"),
    (style.LIGHT_GREY, ""),
    (style.VERMILION, "."),
)
"""Colour and hatch of the categories of a run, in their order."""

LEAST_SHARE = 0.001
"""Share of the longest bar below which a category is left out, if it is so in all bars."""


def breakdown_plot(run: "StoredRun", pinned: "Sequence[tuple[str, StoredRun]]" = ()) -> Plot:
    """A stacked bar per simulated policy.

    Args:
        run: The run.
        pinned: Further runs by their names, of which the own policies are shown.
    """
    policies = [policy for policy in run.policies if not policy.is_bound]
    names = (*(policy.policy for policy in policies), *(name for name, _ in pinned))
    policies += [other.own for _, other in pinned]
    lines, starts = range(len(policies)), [0.0] * len(policies)
    longest_s = max(fsum(policy.breakdown_s.values()) for policy in policies)
    categories = dict.fromkeys(label for policy in policies for label in policy.breakdown_s)
    series = []
    for label, (colour, hatch) in zip(categories, cycle(LOOKS), strict=False):
        seconds = [policy.breakdown_s.get(label, 0.0) for policy in policies]
        ends = [start + more for start, more in zip(starts, seconds, strict=True)]
        if max(seconds) > LEAST_SHARE * longest_s:
            hover = [
                f"{policy.policy}: {label} {number(part)} s, {part / policy.latency_s:.1%}"
                for policy, part in zip(policies, seconds, strict=True)
            ]
            bar = Series(label, ends, lines, "bar", colour, starts, hover=hover, hatch=hatch)
            series.append(bar)
        starts = ends
    panel = Panel("seconds of a batch", tuple(series), categories=names)
    return Plot(
        f"where the time of a batch goes: {run.design}",
        (panel,),
        alt="Seconds of a batch by what they are spent on",
        size_in=(10, 1.6 + 0.5 * len(policies)),
        shares="y",
        strong=next(i for i, policy in enumerate(policies) if policy is run.own),
        misfit=not run.fits,
    )
