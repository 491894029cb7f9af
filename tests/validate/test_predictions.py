"""Predictions on the record: their designs are frozen, and the page shows every record."""

import runpy
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "predictions.py"))


def test_the_page_is_that_of_the_records_and_designs_are_as_they_were_then() -> None:
    records = SCRIPT["read_records"]()
    assert len(records) >= 6
    page = (ROOT / "docs" / "predictions.md").read_text(encoding="utf-8")
    assert page == SCRIPT["page_text"](records)
    assert (ROOT / "docs" / "predictions.csv").read_text(encoding="utf-8") == (
        SCRIPT["records_text"](records)
    )
    for record in records:
        digest = sha256((ROOT / record.design).read_bytes()).hexdigest()
        assert digest.startswith(record.design_digest), record.design
        assert record.low < record.expected < record.high


def test_predictions_of_forwards_follow_from_counts_and_rates() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "forward_predictions.py"))
    made = [script["predict"](setup) for setup in script["SETUPS"]]
    assert [tuple(each) for each in made] == [tuple(each) for each in script["read_predictions"]()]
    for each in made:
        assert float(each.low) < float(each.seconds) < float(each.high)


@pytest.mark.parametrize("system", SCRIPT["SYSTEMS"], ids=lambda system: Path(system.design).stem)
def test_a_prediction_can_be_made_again(system) -> None:
    made = SCRIPT["predict"](system, "2026-11-29")
    same_code = [
        record
        for record in SCRIPT["read_records"]()
        if record.system == system.name and record.code == made.code
    ]
    assert all(record[3:] == made[3:] for record in same_code)
    # Bytes over 0.9 of the peak is a rival of the same work: no factor of two lies between them.
    assert made.rival / 2 < made.simulated < 2 * made.rival
