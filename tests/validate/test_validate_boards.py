"""Decoding of published systems: steps by hand, errors, the naive rival, the command line."""

import json
from dataclasses import replace

import pytest
from carsim.machine.memo import PhaseMemo
from click.testing import CliRunner
from strategies import small_design

from carsim.cli.validate import validate
from carsim.design import configs_folder, load_design, override
from carsim.errors import InputError
from carsim.machine.decode import contexts_of, decode, decode_at
from carsim.machine.hardware import Hardware
from carsim.technology.resources import resources
from carsim.validate import boards
from carsim.validate.boards import (
    BoardsReport,
    Published,
    predict,
    published_design,
    published_rows,
    validate_boards,
)


def row(config: str) -> Published:
    return next(published for published in published_rows() if published.config == config)


# ------------------------------------------------------------------------------------------ decode


def test_a_step_moves_each_weight_once_and_each_cached_token_once() -> None:
    design = published_design("li_date25_kv260")
    model = design.model
    weights = model.weights.bytes_of(model.body.weights + model.head.stored_weights(model.body))
    # K and V of 512 tokens are read, those of the current one written; 32 layers of 16-bit outputs
    # go to the replay cache, which a machine without replay would leave out.
    cached = 513 * model.body.n_layers * 2 * 4096
    unused = model.body.n_layers * 4096 * 2
    assert decode(design, 512).bytes_per_step == weights + cached + unused


def test_a_step_bound_by_memory_takes_its_bytes_over_the_sustained_rate() -> None:
    step = decode(published_design("li_date25_kv260"), 512)
    (path,) = step.simulation.plan.hw.paths
    # What is left are latencies, fill and drain, and norms that memory waits for: under 2 %.
    assert 0.98 * path.sustained_gbps < step.bandwidth_gbps < path.sustained_gbps
    assert step.limit_shares == {"memory": 1.0}


def test_a_batch_decodes_as_many_tokens_per_step() -> None:
    one = decode(small_design(batch=1, cores=1), 20)
    two = decode(small_design(batch=2, cores=1), 20)
    assert two.tokens_per_s == pytest.approx(2 / two.seconds_per_step)
    assert one.tokens_per_s < two.tokens_per_s < 2 * one.tokens_per_s


def test_without_the_head_a_step_is_shorter_by_just_the_head() -> None:
    design = small_design(batch=1, cores=1)
    body = decode(override(design, {"machine.include_head": False}), 9)
    whole = decode(design, 9)
    head = whole.simulation.totals["head"].cycles
    assert head > 0
    assert whole.cycles_per_step == body.cycles_per_step + head


def test_a_range_is_the_mean_of_its_steps() -> None:
    design = small_design(batch=1, cores=1)
    steps = [decode(design, context).cycles_per_step for context in (5, 6, 7)]
    assert decode(design, 5, 7).cycles_per_step == pytest.approx(sum(steps) / 3)


def test_a_long_range_is_sampled_where_it_hardly_matters() -> None:
    design = small_design(batch=1, cores=1)
    memo = PhaseMemo(Hardware(design))
    every = decode_at(memo, range(1, 301)).cycles_per_step
    assert len(contexts_of(1, 300)) == 32
    assert decode(design, 1, 300).cycles_per_step == pytest.approx(every, rel=0.005)


def test_joules_per_token_are_power_over_speed() -> None:
    design = published_design("li_date25_kv260")
    predicted = predict(row("li_date25_kv260"))
    joules = predicted.decode.joules_per_token(resources(design))
    assert joules.low_j < joules.value_j < joules.high_j
    assert predicted.power_w.value_j == pytest.approx(
        joules.value_j * predicted.decode.tokens_per_s
    )


@pytest.mark.parametrize("contexts", [(0, None), (9, 8), (-1, 3)])
def test_a_context_that_does_not_exist_is_refused(contexts: tuple[int, int | None]) -> None:
    with pytest.raises(InputError, match=r"^context: got"):
        decode(small_design(batch=1), *contexts)


# -------------------------------------------------------------------------------------- the rivals


def test_the_null_model_of_the_first_system_by_hand() -> None:
    # 0.9 x 19.2e9 / (3.407e9 + 262,144 x 512) = 4.880 token/s.
    assert row("li_date25_kv260").null_tokens_per_s == pytest.approx(4.880, abs=0.001)


