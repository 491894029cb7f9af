"""The table of memory standards: ``standards.csv``, a row a speed bin, and ``families.csv``."""

from collections.abc import Mapping
from dataclasses import fields
from operator import attrgetter

from carsim.base.files import packaged_rows
from carsim.base.registry import Registry
from carsim.hardware.memory.base import MemoryStandard

FAMILIES = {row["family"]: row for row in packaged_rows("carsim.hardware.memory", "families.csv")}
"""Name -> what its rows have in common, as texts."""


def _parse(row: Mapping[str, str]) -> MemoryStandard:
    """One line of the table."""
    cells = {**FAMILIES[row["family"]], **row}
    values: dict[str, object] = {
        field.name: int(cells[field.name]) if field.type is int else cells[field.name]
        for field in fields(MemoryStandard)
    }
    pairs = (pair.split(":") for pair in row["trfc_ns_by_gbit"].split())
    values["trfc_ns_by_gbit"] = tuple((int(gbit), int(ns)) for gbit, ns in pairs)
    return MemoryStandard(**values)  # type: ignore[arg-type]


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
