"""Figures: numbers in, pictures out.

Each figure is a module with a frozen dataclass of plain numbers, a function that takes them from a
report, and a function that draws them; so numbers are tested without drawing.
"""
