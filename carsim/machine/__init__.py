"""The machine: hardware in SimPy, a solver of the same model, one policy simulated on it."""
