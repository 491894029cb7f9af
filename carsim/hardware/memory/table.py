"""The registry of families and the table ``standards.csv`` of their rows."""

import csv
from collections.abc import Mapping
from dataclasses import fields
from importlib import resources
from operator import attrgetter

from carsim.base.registry import Registry
from carsim.hardware.memory.base import MemoryStandard
from carsim.hardware.memory.ddr import Ddr3, Ddr4, Ddr5
from carsim.hardware.memory.gddr import Gddr6
from carsim.hardware.memory.hbm import Hbm2, Hbm3
from carsim.hardware.memory.lpddr import Lpddr4, Lpddr5

FAMILIES: Registry[type[MemoryStandard]] = Registry(
    "memory family",
    attrgetter("family"),
    (Ddr3, Ddr4, Ddr5, Lpddr4, Lpddr5, Gddr6, Hbm2, Hbm3),
)
"""Name in the table -> class."""


def _parse(row: Mapping[str, str]) -> MemoryStandard:
    """One line of the table."""
    values: dict[str, object] = {
        field.name: int(row[field.name]) for field in fields(MemoryStandard) if field.type is int
    }
    pairs = (pair.split(":") for pair in row["trfc_ns_by_gbit"].split())
    values["trfc_ns_by_gbit"] = tuple((int(gbit), int(ns)) for gbit, ns in pairs)
    family = FAMILIES[row["family"]]
    return family(name=row["name"], source=row["source"], **values)  # type: ignore[arg-type]


def _load() -> list[MemoryStandard]:
    """The whole table, in its order."""
    text = (
        resources.files("carsim.hardware.memory")
        .joinpath("standards.csv")
        .read_text(encoding="utf-8")
    )
    return [_parse(row) for row in csv.DictReader(text.splitlines())]


STANDARDS: Registry[MemoryStandard] = Registry("DRAM standard", attrgetter("name"), _load())
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
