"""External memories: standards by family, what they sustain by access pattern, ports and paths."""

from carsim.hardware.memory.base import MemoryStandard
from carsim.hardware.memory.path import MemoryPath, Path, memory_path
from carsim.hardware.memory.striping import Striping
from carsim.hardware.memory.sustained import (
    ROWS,
    idle_latency_ns,
    loaded_latency_ns,
    saturated_latency_ns,
    sustained,
)
from carsim.hardware.memory.table import STANDARDS, standard
from carsim.hardware.memory.traffic import AccessPattern

__all__ = [
    "ROWS",
    "STANDARDS",
    "AccessPattern",
    "MemoryPath",
    "MemoryStandard",
    "Path",
    "Striping",
    "idle_latency_ns",
    "loaded_latency_ns",
    "memory_path",
    "saturated_latency_ns",
    "standard",
    "sustained",
]
