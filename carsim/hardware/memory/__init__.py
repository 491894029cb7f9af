"""External memories: standards by family, what they sustain by access pattern, ports and paths."""

from carsim.hardware.memory.base import MemoryStandard as MemoryStandard
from carsim.hardware.memory.path import MemoryPath as MemoryPath
from carsim.hardware.memory.path import Path as Path
from carsim.hardware.memory.path import memory_path as memory_path
from carsim.hardware.memory.striping import Striping as Striping
from carsim.hardware.memory.sustained import ROWS as ROWS
from carsim.hardware.memory.sustained import idle_latency_ns as idle_latency_ns
from carsim.hardware.memory.sustained import loaded_latency_ns as loaded_latency_ns
from carsim.hardware.memory.sustained import saturated_latency_ns as saturated_latency_ns
from carsim.hardware.memory.sustained import sustained as sustained
from carsim.hardware.memory.table import STANDARDS as STANDARDS
from carsim.hardware.memory.table import standard as standard
from carsim.hardware.memory.traffic import AccessPattern as AccessPattern
