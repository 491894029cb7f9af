"""``carsim validate``: what holds today."""

import json

import pytest
from click.testing import CliRunner, Result

from carsim.cli.validate import validate
from carsim.validate import PART_NAMES
from carsim.validate import parts as parts_module
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


@pytest.fixture
def found(short: dict[str, Part], monkeypatch: pytest.MonkeyPatch) -> dict[str, Part]:
    """The command line finds the parts without working them out once more."""
    monkeypatch.setattr(
        parts_module, "work_out", lambda names, *_, **__: [short[name] for name in names]
    )
    return short


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(validate, arguments, standalone_mode=False)


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
        assert group.theirs is not None
        assert group.ours.mean < group.theirs.mean
    assert groups["power in W"].ours.worst <= 0.41


def test_the_command_prints_a_line_per_group(found: dict[str, Part]) -> None:
    result = invoke()
    groups = [group for part in found.values() for group in part.groups]
    assert all(group.title in result.output for group in groups)
    document = json.loads(invoke("--json").output)
    assert document["passes"] == (result.return_value is None)
    assert [part["part"] for part in document["parts"]] == list(PART_NAMES)
    assert sum(len(part["groups"]) for part in document["parts"]) == len(groups)
