"""How many different phases a run took, for the line that says what repetition saved."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from carsim.decisions.attention import AttentionPolicy
from carsim.machine.cases import AttendCases


class Taken:
    """Phases that were taken through a rung.

    Those of attention are counted by what they do: policies without work of their own differ in
    what they read.
    """

    def __init__(self) -> None:
        self._others = 0
        self._attended: dict[Hashable, list[AttendCases]] = {}  # by all else that they depend on

    def add(self, kind: str, given: tuple[Any, ...], n: int) -> None:
        """Count n phases of a kind, with what its builder was given."""
        if kind != "attention":
            self._others += n
            return
        rule, cases, policy, aligned_outside, frame_steps = given
        plain = type(policy).side_work is AttentionPolicy.side_work and not frame_steps
        works = None if plain and not policy.records else policy
        self._attended.setdefault((rule, works, aligned_outside, frame_steps), []).append(cases)

    @property
    def count(self) -> int:
        """Different phases so far."""
        found = self._others
        for cases in self._attended.values():
            every = AttendCases(*map(np.concatenate, zip(*cases, strict=True)))
            found += len(every.distinct()[0].attended)
        return found
