"""Figures: numbers in, pictures out."""
