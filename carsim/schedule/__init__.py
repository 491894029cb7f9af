"""Schedules: which core computes the MLP of each sequence that does not replay."""

from carsim.schedule.base import REPLAYS, Registers, Schedule, slots_per_core
from carsim.schedule.drs import Drs
from carsim.schedule.pack import Pack
from carsim.schedule.static import Static

BASELINE = Static()
"""Also what dense decoding and the first frame use: nothing is decided there."""

DEFAULT = Drs()
"""What a design takes that names none."""

SCHEDULES: dict[str, Schedule] = {each.kind: each for each in (BASELINE, DEFAULT, Pack())}
"""Every kind by its name in YAML; add a kind here."""

__all__ = [
    "BASELINE",
    "DEFAULT",
    "REPLAYS",
    "SCHEDULES",
    "Registers",
    "Schedule",
    "slots_per_core",
]
