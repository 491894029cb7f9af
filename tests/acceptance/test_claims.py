"""The ledger of claims: computed again, printed, and complete."""

import importlib.util
import json
from collections import Counter
from importlib.metadata import version
from pathlib import Path

from click.testing import CliRunner

from carsim.cli import COMMANDS
from carsim.cli.validate import validate
from carsim.validate.claims import COLUMNS, VERDICTS, claims
from studies.claims import __main__ as study

ROOT = Path(__file__).parents[2]


def test_tests_of_claims_find_what_the_ledger_says() -> None:
    kept = study.LEDGER.read_text(encoding="utf-8").splitlines()
    assert study.ledger().splitlines() == kept, "python -m studies.claims makes it"


def test_every_claim_has_a_place_a_reason_and_a_verdict() -> None:
    rows = claims()
    verdicts = Counter(row["verdict"] for row in rows)
    assert set(verdicts) == set(VERDICTS)
    assert len(rows) >= 60
    assert verdicts["agrees"] + verdicts["contradicts"] >= 30
    assert all(row[name] for row in rows for name in COLUMNS)
    assert all((row["command"] == "none") == (row["result"] == "not tested") for row in rows)
    assert len({row["claim"] + row["paper"] for row in rows}) == len(rows)
    agree, contradict, undecided, cannot = (verdicts[each] for each in VERDICTS)
    readme = " ".join((ROOT / "studies/claims/README.md").read_text(encoding="utf-8").split())
    assert f"Of {len(rows)} claims of" in readme
    assert f"{agree} agree with" in readme
    assert f"{contradict} are contradicted, {undecided} are undecided" in readme
    assert f"and {cannot} cannot" in readme
    for row in rows:  # what is undecided by an interval says what the test would have found
        is_open = row["verdict"] == "undecided" and "[" in row["result"]
        assert ("detectable" in row["result"]) == is_open, row["claim"]


def test_every_command_exists() -> None:
    for command in {row["command"] for row in claims()} - {"none"}:
        words = command.split()
        if words[0] == "carsim":
            assert words[1] in COMMANDS, command
        else:
            assert words[:2] == ["python", "-m"]
            assert importlib.util.find_spec(words[2]), command


def test_the_command_prints_the_page_of_every_claim() -> None:
    page, printed = (
        CliRunner().invoke(validate, ["claims", *options], standalone_mode=False).output
        for options in ([], ["--json"])
    )
    assert page == (ROOT / "docs/reference/claims.md").read_text(encoding="utf-8")
    for row in claims():
        assert row["claim"].replace("|", "\\|") in page
    assert json.loads(printed)["claims"] == claims()
    assert json.loads(printed)["carsim_version"] == version("carsim")
