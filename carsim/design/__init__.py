"""What the user writes: board, machine, model, policy and energy, validated, units in names."""

from carsim.design.design import Design
from carsim.design.load import (
    build_design,
    configs_folder,
    design_of,
    load_design,
    override,
    shipped_designs,
)

__all__ = [
    "Design",
    "build_design",
    "configs_folder",
    "design_of",
    "load_design",
    "override",
    "shipped_designs",
]
