"""Capturing end to end: a recipe gives the same trace again, and says what it does."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_rules
from click.testing import CliRunner
from recipe_maker import CODEBOOK, FAST, GEOMETRY, STILL, TRACES, make_recipe, read
from toy_policies import registered

from carsim.base.errors import InputError
from carsim.base.yaml_file import read_mapping
from carsim.cli import carsim
from carsim.decisions.trace import Trace, captured, load_trace, save_trace, trace_stats
from carsim.decisions.trace.decisions import rethreshold
from carsim.decisions.trace.npz import npz_bytes
from carsim.decoder.calibrate import calibrate
from carsim.decoder.capture import capture, prepare
from carsim.decoder.model import load_model, save_model
from carsim.decoder.recipe import parse_recipe

GREEDY = {"sampling": {"method": "greedy"}, "given_frames": 1}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The tiny recipe, captured once and saved."""
    folder = tmp_path_factory.mktemp("tiny")
    return save_trace(folder / "tiny.npz", capture(read(make_recipe(folder)), folder, workers=1))


def made(folder: Path, **changes: Any) -> Trace:
    """The tiny recipe with changes, captured in this process and saved."""
    trace = capture(read(make_recipe(folder, **changes)), folder, workers=0)
    return save_trace(folder / "made.npz", trace, overwrite=True)


def info(path: Path | None) -> str:
    return CliRunner().invoke(carsim, ["trace", "info", str(path)]).output


def test_a_scene_is_decoded_as_its_codes_are(tmp_path: Path) -> None:
    codes = np.arange(3 * 256, dtype=np.uint16).reshape(3, 256) % 512
    (tmp_path / "scenes.npz").write_bytes(npz_bytes({"walk": codes}))
    clip = {"scene": "walk", "caption": "a walk"}
    recipe = read(make_recipe(tmp_path, clips=[clip], scenes="scenes.npz"))
    (group,) = prepare(recipe, tmp_path)
    assert np.array_equal(group.tokens[:, 0], codes[: recipe.n_frames].ravel())
    assert group.prompts == (b"Generate a video: a walk", b"Generate a video:")
    kept = capture(recipe, tmp_path, workers=1).meta.content["clips"]
    assert kept == [clip | {"kept_tokens": 0.0}]


def test_remaking_gives_the_same_bytes_through_the_command_line(tmp_path: Path, tiny: Trace):
    arguments = ["capture", str(make_recipe(tmp_path)), "--workers", "2"]
    result = CliRunner().invoke(carsim, arguments)
    assert result.exit_code == 0, result.output
    assert "eligible steps (first frame left out)" in result.stdout
    assert (tmp_path / "tiny.npz").read_bytes() == tiny.path.read_bytes()
    assert "exists already" in str(CliRunner().invoke(carsim, arguments).exception)
    elsewhere = ["--out", str(tmp_path / "other.npz")]
    assert CliRunner().invoke(carsim, [*arguments, *elsewhere]).exit_code == 0
    assert (tmp_path / "other.npz").read_bytes() == tiny.path.read_bytes()


def test_a_sweep_of_thresholds_is_one_command(tmp_path: Path, tiny: Trace) -> None:
    recipe = str(make_recipe(tmp_path))
    taus = ["--tau", "1", "--tau", "99", "--tau", "inf"]
    result = CliRunner().invoke(carsim, ["capture", recipe, *taus])
    assert result.exit_code == 0, result.output
    assert result.stdout.count("nothing replays, as scores lie between") == 1
    same, never = (load_trace(tmp_path / f"tiny_tau{tau}.npz") for tau in ("1", "inf"))
    np.testing.assert_array_equal(same.replay, tiny.replay)
    assert same.meta.command == "carsim capture tiny.yaml --tau 1"
    assert not never.replay.any()
    for options, words in (
        (["--tau", "nan"], "expected a number, got nan"),
        (["--tau", "1", "--calibrate", "0.5"], "searches a tau, and takes no --tau"),
        (["--tau", "1", "--tau", "2", "--out", "x.npz"], "--out names one file"),
    ):
        assert words in CliRunner().invoke(carsim, ["capture", recipe, *options]).output


def test_a_captured_trace_is_what_the_recipe_says(tiny: Trace) -> None:
    assert (tiny.n_steps, tiny.n_layers, tiny.n_rows) == (512, 2, 4)
    assert tiny.meta.guidance_pairs == ((0, 1), (2, 3))
    assert tiny.meta.prompt_lengths[1] == tiny.meta.prompt_lengths[3] == 17
    assert not tiny.replay[:256].any()
    assert tiny.meta.quality is None
    assert tiny.meta.weights.startswith("checkpoint tiny.safetensors, sha256 ")
    clips: Any = tiny.meta.content["clips"]
    still, fast = (clip["kept_tokens"] for clip in clips)
    assert still > 0.9 > 0.5 > fast
    rows = trace_stats(tiny).by_row
    assert rows[0].over_eligible > rows[2].over_eligible + 0.1, "still content replays more"


