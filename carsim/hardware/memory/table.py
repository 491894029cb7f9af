"""The registry of memory standards: speed bins, each with its family.

Speed bins of the package are rows of ``standards.csv``. A plugin registers further ones, of a
family of the package or of its own.
"""

from collections.abc import Iterable, Mapping
from operator import attrgetter

from pydantic import TypeAdapter

from carsim.base.errors import InputError
from carsim.base.files import packaged_rows
from carsim.base.registry import Registry
from carsim.hardware.memory.base import MemoryStandard
from carsim.hardware.memory.family import FOLDER, MemoryFamily, shipped_families


class SpeedBins(Registry[MemoryStandard]):
    """Speed bins by name.

    A family is registered with its speed bins. Bins whose families have one name belong to one
    family: results tell families by their names.
    """

    def __setitem__(self, name: str, row: MemoryStandard) -> None:
        for registered in self.data.values():
            same_name = registered.family.name == row.family.name
            if same_name and registered.family != row.family and registered.name != name:
                problem = (
                    f"its family {row.family.name} is another one than that of {registered.name}"
                )
                cure = "give it that family, or name the family otherwise"
                raise InputError(f"{self.role} {name}", problem, cure)
        super().__setitem__(name, row)

    @property
    def families(self) -> Mapping[str, MemoryFamily]:
        """Families of all speed bins, by name."""
        return {row.family.name: row.family for row in self.data.values()}


def _shipped() -> Iterable[MemoryStandard]:
    """The rows of ``standards.csv``."""
    families = shipped_families()
    speed_bin = TypeAdapter(MemoryStandard)
    for row in packaged_rows(FOLDER, "standards.csv"):
        refreshes = [pair.split(":") for pair in row["trfc_ns_by_gbit"].split()]
        family = families[row["family"]]
        values = {**row, "family": family, "trfc_ns_by_gbit": refreshes}
        yield speed_bin.validate_python(values)


STANDARDS = SpeedBins("DRAM standard", attrgetter("name"), _shipped())
"""Name -> speed bin."""


def standard(name: str, density_gbit: int | None = None) -> MemoryStandard:
    """The speed bin of a name, at its usual density or at another one.

    Raises:
        InputError: If there is no such speed bin, or no such density.

    >>> standard("DDR4-2400").trfc_ns, standard("DDR4-2400", density_gbit=4).trfc_ns
    (350, 260)
    >>> standard("DDR4-2400").family.name
    'DDR4'
    """
    row = STANDARDS.find(name, "DRAM standard")
    return row if density_gbit is None else row.with_density(density_gbit)
