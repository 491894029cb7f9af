"""Published boards: their data, the null model, splits, and what a prediction says."""

from dataclasses import replace

import pytest

from carsim.design import configs_folder, load_design
from carsim.validate.boards import (
    SPLITS,
    Published,
    predict,
    published_design,
    published_rows,
    validate_boards,
)
from carsim.validate.part import Part


def row(config: str) -> Published:
    return next(published for published in published_rows() if published.config == config)


@pytest.fixture(scope="module")
def part() -> Part:
    return validate_boards()


def test_the_null_model_of_the_first_system_by_hand() -> None:
    # 0.9 x 19.2e9 / (3.407e9 + 262,144 x 512) = 4.880 token/s.
    assert row("li_date25_kv260").null_tokens_per_s == pytest.approx(4.880, abs=0.001)


def test_power_is_joules_times_speed() -> None:
    found = predict(published_design("li_date25_kv260"), 512)
    joules = found.joules_per_token
    assert joules.low_j < joules.value_j < joules.high_j
    assert found.watts.value_j == pytest.approx(joules.value_j * found.decode.tokens_per_s)


def test_every_row_is_in_one_scope_and_all_are_counted(part: Part) -> None:
    groups = {group.title: group for group in part.groups}
    every = groups["tokens/s, all rows"]
    inside, outside = groups["tokens/s, in scope"], groups["tokens/s, out of scope"]
    assert every.must_win
    assert inside.must_win
    assert len(every.rows) == len(published_rows()) == len(inside.rows) + len(outside.rows)
    assert {each.what for each in every.rows} == {published.name for published in published_rows()}


def test_rows_of_different_splits_are_counted_apart() -> None:
    known, unseen = row("apex_k7_llama1b"), replace(row("li_date25_kv260"), split="unseen")
    titles = [group.title for group in validate_boards(rows=[known, unseen]).groups]
    assert {"tokens/s, development", "tokens/s, unseen"} <= set(titles)
    assert "1 development, 1 unseen" in validate_boards(rows=[known, unseen]).notes[0]


def test_more_context_and_fewer_ports_slow_down_on_board_and_here(part: Part) -> None:
    speeds = {each.what: each for each in part.groups[0].rows}

    def both(system: str) -> tuple[float, float]:
        (found,) = (each for name, each in speeds.items() if name.startswith(system))
        return found.reference, found.ours

    for slower, faster in (
        ("FlightLLM, KV 512", "FlightLLM, KV 128"),
        ("Torch2RISCV, 1 port: Qwen3", "Torch2RISCV, 2 ports: Qwen3"),
        ("Torch2RISCV, 1 port: SmolLM2", "Torch2RISCV, 2 ports: SmolLM2"),
    ):
        for slow, fast in zip(both(slower), both(faster), strict=True):
            assert slow < fast


def test_published_power_lies_in_every_interval(part: Part) -> None:
    assert any("interval for 7 of 7 rows" in note for note in part.notes)


def test_every_published_design_is_used_fits_and_explains_itself(part: Part) -> None:
    paths = list((configs_folder() / "published").glob("*.yaml"))
    assert {path.stem for path in paths} == {published.config for published in published_rows()}
    for path in paths:
        assert path.read_text(encoding="utf-8").startswith("# ")
        assert load_design(str(path)).description
    assert not [note for note in part.notes if note.startswith("Fit:")]


def test_every_row_says_what_it_can_prove_and_where_it_is_from() -> None:
    for published in published_rows():
        assert published.split in SPLITS
        assert len(published.scope_reason) > 8
        assert published.source
        assert "board" in published.status


def test_bytes_of_the_designs_are_those_that_were_published() -> None:
    for published in published_rows():
        model = published_design(published.config).model
        stored = model.body.weights + model.head.stored_weights(model.body)
        assert model.weights.bytes_of(stored) == pytest.approx(
            published.weight_bytes_per_token, rel=0.005
        )
