"""Predictions on the record: their designs are frozen, and the page shows every record."""

import runpy
from hashlib import sha256
from pathlib import Path

import pytest

from carsim.validate.forward_times import sample_flop
from carsim.validate.preset_counts import preset_model

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
    made = list(script["every_prediction"]())
    assert [tuple(each) for each in made] == [tuple(each) for each in script["read_predictions"]()]
    for each in made:
        assert float(each.low) < float(each.seconds) < float(each.high)


def test_every_set_up_without_a_known_result_has_a_prediction_or_a_reason() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "forward_predictions.py"))
    left_out = script["LEFT_OUT"]
    assert all(each.reason for each in left_out)
    assert len(list(script["every_prediction"]())) + sum(each.setups for each in left_out) == 148


def test_operations_of_a_model_without_a_preset_are_those_of_its_shape() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "forward_setups.py"))
    flop = script["open_sora_flop"](frames=15, places=1620)
    # 25.3 TMAC of linear layers, 2.56 of attention and 0.94 of cross-attention; 60 rows.
    assert flop.linear == pytest.approx(2 * 60 * (25.328e12 + 0.941e12), rel=1e-3)
    assert flop.attention == pytest.approx(2 * 60 * 2.563e12, rel=1e-3)
    # The preset, which came later, has the same.
    of_preset = sample_flop(preset_model("open_sora1.2_1.1b", "text_keys=recomputed"))
    assert of_preset.attention == pytest.approx(flop.attention, rel=1e-9)
    assert of_preset.linear == pytest.approx(flop.linear, rel=2e-3)


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
