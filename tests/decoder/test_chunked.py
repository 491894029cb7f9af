"""Videos in chunks by the reference decoder: against a second implementation, captured, run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chunked_oracle import ChunkOracle
from click.testing import CliRunner

from carsim import InputError, load_design, run
from carsim.cli import carsim
from carsim.decisions.attention import Ann, AnnCa, AttentionPolicy, Stack, TempCache, search
from carsim.decisions.trace import load_trace, save_trace
from carsim.decoder.chunked.capture import capture_chunks, policy_of
from carsim.decoder.chunked.decode import PARTS, AcrossFrames, AcrossSteps, decode, drawn_video
from carsim.decoder.chunked.model import ChunkShape, drawn_model
from carsim.decoder.chunked.recipe import ChunkRecipe
from carsim.decoder.chunked.thin import thinning_of
from carsim.decoder.recipe import parse_recipe
from carsim.design import Design

SHAPE = ChunkShape(
    n_layers=2,
    hidden_size=8,
    n_heads=2,
    ffn_size=12,
    frame_tokens=3,
    chunk_frames=2,
    channels=2,
    text_tokens=3,
)
CHUNKS, STEPS = 2, 3
NETWORK = {
    **{"n_layers": 3, "hidden_size": 16, "n_heads": 2, "ffn_size": 40},
    **{"frame_tokens": 4, "chunk_frames": 3, "text_tokens": 5},
}
RECIPE = {
    **{"name": "small", "output": "small.npz", "network": NETWORK},
    **{"chunks": 3, "steps": 2, "videos": 2, "correlation": 0.8, "tau": 0.2},
}


def recipe(**changes: Any) -> ChunkRecipe:
    """A small recipe."""
    return ChunkRecipe.model_validate({**RECIPE, **changes})


# ------------------------------------------------------------------ a second implementation


def test_dense_videos_equal_those_of_plain_loops() -> None:
    model, video = drawn_model(SHAPE, 1), drawn_video(SHAPE, CHUNKS, 0.5, seed=2)
    plainly = ChunkOracle(model, STEPS).video(video.noise, video.text)
    np.testing.assert_allclose(decode(model, video, STEPS), plainly, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("across_chunks", [False, True])
def test_replay_across_frames_equals_that_of_plain_loops(across_chunks: bool) -> None:
    model, video = drawn_model(SHAPE, 3), drawn_video(SHAPE, CHUNKS, 0.9, seed=4)
    reuse = AcrossFrames(shape=SHAPE, tau=0.0, across_chunks=across_chunks)
    made = decode(model, video, STEPS, reuse)
    oracle = ChunkOracle(model, STEPS, tau=0.0, across_chunks=across_chunks)
    np.testing.assert_allclose(made, oracle.video(video.noise, video.text), rtol=1e-8, atol=1e-9)
    scores = np.array(reuse.scores)
    with np.errstate(invalid="ignore"):
        replayed = [tuple(map(int, at)) for at in np.argwhere(scores > 0.0)]
    assert replayed == sorted(oracle.replayed)
    assert 0 < len(replayed) < len(oracle.scores)
    for at, score in oracle.scores.items():
        assert scores[at] == pytest.approx(score, rel=1e-8, abs=1e-10)
    assert np.count_nonzero(np.isfinite(scores)) == len(oracle.scores)


@pytest.mark.parametrize("part", PARTS)
def test_reuse_across_steps_equals_that_of_plain_loops(part: Any) -> None:
    model, video = drawn_model(SHAPE, 5), drawn_video(SHAPE, CHUNKS, 0.5, seed=6)
    reuses = [False, True, False, False] * CHUNKS  # the last of four forwards is the clean one
    made = decode(model, video, STEPS, AcrossSteps(part, np.array(reuses)))
    taken = {"layers": ("stack",)}.get(part, PARTS[part])
    plainly = ChunkOracle(model, STEPS, reuses=reuses, taken=taken)
    np.testing.assert_allclose(made, plainly.video(video.noise, video.text), rtol=1e-8, atol=1e-9)
    assert not np.allclose(made, decode(model, video, STEPS))


@pytest.mark.parametrize("representative", ["latest", "mean", "medoid"])
def test_merged_keys_equal_those_of_plain_loops(representative: Any) -> None:
    model, video = drawn_model(SHAPE, 7), drawn_video(SHAPE, 3, 0.9, seed=8)
    policy = TempCache(theta=0.6, search="full", representative=representative)
    thinning = thinning_of(policy, SHAPE)
    made = decode(model, video, STEPS, thinning=thinning)
    oracle = ChunkOracle(model, STEPS, merge=(0.6, representative))
    np.testing.assert_allclose(made, oracle.video(video.noise, video.text), rtol=1e-8, atol=1e-9)
    groups = [len(of_head) for layer in oracle.groups for of_head in layer]
    assert thinning.measured.held == pytest.approx(np.mean(groups) / 18)
    assert 0.3 < thinning.measured.held < 0.9


def test_searched_keys_and_chosen_words_equal_those_of_plain_loops() -> None:
    model, video = drawn_model(SHAPE, 9), drawn_video(SHAPE, CHUNKS, 0.5, seed=10)
    found, words = Ann(tables=2, bits=3), AnnCa(tables=1, bits=3, sinks=0)
    thinning = thinning_of(Stack(policies=(found, words)), SHAPE)
    made = decode(model, video, STEPS, thinning=thinning)
    planes = search.hyperplanes(2, 3, SHAPE.head_dim, 0)
    oracle = ChunkOracle(
        model, STEPS, planes=planes, prompt=(search.hyperplanes(1, 3, SHAPE.head_dim, 0), 0)
    )
    np.testing.assert_allclose(made, oracle.video(video.noise, video.text), rtol=1e-8, atol=1e-9)
    for share in (thinning.measured.scored, thinning.measured.prompt):
        assert share is not None
        assert 0 < share < 1


@pytest.mark.parametrize("search_by", ["lsh", "quantised"])
@pytest.mark.parametrize("representative", ["latest", "mean", "medoid"])
def test_merged_keys_that_are_searched_equal_those_of_plain_loops(
    representative: Any, search_by: str
) -> None:
    model, video = drawn_model(SHAPE, 15), drawn_video(SHAPE, 3, 0.9, seed=16)
    merging = TempCache(theta=0.6, search="full", representative=representative)
    merge = (0.6, representative)
    if search_by == "lsh":
        searching = Ann(tables=2, bits=3)
        planes = search.hyperplanes(2, 3, SHAPE.head_dim, 0)
        oracle = ChunkOracle(model, STEPS, merge=merge, planes=planes)
    else:
        searching = Ann(search="quantised", keep=0.4, key_bits=6)
        oracle = ChunkOracle(model, STEPS, merge=merge, best=(0.4, 6))
    thinning = thinning_of(Stack(policies=(merging, searching)), SHAPE)
    made = decode(model, video, STEPS, thinning=thinning)
    np.testing.assert_allclose(made, oracle.video(video.noise, video.text), rtol=1e-8, atol=1e-9)
    assert thinning.measured.held is not None
    assert thinning.measured.held < 0.9
    assert thinning.measured.scored == pytest.approx(np.mean(oracle.shares))


@pytest.mark.parametrize("representative", ["latest", "mean", "medoid"])
def test_replay_over_merged_keys_equals_that_of_plain_loops(representative: Any) -> None:
    model, video = drawn_model(SHAPE, 17), drawn_video(SHAPE, 3, 0.9, seed=18)
    merging = TempCache(theta=0.6, search="full", representative=representative)
    reuse = AcrossFrames(shape=SHAPE, tau=0.0, across_chunks=True)
    made = decode(model, video, STEPS, reuse, thinning_of(merging, SHAPE))
    oracle = ChunkOracle(model, STEPS, tau=0.0, merge=(0.6, representative))
    np.testing.assert_allclose(made, oracle.video(video.noise, video.text), rtol=1e-8, atol=1e-9)
    assert 0 < len(oracle.replayed) < len(oracle.scores)


def test_a_quantised_search_equals_that_of_plain_loops() -> None:
    model, video = drawn_model(SHAPE, 11), drawn_video(SHAPE, CHUNKS, 0.5, seed=12)
    policy = Ann(search="quantised", keep=0.25, key_bits=6)
    made = decode(model, video, STEPS, thinning=thinning_of(policy, SHAPE))
    oracle = ChunkOracle(model, STEPS, best=(0.25, 6))
    np.testing.assert_allclose(made, oracle.video(video.noise, video.text), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    "policy",
    [
        TempCache(theta=2.0, search="full"),
        Ann(bits=0),
        AnnCa(bits=0),
        Ann(search="quantised", keep=1.0),
    ],
)
def test_policies_that_leave_nothing_out_are_dense_to_the_bit(policy: AttentionPolicy) -> None:
    model, video = drawn_model(SHAPE, 1), drawn_video(SHAPE, CHUNKS, 0.5, seed=2)
    made = decode(model, video, STEPS, thinning=thinning_of(policy, SHAPE))
    assert (made == decode(model, video, STEPS)).all()


# ------------------------------------------------------------------ properties


def test_an_infinite_tau_and_no_reuse_are_dense_to_the_bit() -> None:
    model, video = drawn_model(SHAPE, 1), drawn_video(SHAPE, CHUNKS, 0.5, seed=2)
    dense = decode(model, video, STEPS)
    never = AcrossFrames(shape=SHAPE, tau=float("inf"), across_chunks=True)
    assert (decode(model, video, STEPS, never) == dense).all()
    nowhere = AcrossSteps("modules", np.zeros(CHUNKS * (STEPS + 1), np.bool_))
    assert (decode(model, video, STEPS, nowhere) == dense).all()


def test_a_frame_does_not_see_later_chunks() -> None:
    model, video = drawn_model(SHAPE, 1), drawn_video(SHAPE, 3, 0.5, seed=2)
    longer = decode(model, video, STEPS)
    shorter = decode(model, video._replace(noise=video.noise[:2]), STEPS)
    assert (longer[:2] == shorter).all()


# ------------------------------------------------------------------ captured, run


def test_a_captured_trace_has_the_scores_and_decisions() -> None:
    made = recipe()
    trace = capture_chunks(made)
    assert trace.reused is not None
    assert trace.range_tas is not None
    assert trace.meta.origin == "captured"
    assert trace.reused.shape == (9, 3, 2, 12)
    assert not trace.reused[2::3].any()  # clean forwards
    assert not trace.reused[:3, :, :, :4].any()  # the first frame of the video
    model = drawn_model(made.network.shape, 0)
    reuse = policy_of(made)
    assert isinstance(reuse, AcrossFrames)
    decode(model, drawn_video(model.shape, 3, 0.8, seed=1), 2, reuse)
    second_row = np.array(reuse.scores)
    np.testing.assert_allclose(trace.range_tas[:, :, 1], second_row, rtol=1e-5)
    with np.errstate(invalid="ignore"):
        assert (trace.reused[:, :, 1] == (second_row > 0.2)).all()


def small_design() -> Design:
    """The network of the recipe, on a small machine."""
    raw = load_design("zcu102").model_dump()
    eight = {"bits": 8}
    raw["model"] = {
        **{"name": "small", "head": {"kind": "none"}, "weights": eight, "kv": eight},
        **{"activations": eight, "replay": eight},
        "body": {
            **{"n_layers": 3, "hidden_size": 16, "n_heads": 2, "n_kv_heads": 2},
            **{"ffn_size": 40, "mlp": "plain"},
        },
        "network": {
            **{"kind": "diffusion", "text": "cross", "text_tokens": 5, "text_width": 24},
            **{"channels": 4, "patch": (1, 1, 1), "stride": (1, 1, 1)},
        },
        "sample": {
            **{"height": 2, "width": 2, "steps": 2, "passes": 1},
            **{"chunk_frames": 3, "chunks": 3},
        },
    }
    raw["policy"]["batch"] = 2
    return Design.model_validate(raw)


def test_the_machine_runs_what_was_captured() -> None:
    trace = capture_chunks(recipe())
    assert trace.reused is not None
    report = run(small_design(), trace, what_if=False, allow_misfit=True)
    dense, own = report.rows[0].simulation.totals, report.chosen.simulation.totals
    reused = int(trace.reused.sum())
    assert reused > 0
    assert dense["mlp"].macs - own["mlp"].macs == reused * 2 * 16 * 40
    assert "captured" in report.chosen.batches.label


def test_a_captured_trace_stands_for_a_larger_network() -> None:
    trace = capture_chunks(recipe(videos=1))
    assert trace.reused is not None
    changes = ["model.preset=longlive_1.3b", "model.sample.chunks=3", "model.sample.steps=2"]
    design = load_design("asic_7nm_hbm3", [*changes, "policy.batch=1"])
    report = run(design, trace, what_if=False, allow_misfit=True)
    dense, own = report.rows[0].simulation.totals, report.chosen.simulation.totals
    # Each of 12 tokens stands for 390, each of 3 layers for 10.
    saved = int(trace.reused.sum()) * 390 * 10 * 2 * 1536 * 8960
    assert dense["mlp"].macs - own["mlp"].macs == saved
    assert "12 tokens of a row stand for 4,680" in report.chosen.batches.label


def test_the_command_captures_and_the_file_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    network = ", ".join(f"{name}: {value}" for name, value in NETWORK.items())
    file.write_text(
        f"name: small\noutput: small.npz\nnetwork: {{{network}}}\n"
        "chunks: 3\nsteps: 2\ncorrelation: 0.8\ntau: 0.2\n"
    )
    result = CliRunner().invoke(carsim, ["capture", str(file)])
    assert result.exit_code == 0, result.output
    assert "of the scored tokens replay" in result.output
    trace = load_trace(tmp_path / "small.npz")
    shown = CliRunner().invoke(carsim, ["trace", "info", str(tmp_path / "small.npz")]).output
    assert trace.reused is not None
    share = f"{trace.reused.mean():.1%} of all tokens take outputs of the previous frame"
    assert share in " ".join(shown.split())
    assert "9 forwards, 1 row of 12 tokens" in " ".join(shown.split())
    again = capture_chunks(recipe(videos=1))
    assert trace.reused is not None
    assert (trace.reused == again.reused).all()


def test_shares_that_a_policy_leaves_in_are_measured() -> None:
    policies = TempCache(theta=0.7, search="full"), Ann(bits=3)
    made = recipe(tau=None, attention=Stack(policies=policies))
    trace = capture_chunks(made)
    measured = trace.meta.content["measured"]
    assert isinstance(measured, dict)
    assert set(measured) == {"held", "scored"}
    assert not trace.replay.any()


def test_intervals_are_stated_and_executed() -> None:
    trace = capture_chunks(recipe(tau=None, every=2, steps=4, part="layers"))
    assert trace.meta.origin == "assumed, not captured"
    of_chunk = [False, True, False, False, False]  # first and last steps and clean forwards compute
    assert trace.replay[:, 0, 0].tolist() == 3 * of_chunk


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"every": 2}, "give tau for replay across frames, or every"),
        ({"tau": None}, "give tau for replay across frames, or every"),
        ({"part": "layers"}, "part is of reuse across steps"),
        ({"network": {**NETWORK, "n_heads": 3}}, "no even number of elements"),
        ({"chunks": 0}, "chunks"),
        ({"tau": None, "every": 1}, "every"),
        ({"sampling": 1}, "sampling"),
        ({"attention": {"kind": "streaming"}}, "is not executed in chunks"),
        ({"attention": {"kind": "temp_cache"}}, "say search: full"),
    ],
)
def test_bad_recipes_get_one_line(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_recipe({**RECIPE, **changes}, Path("small.yaml"))
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_traces_of_other_forwards_are_refused(tmp_path: Path) -> None:
    trace = save_trace(tmp_path / "small.npz", capture_chunks(recipe()))
    design = small_design()
    longer = design.model_copy(
        update={
            "model": design.model.model_copy(
                update={"sample": design.model.sample.model_copy(update={"chunks": 4})}  # type: ignore[union-attr]
            )
        }
    )
    with pytest.raises(InputError, match=r"small\.npz: has 9 forwards"):
        run(longer, trace, what_if=False, allow_misfit=True)
    with pytest.raises(InputError, match="decodes token by token"):
        run("zcu102", trace, what_if=False)
