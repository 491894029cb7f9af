"""External memories: standards by family, what they sustain by access pattern, ports and paths."""

from carsim.base.constant import Constant as Constant
from carsim.hardware.memory.base import MemoryStandard as MemoryStandard
from carsim.hardware.memory.family import ChipInterface as ChipInterface
from carsim.hardware.memory.family import MemoryFamily as MemoryFamily
from carsim.hardware.memory.sustained import sustained as sustained
from carsim.hardware.memory.table import STANDARDS as STANDARDS
from carsim.hardware.memory.table import standard as standard
from carsim.hardware.memory.traffic import AccessPattern as AccessPattern
