"""The machine: hardware in SimPy, a solver of the same model, and the phases that a run visits."""
