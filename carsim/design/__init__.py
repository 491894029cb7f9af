"""What the user writes: board, machine, model, policy and energy, validated, units in names."""

from carsim.design.design import Design
from carsim.design.load import (
    build_design,
    configs_folder,
    design_of,
    design_path,
    load_design,
    override,
    preset_board,
    shipped_designs,
)
from carsim.design.policy import Policy
from carsim.hardware.board import Board
from carsim.hardware.energy import Constant, Energy
from carsim.hardware.machine import Array, Machine, Placement, Vector
from carsim.hardware.memory.section import Memory, Ports
from carsim.workload.body import Body, Experts
from carsim.workload.model import DepthTransformer, LinearHead, Model
from carsim.workload.precision import Precision, WeightPrecision

__all__ = [
    "Array",
    "Board",
    "Body",
    "Constant",
    "DepthTransformer",
    "Design",
    "Energy",
    "Experts",
    "LinearHead",
    "Machine",
    "Memory",
    "Model",
    "Placement",
    "Policy",
    "Ports",
    "Precision",
    "Vector",
    "WeightPrecision",
    "build_design",
    "configs_folder",
    "design_of",
    "design_path",
    "load_design",
    "override",
    "preset_board",
    "shipped_designs",
]
