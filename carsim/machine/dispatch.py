"""Instruction dispatch: from the decisions of a layer to its MLP instructions at the cores.

Model: the dispatcher (DRS, or each core's own under a static schedule) starts when the last
sequence's TAS is known. What it does before the residual is complete costs nothing; the rest holds
the MLP up. The MLP starts when the last instruction is sent.

Simplification: instructions are sent before execution starts instead of streaming ahead of it.
"""

from collections.abc import Generator

import simpy

from carsim.machine.clock import Clock


def dispatch(
    env: Clock, exposed_cycles: int, dispatched: simpy.Event
) -> Generator[simpy.Event, None, None]:
    """Process: trigger ``dispatched`` once the instructions of the layer are sent.

    Args:
        env: Event loop; now is the end of the attention phase.
        exposed_cycles: What is left of checking, mapping and sending.
        dispatched: Event to trigger.
    """
    if exposed_cycles:
        yield env.timeout(exposed_cycles)
    dispatched.succeed()
