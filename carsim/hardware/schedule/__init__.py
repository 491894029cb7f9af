"""Schedules: which core computes the MLP of each sequence that does not replay."""

from operator import attrgetter

from carsim.base.registry import Registry
from carsim.hardware.schedule.base import REPLAYS, Registers, Schedule, slots_per_core
from carsim.hardware.schedule.drs import Drs
from carsim.hardware.schedule.interleaved_tokens import InterleavedTokens
from carsim.hardware.schedule.pack import Pack
from carsim.hardware.schedule.schedule_answers import CHECKS
from carsim.hardware.schedule.static import Static
from carsim.hardware.schedule.tuned import Tuned

BASELINE = Static()
"""Also what dense decoding and the first frame use: nothing is decided there."""

DEFAULT = Drs()
"""Schedule of a design that names none."""

SCHEDULES: Registry[Schedule] = Registry(
    "schedule",
    attrgetter("kind"),
    (BASELINE, DEFAULT, Pack(), Tuned(), InterleavedTokens()),
    CHECKS,
)
"""Every kind by its name in YAML; a kind of the package is added here."""

__all__ = ["BASELINE", "DEFAULT", "REPLAYS", "SCHEDULES", "Registers", "Schedule", "slots_per_core"]
