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

OF_VIDEOS = "seconds per video"
OF_TEXTS = "milliseconds per new token, prompt included"
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
    longest = max(bar.length for bar in bars)
    starts = [0.0] * len(bars)
    series = []
    for category in _categories(bars):
        times = [bar.parts.get(category, 0.0) for bar in bars]
        if max(times) <= LEAST_SHARE * longest:
            continue
        ends = [start + time for start, time in zip(starts, times, strict=True)]
        look = look_of(category)
        stacked = Series(
            category,
            x=ends,
            y=range(len(bars)),
            mark="bar",
            colour=look.colour,
            base=starts,
            hover=[
                f"{bar.policy}: {category} {number(time)}, {time / bar.length:.1%}"
                for bar, time in zip(bars, times, strict=True)
            ],
            hatch=look.hatch,
        )
        series.append(stacked)
        starts = ends  # the next category begins where this one ends
    designs = dict.fromkeys(shown.run.design for shown in policies)
    return Plot(
        f"where the time goes: {', '.join(designs)}",
        (Panel(label, tuple(series), categories=tuple(bar.name for bar in bars)),),
        alt=f"{label.capitalize()}, by what they are spent on",
        size_in=(10, 1.6 + 0.5 * len(bars)),
        shares="y",
        misfit=not all(shown.run.fits for shown in policies),
    )


# -------------------------------------------------------------------- private


def _categories(bars: Sequence[_Bar]) -> list[str]:
    """Categories of the bars: those that have a look first, then the others by name."""
    names: set[str] = set()
    for bar in bars:
        names.update(bar.parts)
    with_look = [category for category in LOOKS if category in names]
    without_look = sorted(name for name in names if name not in LOOKS)
    return with_look + without_look


def _label(policies: Sequence[Shown]) -> str:
    """The axis on which runs of different batches can be compared."""
    kinds = {shown.run.video.kind for shown in policies}
    if len(kinds) > 1:
        return OF_BOTH
    return OF_TEXTS if kinds == {"text"} else OF_VIDEOS


def _bar(shown: Shown, label: str) -> _Bar:
    """The bar of a policy, in the unit of the axis with this label."""
    is_text = label == OF_TEXTS
    factor = _ms_per_token(shown.run) if is_text else 1 / shown.run.videos_per_batch
    parts: dict[str, float] = {}
    for name, batch_s in shown.policy.breakdown_s.items():
        category = category_of(name)
        parts[category] = parts.get(category, 0.0) + factor * batch_s
    return _Bar(name=shown.name, policy=shown.policy.policy, parts=parts)


def _ms_per_token(run: StoredRun) -> float:
    """Milliseconds per new token for each second of a batch."""
    tokens = run.video.frames * run.video.tokens_per_frame * run.videos_per_batch
    return 1e3 / tokens
