"""What the user writes: board, machine, model, policy and energy, validated, units in names."""

from carsim.spec.board import Board, Memory, Ports
from carsim.spec.design import Design
from carsim.spec.energy import Constant, Energy
from carsim.spec.load import (
    build_design,
    configs_folder,
    design_path,
    load_design,
    override,
    shipped_designs,
)
from carsim.spec.machine import Array, Drs, Machine, Placement, Vector
from carsim.spec.model import Body, DepthTransformer, LinearHead, Model, Precision, WeightPrecision
from carsim.spec.policy import DenseAttention, Policy, StreamingAttention

__all__ = [
    "Array",
    "Board",
    "Body",
    "Constant",
    "DenseAttention",
    "DepthTransformer",
    "Design",
    "Drs",
    "Energy",
    "LinearHead",
    "Machine",
    "Memory",
    "Model",
    "Placement",
    "Policy",
    "Ports",
    "Precision",
    "StreamingAttention",
    "Vector",
    "WeightPrecision",
    "build_design",
    "configs_folder",
    "design_path",
    "load_design",
    "override",
    "shipped_designs",
]
