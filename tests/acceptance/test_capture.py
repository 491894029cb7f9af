"""Capturing end to end: a recipe gives the same trace again, and the shipped traces are sound."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_rules
import yaml
from click.testing import CliRunner
from toy_policies import registered

from carsim.base.errors import InputError
from carsim.base.yaml_file import read_mapping
from carsim.cli import carsim, main
from carsim.decisions.trace import (
    Trace,
    captured,
    compare_traces,
    load_trace,
    rethreshold,
    save_trace,
    trace_stats,
)
from carsim.decisions.trace.npz import npz_bytes
from carsim.decoder.calibrate import calibrate
from carsim.decoder.capture import References, capture, prepare
from carsim.decoder.content import load_codebook
from carsim.decoder.group import decode_group
from carsim.decoder.model import load_model, random_model, save_model
from carsim.decoder.recipe import Recipe, parse_recipe

TRACES = Path(__file__).parents[2] / "traces"
GEOMETRY = {
    "name": "tiny",
    "n_layers": 2,
    "hidden_size": 24,
    "n_heads": 2,
    "n_kv_heads": 1,
    "head_dim": 12,
    "ffn_size": 16,
}

GREEDY: dict[str, Any] = {"method": "greedy"}
QUALITY: dict[str, Any] = {
    "sampling": GREEDY,
    "given_frames": 1,
    "quality": {"clips": 1, "samplings": ["greedy"]},
}


def make_recipe(folder: Path, **changes: Any) -> Path:
    """A recipe of two clips and two layers that decodes in well under a second."""
    fields: dict[str, Any] = {
        "name": "tiny",
        "output": "tiny.npz",
        "decoded": GEOMETRY,
        "codebook": "codebook_512.npz",
        "clips": [
            {"photo": "coffee", "motion": "pan", "speed": 0.0},
            {"photo": "astronaut", "motion": "cut", "speed": 8.0},
        ],
        "n_frames": 2,
        "prompt_tokens": 50,
        "tau": 1.0,
        "attention": {"kind": "dense"},
        "seed": 1,
    }
    folder.mkdir(exist_ok=True)
    path = folder / "tiny.yaml"
    kept = {key: value for key, value in {**fields, **changes}.items() if value != "absent"}
    path.write_text(yaml.safe_dump(kept))
    codebook = folder / "codebook_512.npz"
    if not codebook.exists():
        codebook.write_bytes((TRACES / "codebook_512.npz").read_bytes())
    return path


def read(path: Path) -> Recipe:
    recipe = parse_recipe(read_mapping(path), path)
    assert isinstance(recipe, Recipe)
    return recipe


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The tiny recipe, captured once and saved."""
    folder = tmp_path_factory.mktemp("tiny")
    return save_trace(folder / "tiny.npz", capture(read(make_recipe(folder)), folder, workers=1))


def test_a_scene_is_decoded_as_its_codes_are(tmp_path: Path) -> None:
    codes = np.arange(3 * 256, dtype=np.uint16).reshape(3, 256) % 512
    (tmp_path / "scenes.npz").write_bytes(npz_bytes({"walk": codes}))
    clip = {"scene": "walk", "caption": "a walk"}
    recipe = read(make_recipe(tmp_path, clips=[clip], scenes="scenes.npz"))
    (group,) = prepare(recipe, tmp_path)[1]
    assert np.array_equal(group.tokens[:, 0], codes[: recipe.n_frames].ravel())
    assert group.prompts == (b"Generate a video: a walk", b"Generate a video:")
    made = capture(recipe, tmp_path, workers=1).meta.content["clips"]
    assert made == [clip | {"kept_tokens": 0.0}]


def test_remaking_gives_the_same_bytes_through_the_command_line(
    tmp_path: Path, tiny: Trace
) -> None:
    recipe = make_recipe(tmp_path)
    arguments = ["capture", str(recipe), "--workers", "2"]
    result = CliRunner().invoke(carsim, arguments)
    assert result.exit_code == 0, result.output
    assert "eligible steps (first frame left out)" in result.stdout
    assert tiny.path is not None
    assert (tmp_path / "tiny.npz").read_bytes() == tiny.path.read_bytes()
    refused = CliRunner().invoke(carsim, arguments)
    assert isinstance(refused.exception, InputError)
    assert "exists already" in str(refused.exception)
    elsewhere = ["--out", str(tmp_path / "other.npz")]
    assert CliRunner().invoke(carsim, [*arguments, *elsewhere]).exit_code == 0
    assert (tmp_path / "other.npz").read_bytes() == tiny.path.read_bytes()


