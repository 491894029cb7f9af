"""Time of a video, or of a token of a text, by category; a stacked bar per policy or run."""

from collections.abc import Mapping, Sequence
from math import fsum
from typing import NamedTuple

from carsim.base.text import number
from carsim.report.figures import Shown
from carsim.report.figures.looks import LOOKS, category_of, look_of
from carsim.report.figures.plot import Panel, Plot, Series
from carsim.report.stored import StoredRun

LEAST_SHARE = 0.001
"""Share of the longest bar below which a category is left out, if it is so in all bars."""

OF_VIDEOS, OF_TEXTS = "seconds per video", "milliseconds per new token, prompt included"
OF_BOTH = "seconds per video or text"


class _Bar(NamedTuple):
    """A bar before it is drawn.

    Attributes:
        name: Its name.
        policy: The policy that it is of.
        parts: Category -> time in the unit of the axis.
    """

    name: str
    policy: str
    parts: Mapping[str, float]

    @property
    def length(self) -> float:
        """The time of all categories."""
        return fsum(self.parts.values())


def breakdown_plot(policies: Sequence[Shown]) -> Plot:
    """A stacked bar per policy, of the time of one video or token, whatever the batch is."""
    label = _label(policies)
    bars = [_bar(shown, label) for shown in policies]
    names = {name for bar in bars for name in bar.parts}
    order = [*LOOKS, *sorted(names - {*LOOKS})]
    longest = max(bar.length for bar in bars)
    starts = [0.0] * len(bars)
    series = []
    for category in filter(names.__contains__, order):
        times = [bar.parts.get(category, 0.0) for bar in bars]
        if max(times) <= LEAST_SHARE * longest:
            continue
        ends = [start + time for start, time in zip(starts, times, strict=True)]
        look = look_of(category)
        series.append(
            Series(
                category,
                ends,
                range(len(bars)),
                "bar",
                look.colour,
                base=starts,
                hover=[
                    f"{bar.policy}: {category} {number(time)}, {time / bar.length:.1%}"
                    for bar, time in zip(bars, times, strict=True)
                ],
                hatch=look.hatch,
            )
        )
        starts = ends
    designs = dict.fromkeys(run.design for *_, run in policies)
    return Plot(
        f"where the time goes: {', '.join(designs)}",
        (Panel(label, tuple(series), categories=tuple(bar.name for bar in bars)),),
        alt=f"{label.capitalize()}, by what they are spent on",
        size_in=(10, 1.6 + 0.5 * len(bars)),
        shares="y",
        misfit=not all(run.fits for *_, run in policies),
    )


# -------------------------------------------------------------------- private


def _label(policies: Sequence[Shown]) -> str:
    """The axis on which runs of different batches can be compared."""
    kinds = {run.video.kind for *_, run in policies}
    if len(kinds) > 1:
        return OF_BOTH
    return OF_TEXTS if kinds == {"text"} else OF_VIDEOS


def _bar(shown: Shown, label: str) -> _Bar:
    factor = _per_token_ms(shown.run) if label == OF_TEXTS else 1 / shown.run.videos_per_batch
    parts: dict[str, float] = {}
    for name, seconds in shown.policy.breakdown_s.items():
        category = category_of(name)
        parts[category] = parts.get(category, 0.0) + factor * seconds
    return _Bar(name=shown.name, policy=shown.policy.policy, parts=parts)


def _per_token_ms(run: StoredRun) -> float:
    """Milliseconds per new token for each second of a batch."""
    tokens = run.video.frames * run.video.tokens_per_frame * run.videos_per_batch
    return 1e3 / tokens