def test_errors_are_relative_to_what_was_published() -> None:
    published = row("apex_k7_llama1b")
    predicted = predict(published)
    speed = predicted.decode.tokens_per_s
    half = predict(replace(published, tokens_per_s=2 * speed))
    assert half.error == pytest.approx(-0.5)
    assert half.null_error == pytest.approx(published.null_tokens_per_s / (2 * speed) - 1)
    exact = predict(replace(published, tokens_per_s=speed, power_w=predicted.power_w.value_j))
    assert exact.beats_null
    assert exact.power_error == pytest.approx(0)
    assert exact.power_inside
    above = replace(published, power_w=1.01 * predicted.power_w.high_j)
    assert predict(above).power_inside is False
    assert predicted.power_error is predicted.power_inside is None


def test_the_median_is_that_of_the_rows_in_scope() -> None:
    published = row("apex_k7_llama1b")
    speed = predict(published).decode.tokens_per_s
    by_error = [
        predict(replace(published, tokens_per_s=speed / (1 + error), in_scope=in_scope))
        for error, in_scope in ((0.02, True), (-0.11, True), (0.3, True), (4.0, False))
    ]
    report = BoardsReport(tuple(by_error))
    assert len(report.in_scope) == 3
    assert report.median_error == pytest.approx(0.11)
    assert not report.passes
    assert BoardsReport(tuple(by_error[:1])).passes


# --------------------------------------------------------------------------------------- the files


def test_every_published_design_is_used_and_explains_itself() -> None:
    folder = configs_folder() / "published"
    files = {path.stem for path in folder.glob("*.yaml")}
    assert files == {published.config for published in published_rows()}
    for path in folder.glob("*.yaml"):
        assert path.read_text(encoding="utf-8").startswith("# ")
        assert load_design(str(path)).description


def test_every_row_says_why_it_is_in_scope_or_not_and_where_it_is_from() -> None:
    for published in published_rows():
        assert len(published.scope_reason) > 8
        assert published.source
        assert "board" in published.status


def test_bytes_of_the_designs_are_those_that_were_published() -> None:
    for published in published_rows():
        model = published_design(published.config).model
        stored = model.body.weights + model.head.stored_weights(model.body)
        assert model.weights.bytes_of(stored) == pytest.approx(published.weight_bytes, rel=0.005)


# -------------------------------------------------------------------------------- the command line


def few(*configs: str) -> BoardsReport:
    return validate_boards([row(config) for config in configs])


def test_the_table_names_every_system_and_the_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    report = few("li_date25_kv260", "dfx_u280")
    monkeypatch.setattr(boards, "validate_boards", lambda progress: report)
    result = CliRunner().invoke(validate, ["boards"], standalone_mode=False)
    assert result.return_value is None
    assert "Li et al. DATE25" in result.output
    assert "Out of scope: DFX, 1 FPGA" in result.output
    assert "within the bound of 10.0 %" in result.output
    assert "within the interval for 2 of 2 systems" in result.output
    assert "The null model is nearer in scope for: Li et al. DATE25" in result.output


def test_leaving_the_bound_is_an_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    report = few("t2riscv_qwen_2ports")
    assert not report.passes
    monkeypatch.setattr(boards, "validate_boards", lambda progress: report)
    result = CliRunner().invoke(validate, ["boards", "--json"], standalone_mode=False)
    assert result.return_value == 1
    document = json.loads(result.output)
    assert document["passes"] is False
    (only,) = document["rows"]
    assert only["error"] == report.rows[0].error
    assert only["power_w"]["low"] < only["power_w"]["value"] < only["power_w"]["high"]


def test_one_design_alone() -> None:
    path = str(configs_folder() / "published" / "apex_k7_llama1b.yaml")
    arguments = ["boards", "--design", path, "--context", "45:112", "--published", "4.589"]
    text = CliRunner().invoke(validate, arguments).output
    assert "tokens per second   4.60" in text
    assert "% of the published 4.589" in text
    document = json.loads(CliRunner().invoke(validate, [*arguments, "--json"]).output)
    slower = [*arguments, "--json", "--set", "board.memories.ddr.ports.clock_mhz=99.15"]
    half = json.loads(CliRunner().invoke(validate, slower).output)
    assert half["tokens_per_s"] == pytest.approx(document["tokens_per_s"] / 2, rel=0.01)
    assert document["tokens_per_s"] == predict(row("apex_k7_llama1b")).decode.tokens_per_s
    assert document["error"] == pytest.approx(document["tokens_per_s"] / 4.589 - 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--design", "zcu102"], "--design needs --context"),
        (["--context", "5"], "--context, --published and --set go with --design"),
        (["--set", "machine.cores=2"], "--context, --published and --set go with --design"),
        (["--design", "zcu102", "--context", "many"], "--context: got 'many'; give N"),
        (["--design", "zcu102", "--context", "0"], "context: got 0 to 0; give 1 or more"),
    ],
)
def test_bad_arguments_get_one_clear_line(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(validate, ["boards", *arguments], standalone_mode=False)
    assert message in str(result.exception)
