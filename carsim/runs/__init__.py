"""A run: one design on its decisions, from the stages of a pipeline to a report."""
