"""Observers: what was busy, what waited, and when."""