def test_scopes_are_applied_while_decoding(tmp_path: Path) -> None:
    pair = made(tmp_path, decision_scope="pair")
    np.testing.assert_array_equal(pair.replay[..., 0], pair.replay[..., 1])
    assert (pair.replay[..., 0] != pair.replay[..., 2]).any()
    batch = made(tmp_path, decision_scope="batch")
    assert (batch.replay == batch.replay[..., :1]).all()
    assert batch.meta.decision_scope == "batch"


def test_groups_of_rows_are_put_together_in_order(tmp_path: Path, tiny: Trace) -> None:
    """Five clips make two groups; the pair that falls into the second decodes as on its own."""
    recipe = read(make_recipe(tmp_path, clips=[FAST] * 4 + [STILL]))
    seen: list[tuple[int, int]] = []
    trace = capture(recipe, tmp_path, workers=2, progress=lambda *at: seen.append(at))
    assert trace.n_rows == 10
    np.testing.assert_allclose(trace.tas[..., 8:], tiny.tas[..., :2], atol=2e-3)
    assert seen[-1] == (5120, 5120)


def test_sampled_tokens_follow_the_given_ones(tmp_path: Path, tiny: Trace) -> None:
    sampling = {"method": "top_k", "k": 50, "temperature": 2.0, "guidance_scale": 2.0}
    recipe = read(make_recipe(tmp_path, sampling=sampling, given_frames=1))
    trace = capture(recipe, tmp_path, workers=0)
    assert (trace.meta.mode, trace.meta.sampling) == ("sampled", sampling)
    assert trace.meta.content["given_frames"] == 1
    # Token 255 is fed at step 256, and the first one that is sampled at step 257.
    np.testing.assert_array_equal(trace.tas[256].astype(np.float16), tiny.tas[256])
    assert not np.array_equal(trace.tas[257:].astype(np.float16), tiny.tas[257:])
    np.testing.assert_array_equal(trace.tas, capture(recipe, tmp_path, workers=0).tas)
    clips: Any = trace.meta.content["clips"]
    assert clips[0]["kept_tokens"] < 0.2  # random logits draw anything


def test_exempt_layers_are_scored_and_never_replay(tmp_path: Path) -> None:
    trace = made(tmp_path, exempt_layers=[1])
    assert trace.meta.tau == (1.0, np.inf)
    assert trace.meta.tau_text == "tau 1 (layer 1 never replays)"
    assert not trace.replay[:, 1].any()
    assert trace.replay[:, 0].any()
    assert np.isfinite(trace.tas[256:, 1]).all()
    assert load_trace(tmp_path / "made.npz").meta == trace.meta


@pytest.mark.parametrize(
    "changes", [{}, {"exempt_layers": [1]}, {"decision_scope": "batch", "tau": 0.5}]
)
def test_calibration_finds_the_ratio_that_is_asked_for(tmp_path: Path, changes: dict[str, Any]):
    recipe = read(make_recipe(tmp_path, **changes))
    found = calibrate(recipe, tmp_path, 0.3, workers=0)
    applied = capture(recipe.model_copy(update={"tau": found.tau}), tmp_path, workers=0)
    assert applied.replay[256:].mean() == found.ratio == pytest.approx(0.3, abs=0.02)
    assert found.decodings <= 5


def test_calibration_refuses_what_cannot_be_reached(tmp_path: Path) -> None:
    recipe = read(make_recipe(tmp_path, exempt_layers=[1]))
    with pytest.raises(InputError, match=r"0\.6, at most 0\.5 can be reached"):
        calibrate(recipe, tmp_path, 0.6, workers=0)
    with pytest.raises(InputError, match=r"between 0 and 1, got 1\.2"):
        calibrate(recipe, tmp_path, 1.2)
    with pytest.raises(InputError, match="at most 0 can be reached"):
        calibrate(recipe.model_copy(update={"n_frames": 1}), tmp_path, 0.5)


