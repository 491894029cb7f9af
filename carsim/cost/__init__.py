"""Costs of a design: what it takes of its board, what its memories hold, joules."""
