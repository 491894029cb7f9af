"""``carsim validate``: options, output, exit status."""

import json
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from carsim.base.errors import InputError
from carsim.cli.validate import validate
from carsim.metrics.comparison import Comparison
from carsim.validate import PART_NAMES, parts
from carsim.validate.part import Group, Part

ROWS = (
    Comparison("a system whose name is far too long for one line", 10, 11, 12, None, "s", "s", "n"),
    Comparison("another", 10, 9, 10, 0.05, "s", "s"),
)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(validate, arguments, standalone_mode=False)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Part]:
    """Parts that are worked out at once, all like each other; boards fails."""
    group = Group("some rows", (replace(ROWS[0]),), "a rival")
    made = {name: Part(name, f"title of {name}", (group,), ("a note",)) for name in PART_NAMES}
    made["boards"] = replace(made["boards"], groups=(Group("some rows", ROWS, "a rival"),))
    quick = {name: lambda progress, part=part: part for name, part in made.items()}
    monkeypatch.setattr(parts, "PARTS", quick)
    return made


def test_every_part_has_a_name_and_a_function() -> None:
    assert list(parts.PARTS) == list(PART_NAMES)


def test_a_part_shows_rows_statistics_notes_and_what_fails(found: dict[str, Part]) -> None:
    result = call("boards")
    assert result.return_value == 1
    for text in ("title of boards", "-10.0 %", "a note", "beyond 5.00%"):
        assert text in result.output
    assert "0 of 1 groups of comparisons are within their bounds." in result.output
    assert call("array").return_value is None


def test_all_parts_show_a_line_per_group_and_rows_on_request(found: dict[str, Part]) -> None:
    brief, every = call(), call("--every")
    assert brief.return_value == every.return_value == 1
    for part in found.values():
        assert part.title in brief.output
    assert "another" not in brief.output.partition("OUTSIDE")[0]
    assert "another" in every.output.partition("OUTSIDE")[0]


def test_json_has_all_rows(found: dict[str, Part]) -> None:
    document = json.loads(call("boards", "--json").output)
    assert document["passes"] is False
    (part,) = document["parts"]
    (group,) = part["groups"]
    assert group["carsim"]["worst"] == pytest.approx(0.1)
    assert group["rival"]["mean"] == pytest.approx(0.1)
    assert [row["ok"] for row in group["rows"]] == [True, False]


def test_a_folder_goes_with_replay_alone(found: dict[str, Part], tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="FOLDER goes with replay"):
        CliRunner().invoke(
            validate, ["boards", str(tmp_path)], standalone_mode=False, catch_exceptions=False
        )
    with pytest.raises(InputError, match="is no folder of carsim measure"):
        CliRunner().invoke(
            validate, ["replay", str(tmp_path)], standalone_mode=False, catch_exceptions=False
        )
