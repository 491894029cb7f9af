"""Hooks on networks of diffusers score what an independent computation scores."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hf_maker import refused
from numpy.typing import NDArray
from tiny_diffusers import (
    CASES,
    FRAMES,
    HEAD_DIM,
    HEADS,
    Case,
    diffusers,
    normal,
    outputs_of,
    save_pipeline,
    torch,
)

from carsim import InputError, load_design, run
from carsim.decisions.trace import Trace, load_trace
from carsim.decoder.hf.forwards import ForwardRecorder, Recorded, Wanted
from carsim.decoder.hf.networks import KINDS
from carsim.design import Design
from carsim.workload.hf_config.diffusers import read_network

TOLERANCE = 1e-5
TIMES = (900.0, 700.0, 400.0, 100.0)
Reals = NDArray[np.float64]

VIDEOS = ("CogVideoXTransformer3DModel", "HunyuanVideoTransformer3DModel")
VIDEOS += ("LTXVideoTransformer3DModel", "WanTransformer3DModel")


def wanted(**changes: Any) -> Wanted:
    """Decisions of four steps."""
    usual = Wanted(source="frame", tau=0.1, dense=0, range_tokens=1, steps=len(TIMES))
    return usual._replace(**changes)


def latents(case: Case) -> Iterator[Any]:
    """A latent for each step, like that of the step before."""
    shared = normal(*case.latent, seed=10)
    for step in range(len(TIMES)):
        yield shared + 0.3 * normal(*case.latent, seed=11 + step)


def recorded(case: Case, network: Any, asked: Wanted) -> Recorded:
    """Decisions of one sample."""
    recorder = ForwardRecorder(network, asked, "here")
    with recorder.attached(), torch.no_grad():
        recorder.begin_sample()
        for time, latent in zip(TIMES, latents(case), strict=True):
            case.forward(network, latent, time)
    return recorder.recorded()


def blocks_of(case: Case, network: Any) -> list[tuple[Any, str, int]]:
    """Blocks in the order of the layers, with the MLP of each and its first image token."""
    blocks = []
    for name, mlp in case.blocks.items():
        blocks += [(block, mlp, case.first[name]) for block in getattr(network, name)]
    return blocks


# ------------------------------------------------------------------ across frames


def rotated(vectors: Reals) -> NDArray[np.complex128]:
    """Wan's rotary embedding, written anew: pairs of neighbours as complex numbers.

    A head of 12 elements has 4 for the frame, 4 for the row of the picture, and 4 for the column.

    Args:
        vectors: [b, n, d] of 3 frames of 2 x 3 tokens.
    """
    heads = vectors.reshape(*vectors.shape[:2], HEADS, HEAD_DIM)
    frames, rows, columns = np.meshgrid(range(FRAMES), range(2), range(3), indexing="ij")
    angles = []
    for places in (frames, rows, columns):
        angles += [places.ravel() * 10_000.0 ** (-2 * i / 4) for i in range(2)]
    turns = np.exp(1j * np.stack(angles, axis=1))  # [n, hd / 2]
    return (heads[..., 0::2] + 1j * heads[..., 1::2]) * turns[:, None]


def test_scores_of_wan_are_those_of_its_rotated_queries_and_keys() -> None:
    case = CASES["WanTransformer3DModel"]()
    network = case.build()
    modules = {}
    for layer, block in enumerate(network.blocks):
        modules["query", layer] = block.attn1.norm_q
        modules["key", layer] = block.attn1.norm_k
    with outputs_of(modules) as seen:
        made = recorded(case, network, wanted())
    assert made.scores is not None
    assert made.grid == (3, 18)
    assert made.scores.shape == (4, 2, 2, 18)
    for step in range(len(TIMES)):
        for layer in range(2):
            queries = rotated(seen["query", layer][step])
            keys = rotated(seen["key", layer][step])
            products = (queries[:, 6:] * keys[:, :12].conj()).real.sum(axis=-1)  # [b, 12, H]
            expected = products.mean(axis=-1) / HEAD_DIM**0.5
            np.testing.assert_allclose(
                made.scores[step, layer, :, 6:], expected, rtol=TOLERANCE, atol=TOLERANCE
            )
    assert np.isnan(made.scores[..., :6]).all()


@pytest.mark.parametrize("name", VIDEOS)
def test_scores_are_those_of_queries_and_keys_where_nothing_is_rotated(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a rotary embedding, attention multiplies what its norms put out."""
    case = CASES[name]()
    network = case.build()
    if hasattr(network, "rope"):
        turn = network.rope.forward

        def no_turn(*args: Any, **kwargs: Any) -> Any:
            cosines, sines = turn(*args, **kwargs)
            return torch.ones_like(cosines), torch.zeros_like(sines)

        monkeypatch.setattr(network.rope, "forward", no_turn)
    modules = {}
    for layer, (block, _, _) in enumerate(blocks_of(case, network)):
        attention = block.attn if hasattr(block, "attn") else block.attn1
        modules["query", layer] = attention.norm_q
        modules["key", layer] = attention.norm_k
    with outputs_of(modules) as seen:
        made = recorded(case, network, wanted())
    assert made.scores is not None
    n = made.grid.tokens
    of_frame = n // FRAMES
    for layer, (_, _, first) in enumerate(blocks_of(case, network)):
        for step in range(len(TIMES)):
            queries = in_heads(seen["query", layer][step])[:, first : first + n]
            keys = in_heads(seen["key", layer][step])[:, first : first + n]
            products = (queries[:, of_frame:] * keys[:, :-of_frame]).sum(axis=-1)
            expected = products.mean(axis=-1) / HEAD_DIM**0.5
            np.testing.assert_allclose(
                made.scores[step, layer, :, of_frame:], expected, rtol=TOLERANCE, atol=TOLERANCE
            )


