"""A checkpoint driven by hooks decides and computes what the NumPy decoder does."""

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_llama import GQA, MHA, VOCABULARY, Tiny, greedy, plan, save_tiny, torch

from carsim.decisions.attention import Streaming
from carsim.decisions.replay import InputChange, Periodic, Tas
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.hf import StepModel, capture_hf, load_checkpoint
from carsim.decoder.hf.sampling import TokenSampler
from carsim.decoder.hf_recipe import CheckpointRecipe
from carsim.decoder.structures import Config, LayerRecord, stack_weights

TOLERANCE = 1e-4


@pytest.fixture(scope="module", params=[MHA, GQA], ids=["mha", "gqa"])
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    folder = tmp_path_factory.mktemp("hf") / "tiny"
    arrays = save_tiny(folder, request.param)
    return Tiny(folder, load_checkpoint(folder), arrays)


@dataclass(eq=False)
class Watch:
    """A step model that notes the hidden states it is shown before it lets another answer."""

    inner: Callable[[Any], Any]
    hidden: list[NDArray[np.float32]]
    fed: list[NDArray[np.float32]]

    def __call__(self, hidden: Any) -> Any:
        out = self.inner(hidden)
        self.hidden.append(hidden.numpy().copy())
        self.fed.append(out.numpy().copy())
        return out


def numpy_decode(
    tiny: Tiny, recipe: CheckpointRecipe, scale: float = 3.0
) -> tuple[NDArray[np.bool_], NDArray[np.float32], list[NDArray[np.float32]]]:
    """The same video by the NumPy decoder: decisions, scores, and hidden states by step."""
    geometry, prompts = tiny.model.geometry, recipe.rows
    config = Config(geometry, recipe.tokens_per_frame, recipe.n_frames)
    weights = stack_weights(config, tiny.arrays)
    policy = recipe.policy_of(geometry, recipe.pairs)
    longest = max(map(len, prompts))
    mask = np.array([[i >= longest - len(row) for i in range(longest)] for row in prompts])
    ids = np.array([(0,) * (longest - len(row)) + row for row in prompts])
    replay = np.zeros((recipe.n_steps, geometry.n_layers, len(prompts)), bool)
    tas = np.full(replay.shape, np.nan, np.float32)

    def record(seen: LayerRecord) -> None:
        replay[seen.step, seen.layer] = seen.replay
        if seen.tas is not None:
            tas[seen.step, seen.layer] = seen.tas

    state, prompt_hidden = prefill(config, policy, weights, tiny.arrays["embed"][ids], mask)
    hidden = [prompt_hidden[:, -1]]
    for _ in range(recipe.n_steps):
        logits = hidden[-1] @ tiny.arrays["head"].T
        mixed = logits[1::2] + scale * (logits[0::2] - logits[1::2])
        fed = tiny.arrays["embed"][np.repeat(mixed.argmax(axis=1), 2)]
        hidden.append(decode_step(state, fed, record))
    return replay, tas, hidden


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"rule": Tas(form="paper")},
        {"rule": Tas(form="paper", head=2, offset=1)},
        {"rule": Tas(gain=0.5)},
        {"rule": Tas(max_age=1)},
        {"rule": InputChange(bits=16, max_age=2), "tau": -0.9, "decision_scope": "pair"},
        {"rule": Periodic(gain=(1.0, 0.25, 0.0)), "tau": 0.5},
        {"rule": InputChange(bits=16), "tau": -0.9},
        {"rule": InputChange(bits=None, elements=5), "tau": -0.9},
        {"decision_scope": "pair"},
        {"decision_scope": "batch"},
        {"attention": Streaming(sinks=1, window=3)},
        {"attention": Streaming(sinks=0, window=9), "rule": Tas(form="paper")},
        {"tau": (None, 0.03, -0.2)},
        {"tau": None},
    ],
    ids=lambda change: "-".join(map(str, change)) or "released",
)
def test_hooks_decide_and_compute_what_the_numpy_decoder_does(tiny: Tiny, change: dict[str, Any]):
    recipe = plan(**({"tau": 0.03} | change))
    watch = Watch(greedy(tiny), [], [])
    trace = capture_hf(tiny.model, recipe, watch)
    replay, tas, hidden = numpy_decode(tiny, recipe)
    np.testing.assert_array_equal(trace.replay, replay)
    np.testing.assert_allclose(trace.tas, tas, atol=TOLERANCE, rtol=0)
    np.testing.assert_allclose(watch.hidden, hidden[:-1], atol=TOLERANCE, rtol=0)
    if recipe.tau is not None:
        taus = np.array(recipe.policy_of(tiny.model.geometry, ()).tau, float)
        assert np.nanmin(np.abs(tas - taus[:, None])) > 2e-5, "no decision hangs on rounding"
        eligible = trace.replay[recipe.tokens_per_frame :]
        assert 0 < eligible.mean() < 1, "a plan that never or always replays shows little"


