"""Rung ``tile``: the machine as SimPy processes and resources, tile by tile."""

from carsim.machine.parts.phase import simulate

__all__ = ["simulate"]