def test_a_captured_trace_is_what_the_recipe_says(tiny: Trace) -> None:
    assert (tiny.n_steps, tiny.n_layers, tiny.n_rows) == (512, 2, 4)
    assert tiny.meta.guidance_pairs == ((0, 1), (2, 3))
    assert tiny.meta.prompt_lengths[1] == tiny.meta.prompt_lengths[3] == 17
    assert not tiny.replay[:256].any()
    assert tiny.meta.quality is None
    clips = tiny.meta.content["clips"]
    assert isinstance(clips, list)
    assert [clip["kept_tokens"] for clip in clips] == [1.0, pytest.approx(0.02, abs=0.05)]


def test_still_content_replays_more_than_a_cut(tiny: Trace) -> None:
    still, cut = (trace_stats(tiny).by_row[row].over_eligible for row in (0, 2))
    assert still > cut + 0.1


def test_scopes_are_applied_while_decoding(tmp_path: Path) -> None:
    pair = capture(read(make_recipe(tmp_path, decision_scope="pair")), tmp_path, workers=0)
    np.testing.assert_array_equal(pair.replay[..., 0], pair.replay[..., 1])
    assert (pair.replay[..., 0] != pair.replay[..., 2]).any()
    batch = capture(read(make_recipe(tmp_path, decision_scope="batch")), tmp_path, workers=0)
    assert (batch.replay == batch.replay[..., :1]).all()
    assert save_trace(tmp_path / "b.npz", batch).meta.decision_scope == "batch"


def test_groups_of_rows_are_put_together_in_order(tmp_path: Path, tiny: Trace) -> None:
    """Five clips make two groups; the pair that falls into the second decodes as on its own."""
    clips = read(make_recipe(tmp_path)).clips
    fields = [clip.model_dump() for clip in (clips[1],) * 4 + (clips[0],)]
    recipe = read(make_recipe(tmp_path, clips=fields))
    seen: list[tuple[int, int]] = []
    trace = capture(recipe, tmp_path, workers=2, progress=lambda *at: seen.append(at))
    assert trace.n_rows == 10
    np.testing.assert_allclose(trace.tas[..., 8:], tiny.tas[..., :2], atol=2e-3)
    assert seen[-1] == (5120, 5120)


def test_a_checkpoint_takes_the_place_of_random_weights(tmp_path: Path, tiny: Trace) -> None:
    recipe = read(make_recipe(tmp_path))
    model = random_model(recipe.decoded, load_codebook(tmp_path / recipe.codebook), recipe.seed)
    save_model(tmp_path / "trained.safetensors", model)
    loaded = load_model(tmp_path / "trained.safetensors")
    assert loaded.geometry == model.geometry
    trace = capture(read(make_recipe(tmp_path, weights="trained.safetensors")), tmp_path, workers=0)
    np.testing.assert_array_equal(trace.replay, tiny.replay)
    assert trace.meta.weights.startswith("checkpoint trained.safetensors, sha256 ")
    other = {**GEOMETRY, "n_kv_heads": 2}
    mismatch = make_recipe(tmp_path, weights="trained.safetensors", decoded=other)
    with pytest.raises(InputError, match="geometry and codebook that belong together"):
        capture(read(mismatch), tmp_path)


