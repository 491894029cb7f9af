"""The scheduler in gates: DRS, TAS and the choice of blocks as hardware, in Amaranth.

``carsim config rtl`` writes the scheduler block (:mod:`carsim.hardware.rtl.block`), which has AXI
interfaces, as a folder for an FPGA project. ``python -m studies.scheduler_gates.gates`` writes
Verilog of the single units, and the table of resources that
:mod:`carsim.hardware.technology.gates` reads. Both need the extra ``rtl``.

A leaf of the package: nothing of the simulator imports this folder. The same schedulers stand in
Python in :mod:`carsim.hardware.schedule`, decisions in :mod:`carsim.decisions.replay` and
:mod:`carsim.decisions.attention`; tests hold the single units to them, cycle by cycle.

All clocked logic has one clock and a synchronous reset, both of Amaranth's domain ``sync``. A cycle
is counted from the one in which ``start`` is high, which is cycle 0, so that "in cycle 12" means
what SimPy calls 12.
"""
