"""Predictions held against figures that others published or counted; see ``parts``."""
