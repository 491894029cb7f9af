"""External memories: timings by standard, traffic patterns, and what a memory sustains."""
