"""Fidelity ``tile``: the machine as SimPy processes, which play every tile.

* :mod:`carsim.machine.play.player`: a phase with its dispatcher, cores and memories;
* :mod:`carsim.machine.play.core`: a compute core with its DMA, double buffers, array and vector
  unit, where stalls arise;
* :mod:`carsim.machine.play.port`: a memory port, for which cores queue.

No other module of the machine imports SimPy.
"""

from carsim.machine.play.player import play_phases

__all__ = ["play_phases"]
