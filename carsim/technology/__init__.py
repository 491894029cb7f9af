"""What a design costs: logic, memory, joules, and whether it fits its board.

* :mod:`carsim.technology.resources` - DSP, block RAM, UltraRAM and LUT of a design, by component;
* :mod:`carsim.technology.logic` - the DSP and LUT figures behind it, calibrated on published
designs;
* :mod:`carsim.technology.onchip_ram` - block RAMs and UltraRAMs of a buffer by width as well as
bytes;
* :mod:`carsim.technology.capacity` - what each external memory has to hold;
* :mod:`carsim.technology.fit` - all of it against the board;
* :mod:`carsim.technology.energy` - joules of a piece of work, by component, with intervals.
"""
