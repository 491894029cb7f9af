"""The figure of the quality study draws the cells of its table."""

import pandas as pd

from studies.quality import figure


def cell(**changes):
    fields = {
        "scope": "row",
        "window": 0,
        "sampling": "top_k",
        "replay_eligible": 0.5,
        "psnr_db": 20.0,
        "teacher_forced_nats": 2.0,
        "token_agreement_f2": 0.8,
        "token_agreement_f3": 0.6,
    }
    return {**fields, **changes}


def test_every_cell_is_on_its_line():
    table = pd.DataFrame(
        [
            cell(),
            cell(replay_eligible=0.2, psnr_db=30.0),
            cell(replay_eligible=0.0, psnr_db=float("inf")),
            cell(scope="pair", psnr_db=25.0),
            cell(sampling="greedy", psnr_db=27.0, replay_eligible=0.4),
            cell(sampling="greedy", psnr_db=28.0, replay_eligible=0.1),
        ]
    )
    greedy, drawn, loss, drift = figure.draw(table).axes
    assert greedy.lines[0].get_xydata().tolist() == [[0.1, 28.0], [0.4, 27.0]]
    row, pair = (line.get_xydata().tolist() for line in drawn.lines[:2])
    assert row == [[0.0, float("inf")], [0.2, 30.0], [0.5, 20.0]]
    assert pair == [[0.5, 25.0]]
    assert loss.lines[0].get_ydata().tolist() == [2.0, 2.0, 2.0]
    assert [line.get_label() for line in drift.lines] == ["10% replayed", "40% replayed"]
    assert drift.lines[0].get_xydata().tolist() == [[2.0, 0.8], [3.0, 0.6]]