def test_sampled_tokens_follow_the_given_ones(tmp_path: Path, tiny: Trace) -> None:
    sampling = {"method": "top_k", "k": 50, "temperature": 2.0, "guidance_scale": 2.0}
    recipe = read(make_recipe(tmp_path, sampling=sampling, given_frames=1))
    trace = capture(recipe, tmp_path, workers=0)
    assert trace.meta.mode == "sampled"
    assert trace.meta.sampling == sampling
    assert trace.meta.content["given_frames"] == 1
    # Token 255 is fed at step 256, and the first one that is sampled at step 257.
    np.testing.assert_array_equal(trace.tas[256].astype(np.float16), tiny.tas[256])
    assert not np.array_equal(trace.tas[257:].astype(np.float16), tiny.tas[257:])
    np.testing.assert_array_equal(trace.tas, capture(recipe, tmp_path, workers=0).tas)
    clips = trace.meta.content["clips"]
    assert isinstance(clips, list)
    assert clips[0]["kept_tokens"] < 0.2  # random logits draw anything


def test_greedy_tokens_need_no_seed(tmp_path: Path) -> None:
    recipe = read(make_recipe(tmp_path, sampling={"method": "greedy"}, given_frames=0))
    _, groups = prepare(recipe, tmp_path)
    tokens = [
        decode_group(replace(groups[0], seeds=seeds), lambda units: None).tokens
        for seeds in (((0, 0), (0, 1)), ((5, 0), (5, 1)))
    ]
    np.testing.assert_array_equal(*tokens)
    assert not np.array_equal(tokens[0], groups[0].tokens)


def test_exempt_layers_are_scored_and_never_replay(tmp_path: Path, tiny: Trace) -> None:
    recipe = read(make_recipe(tmp_path, exempt_layers=[1]))
    trace = save_trace(tmp_path / "exempt.npz", capture(recipe, tmp_path, workers=0))
    assert trace.meta.tau == (1.0, np.inf)
    assert trace.meta.tau_text == "tau 1 (layer 1 never replays)"
    assert not trace.replay[:, 1].any()
    assert trace.replay[:, 0].any()
    assert np.isfinite(trace.tas[256:, 1]).all()
    assert load_trace(tmp_path / "exempt.npz").meta == trace.meta
    found = calibrate(recipe, tmp_path, 0.3, workers=0)
    assert found.ratio == pytest.approx(0.3, abs=0.02)
    with pytest.raises(InputError, match=r"0\.6 with exempt layers, at most 0\.5"):
        calibrate(recipe, tmp_path, 0.6, workers=0)


def test_calibration_of_rows_that_decide_together(tmp_path: Path) -> None:
    recipe = read(make_recipe(tmp_path, decision_scope="batch", tau=0.5))
    found = calibrate(recipe, tmp_path, 0.3, workers=0)
    assert found.ratio == pytest.approx(0.3, abs=0.02)
    assert found.decodings <= 4


def test_scores_kept_in_steps_change_no_decision(tmp_path: Path, tiny: Trace) -> None:
    recipe = read(make_recipe(tmp_path, tas_step=0.25))
    coarse = save_trace(tmp_path / "coarse.npz", capture(recipe, tmp_path, workers=0))
    np.testing.assert_array_equal(coarse.replay, tiny.replay)
    scores, fine = coarse.tas[256:].astype(float), tiny.tas[256:].astype(float)
    on_grid = scores % 0.25 == 0
    assert on_grid.mean() > 0.8
    np.testing.assert_array_equal(scores[~on_grid], fine[~on_grid])
    assert (abs(fine[~on_grid] - 1) < 0.125).all(), "only next to tau is a score kept as it was"
    assert np.abs(scores - fine).max() <= 0.1255
    assert tiny.path is not None
    assert (tmp_path / "coarse.npz").stat().st_size < 0.7 * tiny.path.stat().st_size
    found = compare_traces(coarse, replace(coarse, tas=tiny.tas))
    assert found.equivalent, "rounding to steps explains the difference"


def test_calibration_finds_the_ratio_that_is_asked_for(tmp_path: Path) -> None:
    recipe = read(make_recipe(tmp_path))
    found = calibrate(recipe, tmp_path, 0.6, workers=0)
    applied = capture(recipe.model_copy(update={"tau": found.tau}), tmp_path, workers=0)
    assert applied.replay[256:].mean() == found.ratio == pytest.approx(0.6, abs=0.02)
    with pytest.raises(InputError, match=r"between 0 and 1, got 1\.2"):
        calibrate(recipe, tmp_path, 1.2)
    with pytest.raises(InputError, match="one frame never replays"):
        calibrate(recipe.model_copy(update={"n_frames": 1}), tmp_path, 0.5)


