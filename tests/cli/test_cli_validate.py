"""``carsim validate``: options, output, exit status."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from carsim.cli.validate import validate
from carsim.design import configs_folder
from carsim.metrics import Comparison
from carsim.validate import PART_NAMES, parts
from carsim.validate.part import Group, Part

APEX = str(configs_folder() / "published" / "apex_k7_llama1b.yaml")
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
    quick = {name: lambda progress, part=part, **_: part for name, part in made.items()}
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


def test_a_part_within_its_bounds_is_no_failure(found: dict[str, Part]) -> None:
    result = call("array")
    assert result.return_value is None
    assert "1 of 1 groups of comparisons are within their bounds." in result.output


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


def test_one_design_alone() -> None:
    arguments = ["boards", "--design", APEX, "--context", "45:112", "--published", "4.589"]
    text = call(*arguments).output
    assert "tokens per second    4.57" in text
    assert "expected on a board  3." in text
    assert "plus the overheads of the design" in text
    assert "% of the published 4.589" in text
    whole = json.loads(call(*arguments, "--json").output)
    slower = [*arguments, "--json", "--set", "board.memories.ddr.ports.clock_mhz=99.15"]
    half = json.loads(call(*slower).output)
    assert half["tokens_per_s"] == pytest.approx(whole["tokens_per_s"] / 2, rel=0.01)
    assert whole["error"] == pytest.approx(whole["tokens_per_s"] / 4.589 - 1)


def test_a_design_that_does_not_fit_gets_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    wide = ["--set", "model.weights.bits=16", "--set", "policy.batch=2"]
    arguments = ["boards", "--design", "kv260", "--context", "512", *wide]
    validate(arguments, standalone_mode=False)
    out, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert err.startswith("warning: kv260 does not fit KV260: memory ps_ddr: 13.")
    assert " in all, " in out
    assert " for each of 2 streams" in out
    validate([*arguments, "--json"], standalone_mode=False)
    document = json.loads(capsys.readouterr().out)
    assert document["tokens_per_s"] == pytest.approx(2 * document["stream_tokens_per_s"])
    assert len(document["misfits"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["boards", "--design", "zcu102"], "--design needs --context"),
        (["boards", "--context", "5"], "--context, --published and --set go with --design"),
        (["--set", "machine.cores=2"], "--context, --published and --set go with --design"),
        (["boards", "--design", "zcu102", "--context", "many"], "--context: got 'many'; give N"),
        (["boards", "--design", "zcu102", "--context", "0"], "context: got 0 to 0; give 1 or more"),
        (["array", "--design", "zcu102", "--context", "1"], "--design goes with boards"),
        (["--overwrite"], "has nowhere to write"),
        (["--short", "boards"], "--short goes with all parts or fidelity"),
        (["array", "--seed", "1"], "--per-regime and --seed go with fidelity"),
        (["nothing"], "'nothing' is not one of"),
    ],
)
def test_bad_arguments_get_one_clear_line(arguments: list[str], message: str) -> None:
    assert message in str(call(*arguments).exception)
