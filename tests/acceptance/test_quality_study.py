"""The quality study: every finished cell is kept, and none is decoded twice."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from test_capture import read
from test_quality import measured_recipe

from carsim.decoder.group import Decoded, Group
from carsim.errors import InputError
from studies.quality import run as study

CELLS = (
    study.REFERENCE,
    study.Setting("row", 0, 1.0),
    study.Setting("batch", 0, 1.0),
    study.Setting("row", 16, study.inf),
)


def measure(
    folder: Path, cells: tuple[study.Setting, ...], sampling: Any = "top_k", **changes: Any
) -> pd.DataFrame:
    recipe = read(measured_recipe(folder, n_frames=2, quality=None, **changes))
    return study.measure(recipe, folder, cells, sampling, folder / "q.csv", workers=0)


def test_a_stopped_study_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the third cell, the first two are on disk; going on decodes only the rest."""
    real, decoded = study.decode_group, []

    def counting(group: Group, advance: Any) -> Decoded:
        decoded.append(group)
        if len(decoded) == 7:
            raise KeyboardInterrupt
        return real(group, advance)

    monkeypatch.setattr(study, "decode_group", counting)
    with pytest.raises(KeyboardInterrupt):
        measure(tmp_path, CELLS)
    assert len(pd.read_csv(tmp_path / "q.csv")) == 2
    table = measure(tmp_path, CELLS)
    assert len(decoded) == 7 + 1 + 6, "dense, and in each of two cells two ways and a reading"
    assert len(table) == len(pd.read_csv(tmp_path / "q.csv")) == 4
    measure(tmp_path, CELLS)
    assert len(decoded) == 14, "nothing is left"

    rows = table.set_index(["scope", "window", "tau"])
    reference = rows.loc[("row", 0, study.inf)]
    assert (reference["loss_low"], reference["loss_high"], reference["token_agreement"]) == (
        0,
        0,
        1,
    )
    for column in study.MEASURES.values():
        assert reference[column] == reference[f"dense_{column}"]
    assert reference["replay_eligible"] == 0
    alone, together = rows.loc[("row", 0, 1.0)], rows.loc[("batch", 0, 1.0)]
    assert alone["replay_eligible"] > together["replay_eligible"] > 0
    assert rows.loc[("row", 16, study.inf)]["replay_eligible"] == 0
    assert rows.loc[("row", 16, study.inf)]["token_agreement"] < 1
    assert table["dense_true_psnr_db"].nunique() == 1, "of the same dense clips"
    clips = table[["teacher_forced_nats_c0", "teacher_forced_nats_c1"]]
    assert clips.mean(axis=1).tolist() == pytest.approx(table["teacher_forced_nats"], abs=1e-5)
    difference = table["teacher_forced_nats"] - table["teacher_forced_dense_nats"]
    assert (difference >= table["loss_low"] - 2e-5).all()
    assert (difference <= table["loss_high"] + 2e-5).all()
    assert list(table.columns) == [
        "frames",
        "scope",
        "window",
        "sampling",
        "tau",
        "replay_eligible",
        "teacher_forced_nats",
        "teacher_forced_dense_nats",
        "loss_low",
        "loss_high",
        "clip_nats",
        "dense_clip_nats",
        "true_psnr_db",
        "dense_true_psnr_db",
        "true_ssim",
        "dense_true_ssim",
        "token_agreement",
        "n_clips",
        "teacher_forced_nats_c0",
        "teacher_forced_nats_c1",
    ]
    both = measure(tmp_path, CELLS[:2], "greedy")
    assert len(decoded) == 17, "losses with given tokens are the same under every sampling"
    assert both.groupby("sampling").size().to_dict() == {"top_k": 4, "greedy": 2}
    losses = both[both["tau"] == 1.0].groupby("scope")["teacher_forced_nats"].nunique()
    assert losses["row"] == 1
    with pytest.raises(InputError, match="was measured with other weights, clips or sampling"):
        measure(tmp_path, CELLS, seed=5)


def test_the_grid_has_what_sweeps_need() -> None:
    cells = set(study.SETTINGS)
    assert len(cells) == len(study.SETTINGS)
    assert {cell.scope for cell in cells} == {"row", "pair", "batch"}
    assert {cell.window for cell in cells} == {0, 16, 256}
    for window in (16, 256):
        taus = {cell.tau for cell in cells if cell.window == window}
        assert study.inf in taus
        assert len(taus) == 3
