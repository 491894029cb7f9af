"""What a design costs: logic, memory, joules, and whether it fits its board.

* :mod:`carsim.cost.resources` - DSP, block RAM, UltraRAM and LUT of a design, by component;
* :mod:`carsim.cost.logic` - the DSP and LUT figures behind it, calibrated on published designs;
* :mod:`carsim.cost.onchip_ram` - block RAMs and UltraRAMs of a buffer by width as well as bytes;
* :mod:`carsim.cost.capacity` - what each external memory has to hold;
* :mod:`carsim.cost.fit` - all of it against the board;
* :mod:`carsim.cost.energy` - joules of a piece of work, by component, with intervals.
"""
