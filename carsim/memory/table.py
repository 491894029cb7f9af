"""The registry of families and the table ``standards.csv`` of their rows."""

import csv
from collections.abc import Mapping
from dataclasses import fields
from importlib import resources
from types import MappingProxyType

from carsim.errors import InputError
from carsim.memory.base import MemoryStandard
from carsim.memory.ddr import Ddr3, Ddr4, Ddr5
from carsim.memory.gddr import Gddr6
from carsim.memory.hbm import Hbm2, Hbm3
from carsim.memory.lpddr import Lpddr4, Lpddr5
from carsim.text import choose

FAMILIES: Mapping[str, type[MemoryStandard]] = {
    kind.family: kind for kind in (Ddr3, Ddr4, Ddr5, Lpddr4, Lpddr5, Gddr6, Hbm2, Hbm3)
}
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


def _load() -> Mapping[str, MemoryStandard]:
    """The whole table, in its order."""
    text = resources.files("carsim.memory").joinpath("standards.csv").read_text(encoding="utf-8")
    rows = map(_parse, csv.DictReader(text.splitlines()))
    return MappingProxyType({row.name: row for row in rows})


STANDARDS: Mapping[str, MemoryStandard] = _load()
"""Name -> row."""


def standard(name: str, density_gbit: int | None = None) -> MemoryStandard:
    """The row of that name, at its usual density or at another one.

    Raises:
        InputError: If there is no such row, or no such density.

    >>> standard("DDR4-2400").trfc_ns, standard("DDR4-2400", density_gbit=4).trfc_ns
    (350, 260)
    """
    if name not in STANDARDS:
        raise InputError(
            "DRAM standard",
            f"unknown name {name!r}",
            choose(name, STANDARDS),
        )
    row = STANDARDS[name]
    return row if density_gbit is None else row.with_density(density_gbit)
