"""Points of the studio have the numbers of ``carsim run``, and its fields set what they say."""

from dataclasses import replace
from pathlib import Path

import pytest
from tiny import tiny_design, tiny_trace, write_inputs

from carsim.base.errors import InputError
from carsim.explore.study import value_of
from carsim.report.run_page import tiles
from carsim.runs.pipeline import run
from carsim.studio.fields import FIELDS, WORK
from carsim.studio.point import base_of, point_of
from carsim.studio.reach import Reach
from carsim.studio.state import TabState
from carsim.studio.sweep import swept

ANYWHERE = Reach((Path("/"),))
TEXT = TabState("u280", {"model.preset": "llama3_8b"})


def point_at(state):
    return point_of(state, ANYWHERE)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    design, trace = write_inputs(tmp_path_factory.mktemp("toy"))
    return TabState(design, trace=trace)


def test_a_point_has_the_numbers_of_a_run(toy):
    state = toy.with_change("machine.cores", "4")
    report = run(tiny_design("machine.cores=4"), [tiny_trace()])
    found = point_at(state).run
    assert found.own.seconds_per_video == report.chosen.seconds_per_video
    assert [p.policy for p in found.policies] == [row.variant.name for row in report.rows]
    assert found.elasticities == ()


def test_equal_points_are_simulated_once_and_an_edited_design_again(tmp_path):
    design, trace = write_inputs(tmp_path)
    state = TabState(design, trace=trace)
    before = point_at(state)
    assert before is point_at(state.with_option("layer", "1"))
    text = (tmp_path / "toy.yaml").read_text()
    (tmp_path / "toy.yaml").write_text(text.replace("cores: 2", "cores: 1"))
    assert point_at(state).design.machine.cores == 1
    assert before.design.machine.cores == 2


def test_a_misfit_is_simulated_and_says_what_is_full(toy):
    found = point_at(toy.with_change("board.dsp", "1"))
    assert not found.run.fits
    assert found.run.own.seconds_per_video > 0
    assert "DSP" in found.run.misfits[0]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"changes": {"machine.cores": "0"}}, "greater than 0"),
        ({"changes": {"machine.cors": "1"}}, "did you mean 'cores'"),
        ({"workload": "video:replay=0.5"}, "and so does"),
        ({"design": "nowhere"}, "neither a YAML file nor a shipped design"),
    ],
)
def test_what_cannot_be_is_refused_in_the_words_of_the_library(toy, change, match):
    with pytest.raises(InputError, match=match):
        point_at(replace(toy, **change))


@pytest.mark.parametrize("key", FIELDS)
def test_a_field_shows_what_the_design_says_and_setting_that_changes_nothing(toy, key):
    field, found = FIELDS[key], point_at(toy)
    text = field.text(toy, found.design)
    if key not in ("design", "trace"):
        assert field.set(toy, found.design, text) == toy
    if field.path.startswith(WORK):
        assert text == ""  # the trace says it
    if field.is_menu and key not in ("design", "trace"):
        assert text in field.options


@pytest.mark.parametrize(
    ("key", "text", "path", "value"),
    [
        ("cores", "4", "machine.cores", 4),
        ("ports", "2", "board.memories.ps_ddr.ports.count", 2),
        ("mapping", "tensor", "machine.mapping", "tensor"),
        ("attention", "streaming", "policy.attention.kind", "streaming"),
        ("tau", "0.25", "policy.tau", 0.25),
    ],
)
def test_a_field_sets_its_path(toy, key, text, path, value):
    state = FIELDS[key].set(toy, point_at(toy).design, text)
    design = point_at(state).design
    assert value_of(design, path) == value
    assert FIELDS[key].text(state, design) == text
    assert FIELDS[key].set(state, design, FIELDS[key].text(toy, point_at(toy).design)) == toy


@pytest.mark.parametrize(
    ("design", "key", "text", "workload"),
    [
        ("kv260", "frames", "2", "video:2"),
        ("kv260", "replay", "0.5", "video:8,replay=0.5"),
        ("u280", "prompt", "16", "text:16+128"),
        ("u280", "tokens", "4", "text:128+4"),
        ("u280", "context", "2048", "text:2047+1"),
        ("u280", "context", "9:12", "text:8+4"),
    ],
)
def test_fields_of_the_workload_are_those_of_the_command_line(design, key, text, workload):
    state = TEXT if design == "u280" else TabState(design, trace="vilau_8f")
    after = FIELDS[key].set(state, base_of(state), text)
    assert (after.workload, after.trace) == (workload, "")
    shown = FIELDS[key].text(after, base_of(after))
    assert shown in (text, f"{text}:{text}")
    assert FIELDS[key].set(after, base_of(after), shown) == after


def test_a_field_of_a_preset_sets_the_preset():
    state = TabState("zcu102")
    assert base_of(FIELDS["board"].set(state, base_of(state), "zcu104")).board.name == "ZCU104"


def test_a_text_takes_no_trace_along(toy):
    state = TabState("u280", trace="vilau_8f")
    assert FIELDS["model"].set(state, base_of(state), "llama3_8b") == TEXT
    assert FIELDS["design"].set(state, base_of(state), "zcu102").trace == "vilau_8f"
    found = point_at(TEXT.with_option("workload", "text:16+4"))
    own, (expected, stream, *_, (_, energy, _), _) = found.run.own, tiles(found.run)
    assert expected[:2] == (
        "expected speed in all",
        f"{own.text('expected_tokens_per_s')} tokens/s",
    )
    assert stream[:2] == (
        "speed per stream, without runtime overhead",
        f"{own.text('stream_tokens_per_s')} tokens/s",
    )
    assert energy == f"{own.text('energy_per_token_j')} J"


def test_a_sweep_has_the_numbers_of_its_points(toy):
    (panel,) = swept(replace(toy, over="cores", by="schedule", metric="speedup"), ANYWHERE).panels
    assert (panel.x_label, len(panel.series)) == ("cores", 4)
    at = dict(zip(panel["drs"].x, panel["drs"].y, strict=True))
    assert at[2.0] == pytest.approx(point_at(toy).run.own["speedup"], rel=1e-12)
    alone = swept(replace(toy, over="cores"), ANYWHERE)
    assert alone.panels[0].y_label.startswith("time per video [s]")


def test_a_threshold_that_never_replays_is_swept_like_any_other(toy):
    (panel,) = swept(replace(toy, over="tau", metric="speedup"), ANYWHERE).panels
    assert "inf" in panel.categories


def test_a_workload_that_names_a_network_is_the_model_of_the_page():
    state = TabState("kv260", workload="image:depth_anything_v2_small,70x70")
    design = point_at(state).design
    field = FIELDS["model"]
    assert field.text(state, design) == "depth_anything_v2_small"
    assert field.set(state, design, "depth_anything_v2_small") is state
    after = field.set(state, design, "dit_xl2")
    assert (after.workload, after.changes) == ("", {"model.preset": "dit_xl2"})
