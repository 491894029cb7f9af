"""Predictions held against figures that others published or counted; see ``parts``."""

PART_NAMES = {
    "boards": "published decoding speeds of boards and chips",
    "array": "cycles that other simulators count for matrix products",
    "dram": "two cycle-accurate simulators of DRAM",
    "paper": "FastCar's published latencies",
    "fidelity": "fluid against tile fidelity, over drawn designs",
}
"""Part, as ``carsim validate`` takes it -> what it compares with; without importing any."""