def in_heads(vectors: Reals) -> Reals:
    """[b, m, H, hd] of [b, m, d], [b, m, H, hd] or [b, H, m, hd]."""
    if vectors.ndim == 3:
        return vectors.reshape(*vectors.shape[:2], HEADS, HEAD_DIM)
    return vectors.swapaxes(1, 2) if vectors.shape[1] == HEADS else vectors


# ------------------------------------------------------------------ across steps


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("dense", [0, 2])
def test_change_of_inputs_is_that_of_plain_loops(name: str, dense: int) -> None:
    case = CASES[name]()
    network = case.build()
    modules = {}
    for layer, (block, mlp, _) in enumerate(blocks_of(case, network)):
        modules[layer] = getattr(block, mlp)
    tau = -0.3
    with outputs_of(modules, inputs=True) as seen:
        made = recorded(case, network, wanted(source="step", tau=tau, dense=dense))
    assert made.scores is not None
    replays = 0
    for layer, (_, _, first) in enumerate(blocks_of(case, network)):
        for row in range(2):
            for token in range(made.grid.tokens):
                held = None
                for step in range(len(TIMES)):
                    inputs = seen[layer][step][row, first + token]
                    score = made.scores[step, layer, row, token]
                    if step < max(1, dense):
                        held = inputs
                        assert np.isnan(score)
                        continue
                    assert held is not None
                    change = -(((inputs - held) ** 2).sum() / (held**2).sum())
                    if step == len(TIMES) - 1:
                        assert np.isnan(score)
                    else:
                        assert score == pytest.approx(change, rel=TOLERANCE, abs=TOLERANCE)
                        assert abs(change - tau) > TOLERANCE
                    if change > tau:
                        replays += 1
                    else:
                        held = inputs
    assert replays > 0


# ------------------------------------------------------------------ a closed loop


class Replaying(torch.nn.Module):  # type: ignore[misc]
    """An MLP that puts out what decisions say, token by token.

    Args:
        mlp: The MLP.
        decisions: Tokens that replay, bool[S, b, n], one step for each call.
        source: Output that they take.
        first: First image token of a sequence.
    """

    def __init__(self, mlp: Any, decisions: NDArray[np.bool_], source: str, first: int) -> None:
        super().__init__()
        self.first = first
        self.of_frame = decisions.shape[2] // FRAMES
        self.mlp = mlp
        self.decisions = decisions
        self.source = source
        self.step = 0
        self.last: Any = None

    def forward(self, entered: Any) -> Any:
        """Outputs, [b, n, d]."""
        made = self.mlp(entered)
        for row, image_token in np.argwhere(self.decisions[self.step]).tolist():
            token = self.first + image_token
            if self.source == "frame":  # tokens stand frame by frame
                made[row, token] = made[row, token - self.of_frame]
            else:
                made[row, token] = self.last[row, token]
        self.last = made.clone()
        self.step += 1
        return made


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("CogVideoXTransformer3DModel", "frame"),
        ("CogVideoXTransformer3DModel", "step"),
        ("LTXVideoTransformer3DModel", "frame"),
        ("PixArtTransformer2DModel", "step"),
        ("WanTransformer3DModel", "frame"),
        ("WanTransformer3DModel", "step"),
    ],
)
def test_a_closed_loop_computes_what_its_decisions_say(name: str, source: Any) -> None:
    case = CASES[name]()
    asked = wanted(source=source, tau=-0.3 if source == "step" else 0.1, is_closed=True)
    network = case.build()
    recorder = ForwardRecorder(network, asked, "here")
    made = []
    with recorder.attached(), torch.no_grad():
        recorder.begin_sample()
        for time, latent in zip(TIMES, latents(case), strict=True):
            made.append(case.forward(network, latent, time))
    scores = recorder.recorded().scores
    assert scores is not None
    with np.errstate(invalid="ignore"):
        replays = scores.astype(np.float64) > asked.tau
    assert 0 < replays.sum() < np.isfinite(scores).sum()
    for layer, (block, name_of_mlp, first) in enumerate(blocks_of(case, network)):
        replaying = Replaying(getattr(block, name_of_mlp), replays[:, layer], source, first)
        setattr(block, name_of_mlp, replaying)
    open_loop = asked._replace(is_closed=False)
    watching = ForwardRecorder(network, open_loop, "here")
    with watching.attached(), torch.no_grad():
        watching.begin_sample()
        for step, latent in enumerate(latents(case)):
            again = case.forward(network, latent, TIMES[step])
            assert torch.equal(again, made[step])
    # The scores of a network that replays are those of the closed loop.
    np.testing.assert_array_equal(watching.recorded().scores, scores)
    assert not np.array_equal(recorded(case, case.build(), open_loop).scores, scores)


