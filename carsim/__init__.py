"""carsim: a cycle-approximate simulator of FastCar accelerators for auto-regressive video."""
