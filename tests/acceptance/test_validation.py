"""``carsim validate``: what holds today."""

import pytest

from carsim.validate import PART_NAMES
from carsim.validate.fidelity import REGIMES, SHORT_PER_REGIME
from carsim.validate.part import Part
from carsim.validate.parts import work_out

MOST_IN_SCOPE = 0.30
"""No board in scope may get worse than this unnoticed."""


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def short(told: list[str]) -> dict[str, Part]:
    return {part.name: part for part in work_out(list(PART_NAMES), True, told.append)}


def test_all_parts_are_within_their_bounds(short: dict[str, Part], told: list[str]) -> None:
    assert not {name for name, part in short.items() if not part.ok}
    assert {line.partition(":")[0] for line in told} == set(PART_NAMES)
    assert len(short["fidelity"].groups[0].rows) == len(REGIMES) * SHORT_PER_REGIME


def test_boards_are_nearer_than_the_null_model_in_every_group(short: dict[str, Part]) -> None:
    assert not short["boards"].failures
    groups = {group.title: group for group in short["boards"].groups}
    inside, outside = groups["tokens/s, in scope"], groups["tokens/s, out of scope"]
    assert inside.ours.worst <= MOST_IN_SCOPE
    # Of the smallest model, most of a step is the cost of its dispatches.
    assert {row.note.split()[0] for row in inside.rows} == {"memory", "port", "dependency"}
    for group in (inside, outside):
        assert group.ours.mean < group.theirs.mean
    assert groups["power in W"].ours.worst <= 0.41