# ------------------------------------------------------------------ whole forwards


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("polynomial", [(1.0, 0.0), (0.5, 0.4, 0.01)])
def test_change_of_forwards_adds_up_as_in_plain_loops(
    name: str, polynomial: tuple[float, ...]
) -> None:
    case = CASES[name]()
    network = case.build()
    first = blocks_of(case, network)[0][0]
    module = first.attn if hasattr(first, "attn") else first.attn1
    seen: list[Reals] = []

    def keep(_: Any, args: Any, kwargs: Any) -> None:
        entered = args[0] if args else kwargs["hidden_states"]
        seen.append(entered.numpy().copy())

    asked = wanted(source="forward", tau=-0.45, polynomial=polynomial)
    handle = module.register_forward_pre_hook(keep, with_kwargs=True)
    made = recorded(case, network, asked)
    handle.remove()
    assert made.scores is None
    assert made.reused is None
    reuses = 0
    for row in range(2):
        total = 0.0
        for step in range(1, len(TIMES) - 1):
            change = np.abs(seen[step][row] - seen[step - 1][row]).sum()
            relative = change / np.abs(seen[step - 1][row]).sum()
            for power, factor in enumerate(reversed(polynomial)):
                total += factor * relative**power
            assert made.least[step, :, row] == pytest.approx(-total, rel=TOLERANCE)
            assert abs(total - 0.45) > TOLERANCE
            if total < 0.45:
                reuses += 1
            else:
                total = 0.0
    assert (made.least[[0, -1]] == -0.45).all()
    assert reuses > 0


# ------------------------------------------------------------------ rows, ranges


def test_hooks_change_no_bit_and_are_taken_off() -> None:
    case = CASES["WanTransformer3DModel"]()
    network = case.build()
    latent = next(latents(case))
    recorder = ForwardRecorder(network, wanted(), "here")
    with torch.no_grad():
        before = case.forward(network, latent, 500.0)
        with recorder.attached():
            recorder.begin_sample()
            during = case.forward(network, latent, 500.0)
        after = case.forward(network, latent, 500.0)
    assert torch.equal(before, during)
    assert torch.equal(before, after)
    assert not any(module._forward_hooks for module in network.modules())
    assert not any(module._forward_pre_hooks for module in network.modules())


def test_passes_of_their_own_forwards_are_rows_side_by_side() -> None:
    case = CASES["WanTransformer3DModel"]()
    network = case.build()
    other_prompt = {"encoder_hidden_states": normal(2, 5, 16, seed=30)}
    asked = wanted(source="step", tau=-0.3)
    recorder = ForwardRecorder(network, asked, "here")
    with recorder.attached(), torch.no_grad():
        recorder.begin_sample()
        for time, latent in zip(TIMES, latents(case), strict=True):
            case.forward(network, latent, time)
            prompt = case.given
            case.given = other_prompt
            case.forward(network, latent, time)
            case.given = prompt
    both = recorder.recorded()
    assert both.passes == 2
    assert both.scores is not None
    first = recorded(case, network, asked).scores
    case.given = other_prompt
    second = recorded(case, network, asked).scores
    np.testing.assert_array_equal(both.scores[:, :, 0::2], first)
    np.testing.assert_array_equal(both.scores[:, :, 1::2], second)
    assert not np.array_equal(first, second, equal_nan=True)


