"""Energy of a video, or of a text, by part: bars with the interval of each part.

Intervals are those of the energy constants. Parts of one constant err together, so that the ends
of the total are not the sums of the ends of its parts.
"""

from collections.abc import Mapping, Sequence
from math import fsum
from typing import NamedTuple

from carsim.base.text import number
from carsim.report.figures import Shown
from carsim.report.figures.plot import Panel, Plot, Series
from carsim.report.figures.policy_looks import looks_of_shown

TOTAL = "total"
"""The line of all parts together."""
OTHERS = "others"
"""The line of the parts that are too small for a line of their own."""

LEAST_SHARE = 0.03
"""Share of the largest total below which a part is drawn with the others, if it is so in all."""

GROUP_HEIGHT = 0.8
"""Height of the bars of all policies in a line; lines are 1 apart."""


class _Joules(NamedTuple):
    """Joules of a video, or of a text.

    Attributes:
        joules: With the energy constants as they are.
        low: With all of them at the lower end of their range.
        high: With all of them at the upper end.
    """

    joules: float
    low: float
    high: float


def energy_plot(policies: Sequence[Shown]) -> Plot:
    """Bars of joules by part and policy, the largest part first, and their total."""
    largest_j = _largest_parts_j(policies)
    shown_parts = _shown_parts(policies, largest_j)
    lines = [TOTAL, *shown_parts]
    if len(shown_parts) < len(largest_j):
        lines.append(OTHERS)
    spacing = GROUP_HEIGHT / len(policies)
    series = []
    looks = looks_of_shown(policies)
    for number_of_policy, (shown, look) in enumerate(zip(policies, looks, strict=True)):
        energies = [_energy_of_line(shown, line, shown_parts) for line in lines]
        offset = (number_of_policy - (len(policies) - 1) / 2) * spacing
        bars = Series(
            shown.name,
            x=[energy.joules for energy in energies],
            y=[line + offset for line in range(len(lines))],
            mark="bar",
            colour=look.colour,
            low=[energy.low for energy in energies],
            high=[energy.high for energy in energies],
            hover=[
                f"{shown.name}: {line} {_text(energy)}"
                for line, energy in zip(lines, energies, strict=True)
            ],
            hatch=look.hatch,
            height=0.9 * spacing,
        )
        series.append(bars)
    panel = Panel(f"joules per {_unit(policies)}", tuple(series), categories=tuple(lines))
    designs = dict.fromkeys(shown.run.design for shown in policies)
    return Plot(
        f"where the energy goes: {', '.join(designs)}",
        (panel,),
        alt="Joules by part, with the interval of the energy constants",
        caption="Whiskers: all energy constants at one end of their range.",
        size_in=(10, 1.3 + len(lines) * (0.1 + 0.06 * len(policies))),
        shares="y",
        misfit=not all(shown.run.fits for shown in policies),
    )


def _largest_parts_j(policies: Sequence[Shown]) -> dict[str, float]:
    """Part -> joules under the policy that spends most on it."""
    largest_j: dict[str, float] = {}
    for shown in policies:
        for name, part in shown.policy.energy_parts_per_video_j.items():
            largest_j[name] = max(part.value, largest_j.get(name, 0.0))
    return largest_j


def _shown_parts(policies: Sequence[Shown], largest_j: Mapping[str, float]) -> list[str]:
    """Parts that have a line of their own, the largest first."""
    largest_total_j = max(shown.policy["energy_per_video_j"] for shown in policies)
    least_j = LEAST_SHARE * largest_total_j
    parts = [name for name, joules in largest_j.items() if joules >= least_j]
    parts.sort(key=lambda name: -largest_j[name])
    return parts


def _unit(policies: Sequence[Shown]) -> str:
    """A video or a text, as decoded by all the policies."""
    kinds = {shown.run.video.kind for shown in policies}
    return kinds.pop() if len(kinds) == 1 else "video or text"


def _text(energy: _Joules) -> str:
    """Joules with their interval, in words."""
    return f"{number(energy.joules)} J ({number(energy.low)} to {number(energy.high)})"


def _energy_of_line(shown: Shown, line: str, shown_parts: Sequence[str]) -> _Joules:
    """Joules of a line of the figure, with their interval.

    Args:
        shown: A policy.
        line: A part, :data:`TOTAL` or :data:`OTHERS`.
        shown_parts: Parts that have a line of their own.
    """
    policy = shown.policy
    if line == TOTAL:
        return _Joules(
            policy["energy_per_video_j"],
            low=policy["energy_per_video_low_j"],
            high=policy["energy_per_video_high_j"],
        )
    parts = []
    for name, part in policy.energy_parts_per_video_j.items():
        is_of_line = name not in shown_parts if line == OTHERS else name == line
        if is_of_line:
            parts.append(part)
    return _Joules(
        fsum(part.value for part in parts),
        low=fsum(part.low for part in parts),
        high=fsum(part.high for part in parts),
    )
