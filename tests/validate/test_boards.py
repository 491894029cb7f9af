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
    # Steps from 1 to 512 tokens attend to 256.5 of them in the mean: 3.407e9 + 0.067e9 B.
    several = replace(row("li_date25_kv260"), first_context=1, last_context=512)
    assert several.null_tokens_per_s == pytest.approx(0.9 * 19.2 / 3.4742, rel=0.001)


def test_a_dispatch_costs_what_was_counted_on_another_board() -> None:
    # Torch2RISCV's counters on a PYNQ-Z1: cycles that no read of weights hides, those of the vector
    # engine among them, which is twice as wide on the KV260; dispatches; the host on the KV260.
    unhidden, vector, dispatches, host_ms = 4.78e6 + 0.72e6, 3.03e6 + 0.37e6, 910 + 200, 9.9 + 1.5
    each_us = (unhidden - vector / 2) / 100.0 / dispatches + 1e3 * host_ms / dispatches
    assert each_us == pytest.approx(44.5, abs=0.05)
    for model, count in (("qwen", 28 * 34 + 10), ("smollm", 910), ("stories", 200)):
        for ports in ("1port", "2ports"):
            machine = published_design(f"t2riscv_{model}_{ports}").machine
            assert machine.overheads.step_us == pytest.approx(each_us * count, rel=2e-3)


def test_what_no_port_makes_faster_keeps_two_ports_from_twice_the_speed() -> None:
    one, two = (
        predict(published_design(f"t2riscv_smollm_{ports}"), 33, 96).decode.seconds_per_step
        for ports in ("1port", "2ports")
    )
    # 137.1 MB a step at 15.64 and 30.55 bytes per cycle of 10 ns, and 40.5 ms: 1.50 times; 1.63 on
    # the board.
    by_hand = (0.1371 / 1.564 + 0.0405) / (0.1371 / 3.055 + 0.0405)
    assert one / two == pytest.approx(by_hand, rel=0.02)


def test_stages_between_products_are_those_of_the_code() -> None:
    # FlexLLM: transform of 8192 values, 16 at a time, through 13 stages; quantisers read 5 x 2048
    # and 8192 values; 16 layers at 292 MHz.
    transform = 512 + 13 * (512 + 256) + 512
    quantise = 5 * 2048 // 16 + 8192 // 16
    overheads = published_design("flexllm_u280").machine.overheads
    assert overheads.step_us == pytest.approx(16 * (transform + quantise) / 292.0, rel=1e-3)


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
    assert "tokens/s, unseen and in scope" in titles
    inside = {group.title: group.rows for group in validate_boards(rows=[known, unseen]).groups}
    assert [each.what for each in inside["tokens/s, unseen and in scope"]] == [unseen.name]
    assert "1 development, 1 unseen" in validate_boards(rows=[known, unseen]).notes[0]


def test_npus_and_a_gpu_are_overrated_by_the_memory_that_they_do_not_use(part: Part) -> None:
    """All unseen, all out of scope: 20 to 22 % in 8 and 16 bit, 50 to 57 % in 4; so is the null."""
    (unseen,) = (group for group in part.groups if group.title == "tokens/s, unseen")
    assert len(unseen.rows) == 7
    assert not unseen.must_win
    for each in unseen.rows:
        assert 0.15 < each.error < 0.6
        assert each.rival_error is not None
        assert abs(each.error - each.rival_error) < 0.05
        assert each.note.startswith("memory")


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
        design = published_design(published.config)
        model = design.model
        head = model.head.stored_weights(model.body) if design.machine.include_head else 0
        stored = model.body.weights + head
        bytes_per_token = model.weights.bytes_of(stored) / design.policy.batch
        assert bytes_per_token == pytest.approx(published.weight_bytes_per_token, rel=0.005)