def test_calibration_through_the_command_line_writes_nothing(tmp_path: Path) -> None:
    arguments = ["capture", str(make_recipe(tmp_path)), "--calibrate", "0.5"]
    result = CliRunner().invoke(carsim, arguments)
    assert result.exit_code == 0
    # The last line: click 8.1 mixes progress, which goes to standard error, into the output.
    assert result.output.splitlines()[-1].startswith("tau: ")
    assert not (tmp_path / "tiny.npz").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": "absent"}, "$.seed: is missing; add it"),
        ({"colour": "red"}, "$.colour: unknown key 'colour'; known here"),
        ({"n_frames": 2.0}, "$.n_frames: should be a valid integer, got 2.0"),
        ({"clips": []}, "$.clips"),
        ({"clips": [{"photo": "teapot", "motion": "pan", "speed": 1.0}]}, "'teapot': unknown"),
        ({"clips": [{"photo": "coffee", "motion": "spin", "speed": 1.0}]}, "$.clips.0.motion"),
        ({"tau": [0.1, 0.2, 0.3]}, "3 taus for 2 layers"),
        ({"prompt_tokens": 20}, "prompt_tokens allows 20"),
        ({"output": "../escape.npz"}, "$.output"),
        ({"attention": {"kind": "sliding"}}, "$.attention.kind: no attention policy 'sliding'"),
        ({"decoded": {**GEOMETRY, "head_dim": 5}}, "head_dim 5 is odd"),
        ({"codebook": "none.npz"}, "none.npz: cannot be read: No such file or directory"),
        (
            {"weights": "none.safetensors"},
            "none.safetensors: cannot be read: No such file or directory",
        ),
        ({"weights": "/no/where.safetensors"}, "$.weights: '/no/where.safetensors' lies outside"),
        ({"weights": "../../x.safetensors"}, "name its folder in `also_from`"),
        ({"codebook": "a/../../codebook.npz"}, "$.codebook: 'a/../../codebook.npz' lies outside"),
        ({"codebook": "link"}, "$.codebook: 'link' lies outside of the recipe's folder"),
        ({"codebook": "circle"}, "$.codebook: 'circle' lies outside of the recipe's folder"),
        ({"scenes": "/proc/self/environ"}, "$.scenes: '/proc/self/environ' lies outside"),
        ({"codebook": ""}, "$.codebook: String should match pattern"),
        ({"exempt_layers": [0, 1]}, "some, not all, of 0 to 1"),
        ({"exempt_layers": [2]}, "some, not all, of 0 to 1"),
        ({"exempt_layers": [0, 0]}, "lists a layer twice"),
        ({"exempt_layers": [0], "tau": None}, "exempt_layers go with one tau"),
        ({"sampling": GREEDY}, "sampling and given_frames go together"),
        ({"clips": [{"scene": "walk", "caption": "a"}]}, "no file of scenes is named"),
        ({"clips": [{"scene": "walk"}], "scenes": "s.npz"}, "$.clips.0.caption: is missing"),
        ({"tas_form": "paper"}, "$.tas_form: unknown key 'tas_form'"),
        ({"rule": {"kind": "tas", "head": 2}}, "rule: head 2 of 2 heads, give 0 to 1"),
        ({"rule": {"kind": "tas", "heads": 1}}, "unknown key 'heads'; did you mean 'head'?"),
        ({"rule": {"kind": "entropy"}}, "$.rule.kind: no replay rule 'entropy'"),
        ({"rule": "paper"}, "$.rule: should be"),
        ({"rule": {"kind": "input_change", "bits": 8.0}}, "should be a valid integer, got 8.0"),
        (
            {"rule": {"kind": "input_change", "elements": 25}},
            "25 elements of a hidden size of 24, give at most 24",
        ),
        ({"tas_step": 0.0}, "$.tas_step: should be greater than 0"),
        ({"given_frames": 1}, "sampling and given_frames go together"),
        ({"sampling": GREEDY, "given_frames": 2}, "2 given_frames leave none of 2"),
        ({"sampling": {**GREEDY, "k": 2}, "given_frames": 1}, "do nothing under greedy"),
        ({"sampling": {"method": "beam"}, "given_frames": 1}, "$.sampling.method"),
        ({"quality": {"clips": 1, "samplings": ["greedy"]}}, "quality needs sampling"),
        ({**QUALITY, "quality": {"clips": 3, "samplings": ["greedy"]}}, "there are 2"),
        ({**QUALITY, "quality": {"clips": 1, "samplings": []}}, "$.quality.samplings"),
        ({**QUALITY, "quality": {"clips": 1, "samplings": ["top_k"]}}, "needs sampling by top_k"),
        (
            {**QUALITY, "quality": {"clips": 1, "samplings": ["greedy"] * 2}},
            "lists a sampling twice",
        ),
        ({**QUALITY, "tau": None}, "it is its own reference"),
        ({"precision": {"weights": 5}}, "$.precision.weights: should be 2, 3, 4, 8"),
        ({"precision": {"kv": {"bits": 4, "group": 5}}}, "kv: group 5 does not divide all of 12"),
        ({"precision": {"polish": ["down"]}}, "do nothing for activations of 16 bits"),
        ({**QUALITY, "decision_scope": "batch"}, "needs all clips"),
    ],
)
def test_bad_recipes(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    path = make_recipe(tmp_path, **changes)
    (tmp_path / "link").symlink_to(TRACES.parents[1])
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(InputError) as caught:
        capture(read(path), tmp_path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_elsewhere_are_read_where_the_caller_names_their_folder(tmp_path: Path) -> None:
    path = make_recipe(tmp_path / "here", codebook="../there/codebook.npz")
    with pytest.raises(InputError, match="lies outside"):
        read(path)
    parse_recipe(read_mapping(path), path, also_from=[tmp_path / "there"])
    shipped = make_recipe(tmp_path / "here", codebook=str(TRACES / "codebook_512.npz"))
    read(shipped)


def test_bad_checkpoints(tmp_path: Path) -> None:
    recipe = read(make_recipe(tmp_path))
    model = random_model(recipe.decoded, load_codebook(tmp_path / recipe.codebook), 0)
    path = tmp_path / "a.safetensors"
    save_model(path, model)
    data = path.read_bytes()
    for damaged in (b"", data[:100], data[:-8], b"\xff" * 64, data.replace(b'"F32"', b'"I32"')):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"a\.safetensors: not a readable \.safetensors"):
            load_model(path)
    path.write_bytes(data.replace(b'"n_layers": "2"', b'"n_layers": "x"'))
    with pytest.raises(InputError, match=r"a\.safetensors: metadata: expected name and n_layers"):
        load_model(path)
    path.write_bytes(data.replace(b'"n_layers": "2"', b'"n_layers": "3"'))
    with pytest.raises(InputError, match=r"array 'wq': expected finite numbers of shape \(3, "):
        load_model(path)
    path.write_bytes(data.replace(b'"head"', b'"tail"'))
    with pytest.raises(InputError, match="arrays missing or unknown: head, tail"):
        load_model(path)
    broken = {**model.arrays, "wq": np.full_like(model.arrays["wq"], np.nan)}
    with pytest.raises(InputError, match="array 'wq': expected finite numbers"):
        save_model(tmp_path / "b.safetensors", replace(model, arrays=broken))


def test_errors_are_one_line_with_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ["capture", str(tmp_path / "none.yaml")],
        ["capture", str(make_recipe(tmp_path)), "--out", str(tmp_path / "no" / "a.npz")],
        ["trace", "info", str(make_recipe(tmp_path))],
        ["validate", "golden", str(make_recipe(tmp_path))],
    ):
        monkeypatch.setattr(sys, "argv", ["carsim", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        assert caught.value.code == 2
        line = capsys.readouterr().err
        assert line.startswith("carsim: ")
        assert line.count("\n") == 1
        assert ";" in line  # problem; cure
    assert not list(tmp_path.glob("*.npz.*"))


def test_info_shows_and_exports_what_the_trace_holds(tiny: Trace) -> None:
    result = CliRunner().invoke(carsim, ["trace", "info", str(tiny.path)])
    assert result.exit_code == 0
    ratio = trace_stats(tiny).ratio
    for words in (
        f"{ratio.over_all:.2%} of all steps",
        f"{ratio.over_eligible:.2%} of eligible",
        "coffee pan 0",
        "never",
        "VILA-U-7B",
        tiny.sha256[:32],
    ):
        assert words in result.output
    exported = json.loads(
        CliRunner().invoke(carsim, ["trace", "info", "--json", str(tiny.path)]).output
    )
    assert exported["sha256"] == tiny.sha256
    assert exported["meta"]["tau"] == 1.0
    assert exported["stats"]["ratio"]["over_eligible"] == ratio.over_eligible
    assert len(exported["stats"]["by_layer"]) == 2


def nudged(trace: Trace, step: int, row: int, change: float) -> Trace:
    """The trace with one score changed, and its decision with it."""
    tas = trace.tas.astype(np.float32)
    tas[step, 0, row] += change
    replay = trace.replay.copy()
    replay[step, 0, row] = tas[step, 0, row] > 1.0
    return replace(trace, tas=tas, replay=replay)


def test_comparing_traces(tmp_path: Path, tiny: Trace) -> None:
    """What rounding explains is equivalent; a score that moved, or a flip far from tau, is not."""
    assert compare_traces(tiny, tiny).identical
    assert compare_traces(tiny, nudged(tiny, 400, 1, 5e-5)).equivalent
    moved = compare_traces(tiny, nudged(tiny, 400, 1, -0.1))
    assert moved.max_tas_error == pytest.approx(0.1, rel=0.1)
    assert not moved.equivalent
    far = int(np.nanargmax(np.abs(tiny.tas[:, 0, 1].astype(float) - 1)))
    flip = compare_traces(tiny, nudged(tiny, far, 1, -2 * float(tiny.tas[far, 0, 1] - 1)))
    assert (flip.flipped, flip.first_flips, flip.unexplained_flips) == (1, 1, 1)
    near = nudged(tiny, 300, 2, 1.00003 - float(tiny.tas[300, 0, 2]))
    flipped = nudged(near, 300, 2, -0.00006)
    rounding = compare_traces(near, flipped)
    assert (rounding.flipped, rounding.first_flips, rounding.unexplained_flips) == (1, 1, 0)
    assert rounding.equivalent
    later = nudged(flipped, 450, 2, 0.5)
    assert compare_traces(near, later).equivalent, "what follows a flip is not judged"
    assert not compare_traces(near, nudged(flipped, 280, 2, 0.5)).equivalent
    other = replace(tiny, meta=tiny.meta.model_copy(update={"seed": 2}))
    assert compare_traces(tiny, other).changed_fields == ("seed",)


def test_comparing_through_the_command_line(tmp_path: Path, tiny: Trace) -> None:
    save_trace(tmp_path / "moved.npz", nudged(tiny, 400, 1, -0.1))
    same = CliRunner().invoke(carsim, ["trace", "compare", str(tiny.path), str(tiny.path)])
    assert (same.exit_code, same.output) == (0, "identical, byte for byte\n")
    arguments = ["trace", "compare", str(tiny.path), str(tmp_path / "moved.npz")]
    moved = CliRunner().invoke(carsim, arguments)
    assert moved.exit_code == 1
    assert "NOT equivalent" in moved.output
    with pytest.raises(InputError, match=r"shapes .* differ; compare traces of one recipe"):
        compare_traces(tiny, load_trace(TRACES / "vilau_8f.npz"))


@pytest.mark.parametrize(
    "attention", [{"kind": "second_block", "last": 300}, {"kind": "best_keys", "k": 20}]
)
def test_kinds_of_attention_from_outside_are_captured(
    tmp_path: Path, attention: dict[str, Any], tiny: Trace
) -> None:
    """A kind of one class outside of the package: recipe, closed loop with replay, trace, file."""
    with registered():
        recipe = read(make_recipe(tmp_path, attention=attention))
        saved = save_trace(tmp_path / "toy.npz", capture(recipe, tmp_path, workers=0))
        trace = load_trace(tmp_path / "toy.npz")
        shown = CliRunner().invoke(carsim, ["trace", "info", str(tmp_path / "toy.npz")]).output
    assert trace.meta == saved.meta
    assert trace.meta.attention.kind == attention["kind"]
    assert trace.replay.any()
    assert not np.array_equal(trace.tas, tiny.tas)
    if not trace.meta.attention.records:
        assert trace.reads is None
        return
    assert trace.reads is not None
    assert trace.reads.tokens.shape == (512, 2, 1, 4)
    assert 20 <= trace.reads.tokens.max() <= 21
    assert 1 < trace.reads.runs.mean() < 20
    np.testing.assert_array_equal(trace.kv_held, trace.context()[255::256, None].repeat(2, 1))
    assert "keys read" in shown
    refused = CliRunner().invoke(carsim, ["trace", "info", str(tmp_path / "toy.npz")])
    assert "'best_keys'" in str(refused.exception), "without the class, one line says why"


@pytest.mark.parametrize(
    ("rule", "tau", "words"),
    [
        ({"kind": "tas", "form": "paper", "head": 1}, 0.2, "TAS (paper form, head 1)"),
        ({"kind": "tas", "offset": 1}, 0.2, "TAS (released form, key one place later)"),
        ({"kind": "input_change"}, -0.2, "input change (8 bit, all elements)"),
        ({"kind": "cosine"}, 0.9, "cosine of queries (head 0)"),
    ],
)
def test_rules_of_replay_are_captured(
    tmp_path: Path, rule: dict[str, Any], tau: float, words: str, tiny: Trace
) -> None:
    """Recipe, closed loop, trace, file, another threshold; one of the rules is from outside."""
    with toy_rules.registered():
        recipe = read(make_recipe(tmp_path, rule=rule, tau=tau))
        saved = save_trace(tmp_path / "rule.npz", capture(recipe, tmp_path, workers=0))
        trace = load_trace(tmp_path / "rule.npz")
        shown = CliRunner().invoke(carsim, ["trace", "info", str(tmp_path / "rule.npz")]).output
        other = rethreshold(trace, tau - 0.1)
        assert compare_traces(trace, saved).equivalent
        assert compare_traces(trace, tiny).changed_fields[:2] == ("tau", "rule")
    assert trace.meta == saved.meta
    assert 0 < trace.replay[256:].mean() < 1
    assert words in shown.replace("\n", " ")
    assert captured(trace).label == f"captured in rule.npz at tau {tau} on {words}"
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
    made = capture(recipe, tmp_path, workers=2)
    saved = save_trace(tmp_path / "few.npz", made)
    again = save_trace(tmp_path / "again.npz", capture(recipe, tmp_path, workers=1))
    assert saved.sha256 == again.sha256
    trace = load_trace(tmp_path / "few.npz")
    assert trace.meta.precision == recipe.precision
    shown = CliRunner().invoke(carsim, ["trace", "info", str(tmp_path / "few.npz")]).output
    assert "W4A4 KV4 replay 8, polished down" in shown
    assert 0 < (trace.replay != tiny.replay).mean() < 0.2
    exact = capture(read(make_recipe(tmp_path, precision={})), tmp_path, workers=1)
    np.testing.assert_array_equal(save_trace(tmp_path / "exact.npz", exact).tas, tiny.tas)


def test_quality_of_a_precision_is_beside_decoding_that_rounds_nothing(tmp_path: Path) -> None:
    """Also where nothing but the precision is approximate; recipes share what they stand beside."""
    references: References = {}
    losses = {}
    for bits in (16, 8, 2):
        precision = {"weights": bits}
        path = make_recipe(tmp_path, **{**QUALITY, "tau": None, "precision": precision})
        quality = capture(read(path), tmp_path, workers=0, references=references).meta.quality
        assert quality is not None
        losses[bits] = quality.loss.mean
        assert quality.teacher_forced_nats.dense == pytest.approx(
            quality.teacher_forced_nats.own, abs=1 if bits == 2 else 0.05
        )
    assert losses[16] == 0
    assert len(references) == 2
    assert abs(losses[8]) < abs(losses[2])