@pytest.mark.parametrize("source", ["frame", "step"])
def test_ranges_count_the_tokens_that_replay(source: Any) -> None:
    case = CASES["WanTransformer3DModel"]()
    network = case.build()
    asked = wanted(source=source, tau=-0.3 if source == "step" else 0.1)
    by_token = recorded(case, network, asked).scores
    by_range = recorded(case, network, asked._replace(range_tokens=3))
    assert by_token is not None
    assert by_range.scores is None
    assert by_range.reused is not None
    with np.errstate(invalid="ignore"):
        replays = by_token.astype(float) > asked.tau
    counts = replays.reshape(*replays.shape[:3], 6, 3).sum(axis=-1)
    np.testing.assert_array_equal(by_range.reused, counts)
    assert 0 < counts.sum() < counts.size * 3


# ------------------------------------------------------------------ a whole pipeline


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipelines") / "wan"
    save_pipeline(folder)
    return folder


PLAN: dict[str, Any] = {
    "name": "wan",
    "output": "wan.npz",
    "weights": {"diffusers": "wan"},
    "prompts": ["a cat walks", "a dog"],
    "steps": 3,
    "guidance_scale": 5.0,
    "height": 32,
    "width": 48,
    "frames": 9,
    "source": "frame",
    "tau": 0.1,
    "seed": 3,
}


def write_plan(folder: Path, **changes: Any) -> Path:
    """A recipe beside the pipeline; ``changes`` replace fields, ... takes one out."""
    fields = {name: value for name, value in {**PLAN, **changes}.items() if value is not ...}
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(fields), encoding="utf-8")
    return path


def captured(folder: Path, out: Path, **changes: Any) -> Trace:
    """The trace that the command writes."""
    from click.testing import CliRunner

    from carsim.cli import carsim

    recipe = write_plan(folder, **changes)
    result = CliRunner().invoke(carsim, ["capture", str(recipe), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "replay" in result.output
    return load_trace(out)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dtype": "bfloat16"},
        {"range_tokens": 3},
        {"source": "step", "tau": -0.2, "loop": "closed"},
    ],
)
def test_the_command_captures_a_pipeline(
    pipeline: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    trace = captured(pipeline.parent, tmp_path / "wan.npz", **changes)
    assert trace.meta.origin == "captured"
    assert trace.reused is not None
    assert trace.reused.shape == (3, 2, 4, 18 // changes.get("range_tokens", 1))
    assert trace.meta.content["forwards_of_a_step"] == 2
    assert trace.reused.sum() > 0
    again = captured(pipeline.parent, tmp_path / "again.npz", **changes)
    assert (trace.reused == again.reused).all()


def of_the_same_size(pipeline: Path) -> Design:
    """The network of the pipeline and its sample, on a small machine."""
    raw = load_design("zcu102").model_dump()
    raw["model"] = read_network(pipeline)
    raw["model"]["sample"].update(height=32, width=48, frames=9, steps=3)
    raw["policy"]["batch"] = 2
    return Design.model_validate(raw)


def test_the_machine_runs_what_was_captured(pipeline: Path, tmp_path: Path) -> None:
    trace = captured(pipeline.parent, tmp_path / "wan.npz")
    assert trace.reused is not None
    report = run(of_the_same_size(pipeline), trace, what_if=False, allow_misfit=True)
    dense = report.rows[0].simulation.totals
    own = report.chosen.simulation.totals
    reused = int(trace.reused.sum())
    assert dense["mlp"].macs - own["mlp"].macs == reused * 2 * 24 * 40
    assert "captured" in report.chosen.batches.label


def test_the_machine_runs_whole_forwards_that_were_captured(pipeline: Path, tmp_path: Path) -> None:
    changes = {"source": "forward", "tau": -0.35, "steps": 6}
    trace = captured(pipeline.parent, tmp_path / "wan.npz", **changes)
    assert trace.replay.shape == (6, 2, 4)
    assert (trace.replay == trace.replay[:, :1]).all()
    assert 0 < trace.replay.sum() < trace.replay[1:-1].size
    assert not trace.replay[[0, -1]].any()
    raw = of_the_same_size(pipeline).model_dump()
    raw["model"]["sample"]["steps"] = 6
    raw["policy"]["skip"] = {"kind": "all_layers"}
    report = run(Design.model_validate(raw), trace, what_if=False, allow_misfit=True)
    dense = report.rows[0].simulation.totals
    own = report.chosen.simulation.totals
    reused = int(trace.replay.sum())  # rows of layers, of 18 tokens each
    assert dense["mlp"].macs - own["mlp"].macs == reused * 18 * 2 * 24 * 40
    assert "captured" in report.chosen.batches.label


def test_a_captured_pipeline_stands_for_a_larger_network(pipeline: Path, tmp_path: Path) -> None:
    trace = captured(pipeline.parent, tmp_path / "wan.npz", prompts=["a cat"])
    assert trace.reused is not None
    changes = ["model.preset=wan2.1_1.3b", "model.sample.steps=3", "policy.batch=2"]
    design = load_design("asic_7nm_hbm3", changes)
    report = run(design, trace, what_if=False, allow_misfit=True)
    dense = report.rows[0].simulation.totals
    own = report.chosen.simulation.totals
    # Each of 18 tokens stands for 1,820, each of 2 layers for 15.
    saved = int(trace.reused.sum()) * 1820 * 15 * 2 * 1536 * 8960
    assert dense["mlp"].macs - own["mlp"].macs == saved


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"range_tokens": 4}, "range_tokens: 4 do not divide the 6 tokens of a latent frame"),
        ({"frames": 1}, "one latent frame; take more frames, or source: step"),
        ({"height": 33}, "WanPipeline refuses it"),
    ],
)
def test_recipes_that_do_not_fit_get_one_line(
    pipeline: Path, changes: dict[str, Any], words: str
) -> None:
    assert words in refused(write_plan(pipeline.parent, **changes))


