"""The table of memory standards: ``standards.csv``, a row a speed bin, and ``families.csv``."""

from collections.abc import Mapping
from operator import attrgetter

from pydantic import TypeAdapter

from carsim.base.files import packaged_rows
from carsim.base.registry import Registry
from carsim.hardware.memory.base import MemoryStandard

FAMILIES = {row["family"]: row for row in packaged_rows("carsim.hardware.memory", "families.csv")}
"""Name -> what its rows have in common, as texts."""


_READ = TypeAdapter(MemoryStandard)


def _parse(row: Mapping[str, str]) -> MemoryStandard:
    """One line of the table."""
    refreshes = [pair.split(":") for pair in row["trfc_ns_by_gbit"].split()]
    return _READ.validate_python({**FAMILIES[row["family"]], **row, "trfc_ns_by_gbit": refreshes})


STANDARDS: Registry[MemoryStandard] = Registry(
    "DRAM standard",
    attrgetter("name"),
    map(_parse, packaged_rows("carsim.hardware.memory", "standards.csv")),
)
"""Name -> row."""


def standard(name: str, density_gbit: int | None = None) -> MemoryStandard:
    """The row of that name, at its usual density or at another one.

    Raises:
        InputError: If there is no such row, or no such density.

    >>> standard("DDR4-2400").trfc_ns, standard("DDR4-2400", density_gbit=4).trfc_ns
    (350, 260)
    """
    row = STANDARDS.find(name, "DRAM standard")
    return row if density_gbit is None else row.with_density(density_gbit)
