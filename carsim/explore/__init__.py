"""The design-space explorer: studies, sweeps with a durable store, search, Pareto fronts.

Certified fronts (``sweep --front-only``) are a leaf of four modules: ``certified`` chooses the
points, ``bounds`` and ``unhindered`` bound all others, ``grid`` holds a study as arrays. Of the
other modules only ``sweep`` imports them.
"""
