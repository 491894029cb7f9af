"""Observers: what was busy, what waited, and when. Hardware that nobody observes pays nothing."""

from carsim.observe.chrome import chrome_trace
from carsim.observe.timeline import Sample, Slice, Timeline

__all__ = ["Sample", "Slice", "Timeline", "chrome_trace"]
