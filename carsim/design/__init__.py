"""What the user writes: board, machine, model, policy and energy, validated, units in names."""

from carsim.design.design import Design as Design
from carsim.design.load import build_design as build_design
from carsim.design.load import configs_folder as configs_folder
from carsim.design.load import load_design as load_design
from carsim.design.load import override as override
from carsim.design.load import shipped_designs as shipped_designs