def test_replay_is_really_applied(tiny: Tiny) -> None:
    """With tau minus infinity everything replays: the MLP sees no row after the first frame."""
    rows: list[int] = []
    handle = tiny.model.body.layers[0].mlp.gate_proj.register_forward_hook(
        lambda module, inputs, output: rows.append(len(inputs[0]))
    )
    trace = capture_hf(tiny.model, plan(tau=-np.inf))
    handle.remove()
    assert trace.replay[6:].all()
    assert rows == [4] * (1 + 6) + [0] * 18


def test_the_model_is_left_as_it_was(tiny: Tiny) -> None:
    ids = torch.tensor([[1, 2, 3]])
    before = tiny.model.body(ids).last_hidden_state
    capture_hf(tiny.model, plan(tau=0.0, n_frames=2))
    with pytest.raises(ZeroDivisionError):
        capture_hf(tiny.model, plan(), lambda hidden: 1 / 0)
    assert torch.equal(before, tiny.model.body(ids).last_hidden_state)


def test_own_tokens_are_drawn_for_pairs_and_repeat_with_the_seed(tiny: Tiny) -> None:
    given = plan(tau=0.03)
    ours, theirs = capture_hf(tiny.model, given), capture_hf(tiny.model, given, greedy(tiny))
    np.testing.assert_array_equal(ours.tas, theirs.tas)
    drawn = {"tau": 0.03, "sampling": {"method": "top_k", "k": 5, "temperature": 2.0}}
    once, again, other = (capture_hf(tiny.model, plan(**drawn, seed=seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(once.tas, again.tas)
    assert not np.array_equal(again.tas[6:], other.tas[6:])
    assert not np.array_equal(again.tas[6:], ours.tas[6:])


def test_without_guidance_every_row_is_a_video_and_a_range_bounds_its_tokens(tiny: Tiny) -> None:
    sampling = {"method": "top_k", "k": 2, "visual_tokens": (7, 7)}
    recipe = plan(guidance=None, sampling=sampling, prompts=((3, 9, 4, 11, 7), (1, 5), (8, 2, 6)))
    watch = Watch(TokenSampler(tiny.model, recipe), [], [])
    trace = capture_hf(tiny.model, recipe, watch)
    assert (np.array(watch.fed) == tiny.arrays["embed"][7]).all(), "only token 7 may be drawn"
    assert trace.meta.guidance_pairs == ()


def test_half_precision_is_scored_in_single(tiny: Tiny) -> None:
    """Given the same tokens, scores agree to what bfloat16's eight bits leave."""
    embed = torch.as_tensor(tiny.arrays["embed"])
    traces = []
    for dtype in ("bfloat16", "float32"):
        tokens = iter(np.random.default_rng(0).integers(VOCABULARY, size=(24, 2)))
        model = load_checkpoint(tiny.folder, dtype=dtype)

        def step_model(hidden: Any, tokens: Any = tokens) -> Any:
            return embed[np.repeat(next(tokens), 2)].to(hidden.dtype)

        traces.append(capture_hf(model, plan(), step_model))
    half, single = traces
    assert (half.meta.dtype, half.tas.dtype) == ("bfloat16", np.float32)
    np.testing.assert_allclose(half.tas, single.tas, atol=0.06)
    assert len(np.unique(half.tas.astype(np.float16))) < len(np.unique(half.tas))


class DepthHead:
    """As VILA-U's: all conditional rows, then all blank ones; in and out with an axis of one."""

    def __init__(self, tiny: Tiny) -> None:
        self.head = torch.as_tensor(tiny.arrays["head"])
        self.embed = torch.as_tensor(tiny.arrays["embed"])

    def generate(self, rows: Any, cfg: float) -> tuple[Any, Any]:
        conditional, blank = (rows[:, 0] @ self.head.T).chunk(2)
        codes = (blank + cfg * (conditional - blank)).argmax(dim=1).repeat(2)
        return self.embed[codes][:, None], codes


def test_a_depth_head_plugs_in_as_the_docstring_of_step_model_says(tiny: Tiny) -> None:
    names: dict[str, Any] = {
        "torch": torch,
        "rqtransformer": DepthHead(tiny),
        "mm_projector": lambda x: x,
    }
    names["cfg"] = 3.0
    lines = inspect.getdoc(StepModel).partition("::\n")[2].replace("rqvaesiglip, ", "")
    exec(textwrap.dedent(lines), names)
    given = plan(tau=0.03)
    plugged = capture_hf(tiny.model, given, names["step_model"])
    np.testing.assert_array_equal(plugged.tas, capture_hf(tiny.model, given).tas)
    assert plugged.meta.sampling == {"by": "function"}
