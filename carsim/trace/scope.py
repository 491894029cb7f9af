"""Former home of the decision scope, which is now part of :mod:`carsim.policy`."""

from carsim.policy import Pairs, Scope, decision_units, unanimous

__all__ = ["Pairs", "Scope", "decision_units", "unanimous"]
