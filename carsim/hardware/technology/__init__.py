"""What a design costs: logic or area, memory, joules, and whether it fits its board.

* :mod:`carsim.hardware.technology.base` - the contract of a technology;
* :mod:`carsim.hardware.technology.fpga` - DSP slices, RAM blocks and LUTs, calibrated on published
  designs;
* :mod:`carsim.hardware.technology.versal` - the same with DSP58 slices and AI Engines;
* :mod:`carsim.hardware.technology.asic` - square millimetres, leakage and clock of 28, 16 and 7 nm
  chips;
* :mod:`carsim.cost.capacity` - what each external memory has to hold;
* :mod:`carsim.cost.fit` - all of it against the board;
* :mod:`carsim.cost.energy` - joules of a piece of work, by component, with intervals;
* :mod:`carsim.cost.interval` - which of two designs is better, given what is uncertain.
"""

from typing import TYPE_CHECKING

from carsim.base.constant import Constant as Constant
from carsim.base.registry import Registry, any_kind, field_name
from carsim.hardware.technology.asic import Asic
from carsim.hardware.technology.base import IdlePower as IdlePower
from carsim.hardware.technology.base import Resource as Resource
from carsim.hardware.technology.base import Resources as Resources
from carsim.hardware.technology.base import Technology as Technology
from carsim.hardware.technology.fpga import Fpga
from carsim.hardware.technology.technology_answers import CHECKS
from carsim.hardware.technology.versal import Versal

TECHNOLOGIES: Registry[type[Technology]] = Registry(
    "technology", field_name, (Fpga, Versal, Asic), CHECKS
)
"""Name in YAML -> kind. A new kind is one file and one line here."""

DefaultTechnology = Fpga
"""Technology of a board that does not name one."""

if TYPE_CHECKING:
    TechnologySection = Technology
else:
    TechnologySection = any_kind(Technology, TECHNOLOGIES)