def test_classes_that_are_not_read_are_refused() -> None:
    network = torch.nn.Linear(2, 2)
    with pytest.raises(InputError, match="'Linear' is no network whose forwards are captured"):
        ForwardRecorder(network, wanted(), "here")


@pytest.mark.parametrize("name", ["FluxTransformer2DModel", "HunyuanVideoTransformer3DModel"])
def test_mlps_without_a_module_are_not_replaced(name: str) -> None:
    with pytest.raises(InputError, match="have no module that is the MLP; say loop: open"):
        ForwardRecorder(CASES[name]().build(), wanted(is_closed=True), "here")


def test_pictures_have_no_earlier_frame() -> None:
    case = CASES["PixArtTransformer2DModel"]()
    with pytest.raises(InputError, match="one latent frame; take more frames, or source: step"):
        recorded(case, case.build(), wanted())


def recorder_of(calls: list[float], **changes: Any) -> ForwardRecorder:
    """A recorder that has seen forwards at these times."""
    case = CASES["WanTransformer3DModel"]()
    network = case.build()
    recorder = ForwardRecorder(network, wanted(**changes), "here")
    with recorder.attached(), torch.no_grad():
        recorder.begin_sample()
        for time in calls:
            case.forward(network, next(latents(case)), time)
    return recorder


def test_passes_that_differ_from_step_to_step_are_refused() -> None:
    recorder = recorder_of([9.0, 9.0, 5.0, 5.0, 2.0, 1.0, 1.0])
    with pytest.raises(InputError, match="steps have 1 and 2 forwards of one time"):
        recorder.recorded()


def test_other_steps_than_stated_are_refused() -> None:
    recorder = recorder_of([9.0, 5.0, 2.0])
    with pytest.raises(InputError, match="took 3 denoising steps, and steps is 4"):
        recorder.recorded()


def test_too_many_decisions_are_refused_with_their_size() -> None:
    with pytest.raises(InputError, match=r"2 rows and 18 ranges take some .* GB of memory"):
        recorder_of([9.0], steps=10_000_000)


def test_samples_of_other_sizes_are_refused() -> None:
    case = CASES["WanTransformer3DModel"]()
    network = case.build()
    recorder = ForwardRecorder(network, wanted(), "here")
    with recorder.attached(), torch.no_grad():
        recorder.begin_sample()
        case.forward(network, next(latents(case)), 9.0)
        larger = normal(2, 4, FRAMES, 6, 6)
        with pytest.raises(InputError, match="2 rows of 27 tokens, and 2 of 18 before"):
            case.forward(network, larger, 5.0)


def test_attention_that_is_not_seen_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["WanTransformer3DModel"]()
    network = case.build()
    module = sys.modules[type(network).__module__]
    monkeypatch.setattr(
        module, "dispatch_attention_fn", lambda query, key, value, **rest: torch.zeros_like(query)
    )
    with pytest.raises(InputError, match="block 0 calls no scaled_dot_product_attention"):
        recorded(case, network, wanted())


def test_all_classes_that_are_captured_are_those_of_diffusers() -> None:
    assert set(KINDS) == set(CASES)
    for name in KINDS:
        assert hasattr(diffusers, name)
