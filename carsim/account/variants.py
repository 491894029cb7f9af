"""Policies that a run compares: the design's own, and those that the registries offer."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from carsim.decisions.attention import PLAIN, AttentionPolicy
from carsim.decisions.replay import FASTCAR
from carsim.design import Design
from carsim.hardware.schedule import BASELINE, SCHEDULES

BOUND_NAME = "bound: whole sequences on these cores"
"""Name of the bound, which holds for the design's own mapping; another mapping may be faster."""

BOUND_KEY = "bound"
"""Key of the bound."""

BOUND_OF_MAPPING = "bound: this mapping on these cores"
"""Name of the bound where the mapping splits matrices."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The policy of one row of a comparison.

    Attributes:
        attention: Attention policy.
        schedule: Key of ``SCHEDULES``: who computes the sequences that do not replay.
        replays: MLPs are replayed at all.
        is_bound: The row is the bound of this policy instead of a simulation.
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
        kinds = []
        if self.replays:
            kinds.append("replay")
        if not self.replays or self.attention.kind != PLAIN.kind:
            detail = f"({self.detail})" if self.detail else ""
            kinds.append(self.attention.kind + detail)
        return f"{'+'.join(kinds)}/{self.schedule}"

    @property
    def name(self) -> str:
        """Name in tables, composed of the labels of its kinds."""
        if self.is_bound:
            return BOUND_NAME if self.is_whole else BOUND_OF_MAPPING
        schedule = SCHEDULES[self.schedule]
        of_schedule = f" + {schedule.label}" if schedule.central else f", {schedule.label}"
        is_plain = self.attention.kind == PLAIN.kind
        attention = self.attention.label
        if self.detail:
            attention += f" ({self.detail})"
        if not self.replays:
            return (self.attention.kind if is_plain else attention) + of_schedule
        if is_plain:
            return f"{self.method}{of_schedule}"
        return f"{self.method}{of_schedule} + {attention}"

    def is_same(self, other: "Variant") -> bool:
        """Whether two policies are equal, whatever their rows are called."""
        return replace(self, detail=other.detail, method=other.method) == other


BASE = Variant(PLAIN, BASELINE.kind, replays=False)
"""Dense decoding, which speed-ups refer to."""


def variants(design: Design, *, replays: bool = True, by_token: bool = False) -> list[Variant]:
    """The rows of a comparison, the baseline first, the design's own policy among them.

    ``policy.compare`` lists them. Without it: the baseline; the alternative attention; replay under
    every schedule that the registry compares, and with the alternative attention; the design's own
    policy.

    Args:
        design: The design.
        replays: Something is decided on; else there are no rows that replay.
        by_token: Tokens of forwards decide one by one, so that a schedule has some to deal.
    """
    policy = design.policy
    design_variant = own_variant(design, replays=replays, by_token=by_token)
    if design.model.network is not None:
        compared = [
            kind
            for kind, schedule in SCHEDULES.items()
            if schedule.compared or schedule.interleaves_tokens
        ]
        dealt = [replace(design_variant, schedule=kind) for kind in compared if by_token]
        return _distinct([BASE, *dealt, design_variant])
    if policy.compare is not None:
        listed = [
            Variant(row.attention, row.schedule, replays=row.replay)
            for row in policy.compare
            if replays or not row.replay
        ]
        return _distinct([BASE, *listed, design_variant])
    alternative = policy.attention
    if alternative.kind == PLAIN.kind:
        alternative = policy.sparse_attention
    rows = [BASE, Variant(alternative, BASELINE.kind, replays=False)]
    if not replays:
        return _distinct([*rows, design_variant])
    compared = [kind for kind, schedule in SCHEDULES.items() if schedule.compared]
    central = [kind for kind in compared if SCHEDULES[kind].central]
    rows += [Variant(PLAIN, kind, replays=True) for kind in compared]
    rows += [Variant(alternative, kind, replays=True) for kind in central]
    if not SCHEDULES[policy.schedule].compared:
        rows.append(Variant(PLAIN, policy.schedule, replays=True))
    return _distinct([*rows, design_variant])


def own_variant(design: Design, *, replays: bool = True, by_token: bool = False) -> Variant:
    """The design's own policy; where nothing replays, no schedule has anything to move.

    Args:
        design: The design.
        replays: Something is decided on.
        by_token: Tokens of forwards decide one by one.
    """
    schedule = design.policy.schedule if replays else BASELINE.kind
    if design.model.network is not None and not by_token:  # rows that compute are dealt evenly
        schedule = BASELINE.kind
    return Variant(design.policy.attention, schedule, replays=replays)


def _distinct(rows: Iterable[Variant]) -> list[Variant]:
    """Drop repeated rows; of two rows with one key, the later gets the fields of its attention."""
    distinct: list[Variant] = []
    keys = set()
    for row in dict.fromkeys(rows):
        if row.key in keys:
            row = replace(row, detail=row.attention.short)
        keys.add(row.key)
        distinct.append(row)
    return distinct
