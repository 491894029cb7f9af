"""Policies that a run compares: the design's own, and those that the registries offer."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from carsim.decisions.attention import PLAIN, AttentionPolicy
from carsim.decisions.replay import FASTCAR
from carsim.design import Design
from carsim.hardware.schedule import BASELINE, SCHEDULES

BOUND_NAME, BOUND_KEY = "bound: whole sequences on these cores", "bound"
"""The bound holds for the design's own mapping; another may be faster."""

BOUND_OF_MAPPING = "bound: this mapping on these cores"
"""Its name where the mapping splits matrices."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The policy of one row of a comparison.

    Attributes:
        attention: Attention policy.
        schedule: Key of ``SCHEDULES``: who computes the sequences that do not replay.
        replays: MLPs are replayed at all.
        is_bound: The row is the bound of such a policy instead of a simulation.
        is_whole: The bound is over assignments of whole sequences, as the mapping splits nothing.
        detail: Fields of the attention, if an earlier row is of the same kinds.
        method: Name of decoding with its decisions: see :attr:`TraceMeta.method`.
    """

    attention: AttentionPolicy
    schedule: str
    replays: bool
    is_bound: bool = False
    is_whole: bool = True
    detail: str = ""
    method: str = FASTCAR.method

    @property
    def key(self) -> str:
        """Stable identity within a run, such as ``replay/drs``."""
        if self.is_bound:
            return BOUND_KEY
        kinds = ["replay"] if self.replays else []
        if not self.replays or self.attention.kind != PLAIN.kind:
            kinds.append(self.attention.kind + (f"({self.detail})" if self.detail else ""))
        return f"{'+'.join(kinds)}/{self.schedule}"

    @property
    def name(self) -> str:
        """Name in tables, composed of the labels of its kinds."""
        if self.is_bound:
            return BOUND_NAME if self.is_whole else BOUND_OF_MAPPING
        schedule = SCHEDULES[self.schedule]
        joined = f" + {schedule.label}" if schedule.central else f", {schedule.label}"
        plain = self.attention.kind == PLAIN.kind
        label = self.attention.label + (f" ({self.detail})" if self.detail else "")
        if not self.replays:
            return (self.attention.kind if plain else label) + joined
        return f"{self.method}{joined}" + ("" if plain else f" + {label}")

    def is_same(self, other: "Variant") -> bool:
        """The two policies are equal, whatever their rows are called."""
        return replace(self, detail=other.detail, method=other.method) == other


BASE = Variant(PLAIN, BASELINE.kind, replays=False)
"""Dense decoding, which speed-ups refer to."""


def variants(design: Design, *, replays: bool = True) -> list[Variant]:
    """The rows of a comparison, the baseline first, the design's own policy among them.

    ``policy.compare`` lists them. Without it: the baseline; the alternative attention; replay under
    every schedule that the registry compares, and with the alternative attention; the own policy.

    Args:
        design: The design.
        replays: Something is decided on; else there are no rows that replay.
    """
    policy, own = design.policy, own_variant(design, replays=replays)
    if policy.compare is not None:
        listed = [Variant(row.attention, row.schedule, row.replay) for row in policy.compare]
        return _once([BASE, *(row for row in listed if replays or not row.replays), own])
    other = policy.attention if policy.attention.kind != PLAIN.kind else policy.sparse_attention
    rows = [BASE, Variant(other, BASELINE.kind, replays=False)]
    if not replays:
        return _once([*rows, own])
    compared = [kind for kind, schedule in SCHEDULES.items() if schedule.compared]
    rows += [Variant(PLAIN, kind, replays=True) for kind in compared]
    rows += [Variant(other, kind, replays=True) for kind in compared if SCHEDULES[kind].central]
    if not SCHEDULES[policy.schedule].compared:
        rows.append(Variant(PLAIN, policy.schedule, replays=True))
    return _once([*rows, own])


def own_variant(design: Design, *, replays: bool = True) -> Variant:
    """The design's own policy; where nothing replays, no schedule has anything to move."""
    schedule = design.policy.schedule if replays else BASELINE.kind
    return Variant(design.policy.attention, schedule, replays=replays)


def _once(rows: Iterable[Variant]) -> list[Variant]:
    """Equal rows once; a later row of the same kinds with other fields is told apart by them."""
    found: list[Variant] = []
    for row in dict.fromkeys(rows):
        taken = any(row.key == before.key for before in found)
        found.append(replace(row, detail=row.attention.short) if taken else row)
    return found
