"""The figure of the quality study draws the cells of its table."""

import pandas as pd
import pytest

from studies.quality import figure


def cell(**changes):
    fields = {
        "scope": "row",
        "window": 0,
        "sampling": "top_k",
        "replay_eligible": 0.5,
        "teacher_forced_nats": 2.0,
        "teacher_forced_dense_nats": 1.5,
        "loss_low": 0.25,
        "loss_high": 1.0,
        "true_psnr_db": 20.0,
    }
    same = {"clip_nats": 3.0, "true_ssim": 0.5, "dense_clip_nats": 2.5, "dense_true_ssim": 0.75}
    return {**fields, **same, "dense_true_psnr_db": 21.0, **changes}


def test_every_cell_is_on_its_line():
    table = pd.DataFrame(
        [
            cell(),
            cell(replay_eligible=0.2, true_psnr_db=30.0),
            cell(scope="pair", true_psnr_db=25.0),
            cell(sampling="greedy", true_psnr_db=27.0, replay_eligible=0.4),
        ]
    )
    loss, likely, psnr, ssim = figure.draw(table).axes
    row, pair, *_, dense = (line.get_xydata().tolist() for line in psnr.lines)
    assert row == [[0.2, 30.0], [0.5, 20.0]]
    assert pair == [[0.5, 25.0]]
    assert {y for _, y in dense} == {21.0}
    assert likely.lines[0].get_ydata().tolist() == [3.0, 3.0]
    assert ssim.lines[0].get_ydata().tolist() == [0.5, 0.5]
    bars = loss.containers[0]
    assert bars.lines[0].get_ydata().tolist() == [0.5, 0.5]
    assert bars.lines[2][0].get_segments()[0][:, 1].tolist() == pytest.approx([0.25, 1.0])
