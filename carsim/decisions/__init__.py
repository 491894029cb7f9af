"""Decisions: traces, replay rules and attention policies."""
