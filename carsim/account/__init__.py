"""What follows from the phases of a run: sums, energy, limits, and proofs of their ranges.

* :mod:`carsim.account.simulation`: one policy simulated on one machine, as sums over its phases;
* :mod:`carsim.account.totals`: exact sums over phases, and bounds of blocks that rows skip;
* :mod:`carsim.account.ranges`: proof that a plan stays within 64 bits, before it is simulated;
* :mod:`carsim.account.row`: every figure of one row of a comparison;
* :mod:`carsim.account.variants`: the policies that a run compares;
* :mod:`carsim.account.limits`, :mod:`~carsim.account.elasticity`: what limits a run, what helps;
* :mod:`carsim.account.booking`: cycles of each core and port, at work or waiting.

How long a phase takes is the business of :mod:`carsim.machine`.
"""
