"""External memories: standards by family, what they sustain by access pattern, ports and paths."""

from carsim.hardware.memory.base import MAPPINGS, MemoryStandard
from carsim.hardware.memory.path import MemoryPath, Path, memory_path, port_gbps
from carsim.hardware.memory.section import Memory, Ports
from carsim.hardware.memory.striping import Striping
from carsim.hardware.memory.sustained import (
    ROWS,
    Sustained,
    idle_latency_ns,
    loaded_latency_ns,
    saturated_latency_ns,
    sustained,
)
from carsim.hardware.memory.table import FAMILIES, STANDARDS, standard
from carsim.hardware.memory.traffic import AccessPattern

__all__ = [
    "FAMILIES",
    "MAPPINGS",
    "ROWS",
    "STANDARDS",
    "AccessPattern",
    "Memory",
    "MemoryPath",
    "MemoryStandard",
    "Path",
    "Ports",
    "Striping",
    "Sustained",
    "idle_latency_ns",
    "loaded_latency_ns",
    "memory_path",
    "port_gbps",
    "saturated_latency_ns",
    "standard",
    "sustained",
]
