"""Energy of a video, or of a text, by part: bars with the interval of each part.

Intervals are those of the energy constants. Parts of one constant err together, so that the ends
of the total are not the sums of the ends of its parts.
"""

from collections.abc import Sequence
from math import fsum

from carsim.base.text import number
from carsim.report.figures import Shown
from carsim.report.figures.plot import Panel, Plot, Series
from carsim.report.figures.policy_looks import looks_of_shown

TOTAL, OTHERS = "total", "others"

LEAST_SHARE = 0.03
"""Share of the largest total below which a part is drawn with the others, if it is so in all."""


def energy_plot(policies: Sequence[Shown]) -> Plot:
    """Bars of joules by part and policy, the largest part first, and their total."""
    totals = [shown.policy["energy_per_video_j"] for shown in policies]
    largest: dict[str, float] = {}
    for shown in policies:
        for name, part in shown.policy.energy_parts_per_video_j.items():
            largest[name] = max(part.value, largest.get(name, 0.0))
    kept = [name for name, joules in largest.items() if joules >= LEAST_SHARE * max(totals)]
    kept.sort(key=lambda name: -largest[name])
    lines = [TOTAL, *kept, OTHERS] if len(kept) < len(largest) else [TOTAL, *kept]
    height = 0.8 / len(policies)
    series = []
    looks = looks_of_shown(policies)
    for place, (shown, look) in enumerate(zip(policies, looks, strict=True)):
        bars = [_bar(shown, line, kept) for line in lines]
        series.append(
            Series(
                shown.name,
                [value for value, _, _ in bars],
                [line + (place - (len(policies) - 1) / 2) * height for line in range(len(lines))],
                "bar",
                look.colour,
                low=[low for _, low, _ in bars],
                high=[high for _, _, high in bars],
                hover=[
                    f"{shown.name}: {line} {number(value)} J ({number(low)} to {number(high)})"
                    for line, (value, low, high) in zip(lines, bars, strict=True)
                ],
                hatch=look.hatch,
                height=0.9 * height,
            )
        )
    kinds = {shown.run.video.kind for shown in policies}
    label = f"joules per {kinds.pop() if len(kinds) == 1 else 'video or text'}"
    panel = Panel(label, tuple(series), categories=tuple(lines))
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


def _bar(shown: Shown, line: str, kept: Sequence[str]) -> tuple[float, float, float]:
    """Joules of a line, and the ends of their interval."""
    policy = shown.policy
    if line == TOTAL:
        ends = policy["energy_per_video_low_j"], policy["energy_per_video_high_j"]
        return policy["energy_per_video_j"], *ends
    parts = policy.energy_parts_per_video_j
    names = [name for name in parts if name not in kept] if line == OTHERS else [line]
    found = [parts[name] for name in names if name in parts]
    return (
        fsum(part.value for part in found),
        fsum(part.low for part in found),
        fsum(part.high for part in found),
    )
