"""Rung ``tile``: the machine as SimPy processes and resources, every tile requested and computed."""

from carsim.machine.parts.phase import simulate

__all__ = ["simulate"]
