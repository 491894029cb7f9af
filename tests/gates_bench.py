"""Amaranth's simulator, with a clock."""

from collections.abc import Callable
from typing import Any

from amaranth.sim import Simulator


def simulate(unit: Any, bench: Callable[[Any], Any]) -> None:
    """Run a bench on a unit until the bench ends."""
    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
