"""Fidelity ``fluid``: the machine of :mod:`carsim.machine.play`, solved with NumPy.

* :mod:`carsim.machine.solve.solver`: the moments of all steps of many phases at once;
* :mod:`carsim.machine.solve.operand`: an operand as tiles that a memory serves;
* :mod:`carsim.machine.solve.instruction_queues`: full instruction queues that delay the dispatcher.
"""
