"""Validation: predictions compared with figures that others published or counted.

A leaf of the package: only ``carsim validate`` and ``carsim reproduce`` import it. ``parts`` lists
what is compared, ``data`` has the figures, each with its source.
"""

PART_NAMES = {
    "boards": "published decoding speeds of boards and chips",
    "array": "cycles that other simulators count for matrix products",
    "dram": "two cycle-accurate simulators of DRAM",
    "paper": "FastCar's published latencies",
    "fidelity": "fluid against tile fidelity, over drawn designs",
    "diffusion": "parameters and operations of diffusion and depth networks",
    "replay": "speed-ups by replay that carsim measure found on a CPU",
}
"""Part, as ``carsim validate`` takes it -> what it compares with; without importing any."""

PAPER_NAMES = {"fastcar": "FastCar (arXiv 2505.14709): latency, speed-up and energy"}
"""Paper, as ``carsim reproduce`` takes it -> what is reproduced; without importing any."""