def test_scores_kept_in_steps_change_no_decision(tmp_path: Path, tiny: Trace) -> None:
    coarse = made(tmp_path, tas_step=0.25)
    np.testing.assert_array_equal(coarse.replay, tiny.replay)
    scores, fine = coarse.tas[256:].astype(float), tiny.tas[256:].astype(float)
    on_grid = scores % 0.25 == 0
    assert on_grid.mean() > 0.8
    np.testing.assert_array_equal(scores[~on_grid], fine[~on_grid])
    assert (abs(fine[~on_grid] - 1) < 0.125).all(), "only next to tau is a score kept as it was"
    assert np.abs(scores - fine).max() <= 0.1255
    assert (tmp_path / "made.npz").stat().st_size < 0.7 * tiny.path.stat().st_size


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": "absent"}, "$.seed: is missing; add it"),
        ({"clips": ["a"]}, "$.clips.0: should be a section, got 'a'"),
        ({"colour": "red"}, "$.colour: unknown key 'colour'; known here"),
        ({"n_frames": 2.0}, "$.n_frames: should be a valid integer, got 2.0"),
        ({"clips": []}, "$.clips"),
        *(({"clips": [each]}, "$.clips.0: should be a section, got") for each in (1, [[1]])),
        ({"clips": [{"scene": "teapot", "caption": "a"}]}, "scene 'teapot': is not in"),
        ({"scenes": "absent"}, "no file of scenes is named"),
        ({"tau": [0.1, 0.2, 0.3]}, "3 taus for 2 layers"),
        ({"prompt_tokens": 20}, "prompt_tokens allows 20"),
        ({"output": "../escape.npz"}, "$.output"),
        ({"attention": {"kind": "sliding"}}, "$.attention.kind: no attention policy 'sliding'"),
        ({"decoded": {**GEOMETRY, "head_dim": 5}}, "head_dim 5 is odd"),
        ({"decoded": {**GEOMETRY, "n_kv_heads": 2}}, "geometry and codebook that belong together"),
        ({"codebook": "none.npz"}, "none.npz: cannot be read: No such file or directory"),
        ({"weights": "/no/where.safetensors"}, "$.weights: '/no/where.safetensors' lies outside"),
        ({"weights": "../../x.safetensors"}, "name its folder in `also_from`"),
        ({"codebook": "link"}, "$.codebook: 'link' lies outside of the recipe's folder"),
        ({"exempt_layers": [0, 1]}, "some, not all, of 0 to 1"),
        ({"exempt_layers": [0], "tau": None}, "exempt_layers go with one tau"),
        ({"given_frames": 1}, "sampling and given_frames go together"),
        ({**GREEDY, "given_frames": 2}, "2 given_frames leave none of 2"),
        ({**GREEDY, "sampling": {"method": "greedy", "k": 2}}, "do nothing under greedy"),
        ({"rule": {"kind": "tas", "head": 2}}, "rule: head 2 of 2 heads, give 0 to 1"),
        ({"rule": {"kind": "entropy"}}, "$.rule.kind: no replay rule 'entropy'"),
        ({"tas_step": 0.0}, "$.tas_step: should be greater than 0"),
        ({"quality": {"clips": 3}}, "quality of 3 clips, there are 2"),
        ({"quality": {"clips": 1}, "n_frames": 1}, "quality needs a frame after the first"),
        ({"quality": {"clips": 1}, "tau": None}, "it is its own reference"),
        ({"quality": {"clips": 1}, "decision_scope": "batch"}, "needs all clips"),
        ({"precision": {"kv": {"bits": 4, "group": 5}}}, "kv: group 5 does not divide all of 12"),
    ],
)
def test_bad_recipes(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    path = make_recipe(tmp_path, **changes)
    (tmp_path / "link").symlink_to(TRACES.parents[1])
    with pytest.raises(InputError) as caught:
        capture(read(path), tmp_path, workers=0)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_elsewhere_are_read_where_the_caller_names_their_folder(tmp_path: Path) -> None:
    path = make_recipe(tmp_path / "here", codebook="../there/codebook.npz")
    with pytest.raises(InputError, match="lies outside"):
        read(path)
    parse_recipe(read_mapping(path), path, also_from=[tmp_path / "there"])
    read(make_recipe(tmp_path / "here", codebook=str(CODEBOOK)))


def test_bad_checkpoints(tmp_path: Path) -> None:
    make_recipe(tmp_path)
    path = tmp_path / "tiny.safetensors"
    model, data = load_model(path), path.read_bytes()
    damaged = (b"", data[:100], data[:-8], b"\xff" * 64, data.replace(b'"F32"', b'"I32"'))
    for wrong, words in (
        *((each, r"tiny\.safetensors: not a readable \.safetensors") for each in damaged),
        (data.replace(b'"n_layers": "2"', b'"n_layers": "x"'), "metadata: expected name and n_lay"),
        (data.replace(b'"n_layers": "2"', b'"n_layers": "3"'), r"finite numbers of shape \(3, "),
        (data.replace(b'"head"', b'"tail"'), "arrays missing or unknown: head, tail"),
    ):
        path.write_bytes(wrong)
        with pytest.raises(InputError, match=words):
            load_model(path)
    broken = {**model.arrays, "wq": np.full_like(model.arrays["wq"], np.nan)}
    with pytest.raises(InputError, match="array 'wq': expected finite numbers"):
        save_model(tmp_path / "b.safetensors", replace(model, arrays=broken))


def test_info_shows_and_exports_what_the_trace_holds(tiny: Trace) -> None:
    shown, ratio = info(tiny.path), trace_stats(tiny).ratio
    for words in (
        f"{ratio.over_all:.2%} of all steps",
        f"{ratio.over_eligible:.2%} of eligible",
        "VILA-U-7B",
        tiny.sha256[:32],
    ):
        assert words in shown
    exported = json.loads(
        CliRunner().invoke(carsim, ["trace", "info", "--json", str(tiny.path)]).output
    )
    assert exported["sha256"] == tiny.sha256
    assert exported["meta"]["tau"] == 1.0
    assert exported["stats"]["ratio"]["over_eligible"] == ratio.over_eligible
    assert len(exported["stats"]["by_layer"]) == 2


@pytest.mark.parametrize(
    "attention", [{"kind": "second_block", "last": 300}, {"kind": "best_keys", "k": 20}]
)
def test_kinds_of_attention_from_outside_are_captured(tmp_path, attention, tiny):
    """A kind of one class outside of the package: recipe, closed loop with replay, trace, file."""
    with registered():
        saved = made(tmp_path, attention=attention)
        trace, shown = load_trace(tmp_path / "made.npz"), info(saved.path)
    assert trace.meta == saved.meta
    assert trace.meta.attention.kind == attention["kind"]
    assert trace.replay.any()
    assert not np.array_equal(trace.tas, tiny.tas)
    if not trace.meta.attention.records:
        assert trace.reads is None
        return
    assert trace.reads.tokens.shape == (512, 2, 1, 4)
    assert 20 <= trace.reads.tokens.max() <= 21
    assert 1 < trace.reads.runs.mean() < 20
    np.testing.assert_array_equal(trace.kv_held, trace.context()[255::256, None].repeat(2, 1))
    assert "keys read" in shown
    with pytest.raises(InputError, match="'best_keys'"):
        load_trace(tmp_path / "made.npz")  # without the class, one line says why


@pytest.mark.parametrize(
    ("rule", "tau", "words"),
    [
        ({"kind": "tas", "form": "paper", "head": 1}, 0.2, "TAS (form paper, head 1, offset 0)"),
        ({"kind": "tas", "offset": 1}, 0.2, "TAS (form released, offset 1)"),
        ({"kind": "input_change"}, -0.2, "input change (bits 8)"),
        ({"kind": "cosine"}, 0.9, "cosine of queries (head 0)"),
    ],
)
def test_rules_of_replay_are_captured(tmp_path: Path, rule: dict[str, Any], tau: float, words: str):
    """Recipe, closed loop, trace, file, another threshold; one of the rules is from outside."""
    with toy_rules.registered():
        saved = made(tmp_path, rule=rule, tau=tau)
        trace, shown = load_trace(tmp_path / "made.npz"), info(saved.path)
        other = rethreshold(trace, tau - 0.1)
    assert trace.meta == saved.meta
    assert 0 < trace.replay[256:].mean() < 1
    assert words in shown.replace("\n", " ")
    assert captured(trace).label == f"captured in made.npz at tau {tau} on {words}"
    assert other.rule == trace.meta.rule
    assert other.label.endswith(f"re-thresholded at tau {tau - 0.1:.6g} on {words} (open loop)")
    assert other.replay.sum() > trace.replay.sum()


FEW_BITS = {
    "weights": {"bits": 4, "group": 8},
    "activations": 4,
    "kv": 4,
    "replay": 8,
    "polish": ["down"],
    "compensate": True,
    "calibration": {"clips": 1, "frames": 1},
}


def test_a_precision_is_captured_whatever_the_workers(tmp_path: Path, tiny: Trace) -> None:
    """Recipe, calibration in a worker of its own, closed loop, trace, file."""
    recipe = read(make_recipe(tmp_path, precision=FEW_BITS))
    saved, again = (
        save_trace(tmp_path / f"{n}.npz", capture(recipe, tmp_path, workers=n)) for n in (2, 1)
    )
    assert saved.sha256 == again.sha256
    trace = load_trace(tmp_path / "1.npz")
    assert trace.meta.precision == recipe.precision
    assert "W4A4 KV4 replay 8, polished down" in info(trace.path)
    assert 0 < (trace.replay != tiny.replay).mean() < 0.2
    np.testing.assert_array_equal(made(tmp_path, precision={}).tas, tiny.tas)
