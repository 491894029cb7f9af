"""The design-space explorer: studies, sweeps with a durable store, search, Pareto fronts."""
