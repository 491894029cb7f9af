"""A checkpoint driven by hooks decides and computes what the NumPy decoder does."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hf_maker import IDS, SMALL, edit_config, refused
from numpy.typing import NDArray

from carsim.cli import carsim
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.hf import HfModel, HfPlan, TokenSampling, capture_hf, load_checkpoint
from carsim.decoder.structures import Config, LayerRecord, Policy, stack_weights
from carsim.errors import InputError
from carsim.trace import DenseAttention, Geometry, StreamingAttention, Trace, load_trace

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

VOCABULARY = 40
MHA = Geometry(
    name="tiny", n_layers=3, hidden_size=32, n_heads=4, n_kv_heads=4, head_dim=8, ffn_size=40
)
GQA = MHA.model_copy(update={"n_kv_heads": 2})
PROMPTS = ((3, 9, 4, 11, 7), (1, 5), (8, 2, 6), (1, 5))
TOLERANCE = 1e-4
_MATRICES = {
    "wq": "self_attn.q_proj",
    "wk": "self_attn.k_proj",
    "wv": "self_attn.v_proj",
    "wo": "self_attn.o_proj",
    "w_gate": "mlp.gate_proj",
    "w_up": "mlp.up_proj",
    "w_down": "mlp.down_proj",
    "ln_attn": "input_layernorm",
    "ln_mlp": "post_attention_layernorm",
}


@dataclass(frozen=True)
class Tiny:
    """A checkpoint on disk, loaded, and its arrays."""

    folder: Path
    model: HfModel
    arrays: dict[str, NDArray[np.float32]]


def save_tiny(folder: Path, geometry: Geometry, **config: Any) -> dict[str, NDArray[np.float32]]:
    """Write a random checkpoint, the same with every version of PyTorch; return its arrays."""
    rng = np.random.default_rng(geometry.n_kv_heads)
    network = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=geometry.hidden_size,
            intermediate_size=geometry.ffn_size,
            num_hidden_layers=geometry.n_layers,
            num_attention_heads=geometry.n_heads,
            num_key_value_heads=geometry.n_kv_heads,
            rms_norm_eps=1e-5,
            **config,
        )
    )
    with torch.no_grad():
        for name, weight in network.named_parameters():
            values = rng.standard_normal(weight.shape) / np.sqrt(weight.shape[-1])
            if "norm" in name:
                values = 1 + 0.1 * rng.standard_normal(weight.shape)
            elif "embed" in name or "lm_head" in name:
                values = rng.standard_normal(weight.shape)
            weight.copy_(torch.as_tensor(values))
    network.save_pretrained(folder)
    state = {name: value.numpy().copy() for name, value in network.state_dict().items()}
    arrays = {
        ours: np.stack(
            [state[f"model.layers.{i}.{theirs}.weight"] for i in range(geometry.n_layers)]
        )
        for ours, theirs in _MATRICES.items()
    }
    return arrays | {
        "ln_final": state["model.norm.weight"],
        "embed": state["model.embed_tokens.weight"],
        "head": state["lm_head.weight"],
    }


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


def greedy(tiny: Tiny, scale: float = 3.0) -> Callable[[Any], Any]:
    """Guided greedy sampling, written anew in PyTorch."""
    head, embed = torch.as_tensor(tiny.arrays["head"]), torch.as_tensor(tiny.arrays["embed"])

    def step_model(hidden: Any) -> Any:
        logits = hidden @ head.T
        mixed = logits[1::2] + scale * (logits[0::2] - logits[1::2])
        return embed[mixed.argmax(dim=1).repeat_interleave(2)]

    return step_model


def numpy_decode(
    tiny: Tiny, plan: HfPlan, scale: float = 3.0
) -> tuple[NDArray[np.bool_], NDArray[np.float32], list[NDArray[np.float32]]]:
    """The same video by the NumPy decoder: decisions, scores, and hidden states by step."""
    geometry = tiny.model.geometry
    config = Config(geometry, plan.tokens_per_frame, plan.n_frames)
    weights = stack_weights(config, tiny.arrays)
    taus = plan.tau if isinstance(plan.tau, tuple) else (plan.tau,) * geometry.n_layers
    policy = Policy(taus, plan.tas_form, plan.attention, plan.decision_scope, plan.pairs)
    longest = max(map(len, plan.prompts))
    mask = np.array([[i >= longest - len(row) for i in range(longest)] for row in plan.prompts])
    ids = np.array([(0,) * (longest - len(row)) + row for row in plan.prompts])
    replay = np.zeros((plan.n_steps, geometry.n_layers, plan.n_rows), bool)
    tas = np.full(replay.shape, np.nan, np.float32)

    def record(seen: LayerRecord) -> None:
        replay[seen.step, seen.layer] = seen.replay
        if seen.tas is not None:
            tas[seen.step, seen.layer] = seen.tas

    state, prompt_hidden = prefill(config, policy, weights, tiny.arrays["embed"][ids], mask)
    hidden = [prompt_hidden[:, -1]]
    for _ in range(plan.n_steps):
        logits = hidden[-1] @ tiny.arrays["head"].T
        mixed = logits[1::2] + scale * (logits[0::2] - logits[1::2])
        fed = tiny.arrays["embed"][np.repeat(mixed.argmax(axis=1), 2)]
        hidden.append(decode_step(config, policy, weights, state, fed, record))
    return replay, tas, hidden


PLAN = HfPlan(prompts=PROMPTS, n_frames=4, tokens_per_frame=6)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"tas_form": "paper"},
        {"decision_scope": "pair"},
        {"decision_scope": "batch"},
        {"attention": StreamingAttention(sinks=1, window=3)},
        {"attention": StreamingAttention(sinks=0, window=9), "tas_form": "paper"},
        {"tau": (None, 0.03, -0.2)},
        {"tau": None},
    ],
    ids=lambda change: "-".join(map(str, change)) or "released",
)
def test_hooks_decide_and_compute_what_the_numpy_decoder_does(
    tiny: Tiny, change: dict[str, Any]
) -> None:
    plan = replace(PLAN, **({"tau": 0.03} | change))
    watch = Watch(greedy(tiny), [], [])
    trace = capture_hf(tiny.model, plan, watch)
    replay, tas, hidden = numpy_decode(tiny, plan)
    np.testing.assert_array_equal(trace.replay, replay)
    np.testing.assert_allclose(trace.tas, tas, atol=TOLERANCE, rtol=0)
    np.testing.assert_allclose(watch.hidden, hidden[:-1], atol=TOLERANCE, rtol=0)
    if plan.tau is not None:
        eligible = trace.replay[plan.tokens_per_frame :]
        assert 0 < eligible.mean() < 1, "a plan that never or always replays shows little"


def test_replay_is_really_applied(tiny: Tiny) -> None:
    """With tau minus infinity everything replays: the MLP sees no row after the first frame."""
    rows: list[int] = []
    handle = tiny.model.body.layers[0].mlp.gate_proj.register_forward_hook(
        lambda module, inputs, output: rows.append(len(inputs[0]))
    )
    trace = capture_hf(tiny.model, replace(PLAN, tau=-np.inf))
    handle.remove()
    assert trace.replay[6:].all()
    assert rows == [4] * (1 + 6) + [0] * 18


def test_the_model_is_left_as_it_was(tiny: Tiny) -> None:
    ids = torch.tensor([[1, 2, 3]])
    before = tiny.model.body(ids).last_hidden_state
    capture_hf(tiny.model, replace(PLAN, tau=0.0, n_frames=2))
    with pytest.raises(ZeroDivisionError):
        capture_hf(tiny.model, PLAN, lambda hidden: 1 / 0)
    assert torch.equal(before, tiny.model.body(ids).last_hidden_state)


def test_own_tokens_are_drawn_for_pairs_and_repeat_with_the_seed(tiny: Tiny) -> None:
    plan = replace(PLAN, tau=0.03)
    ours, theirs = capture_hf(tiny.model, plan), capture_hf(tiny.model, plan, greedy(tiny))
    np.testing.assert_array_equal(ours.tas, theirs.tas)
    drawn = replace(plan, sampling=TokenSampling(top_k=5, temperature=2.0), seed=3)
    again, other = capture_hf(tiny.model, drawn), capture_hf(tiny.model, replace(drawn, seed=4))
    np.testing.assert_array_equal(capture_hf(tiny.model, drawn).tas, again.tas)
    assert not np.array_equal(again.tas[6:], other.tas[6:])
    assert not np.array_equal(again.tas[6:], ours.tas[6:])


def test_without_guidance_every_row_is_a_video_and_a_range_bounds_its_tokens(tiny: Tiny) -> None:
    sampling = TokenSampling(top_k=2, first_token=7, last_token=7)
    plan = replace(PLAN, guided=False, sampling=sampling, prompts=PROMPTS[:3])
    trace = capture_hf(tiny.model, plan)
    clips = trace.meta.content["clips"]
    assert isinstance(clips, list)
    assert [clip["kept_tokens"] for clip in clips] == [1.0] * 3  # only token 7 may be drawn
    assert trace.meta.guidance_pairs == ()


def test_half_precision_is_scored_in_single(tiny: Tiny) -> None:
    """Given the same tokens, scores agree to what bfloat16's eight bits leave."""
    embed = torch.as_tensor(tiny.arrays["embed"])
    traces = []
    for dtype in ("bfloat16", "float32"):
        tokens = iter(np.random.default_rng(0).integers(VOCABULARY, size=(PLAN.n_steps, 2)))
        model = load_checkpoint(tiny.folder, dtype=dtype)

        def step_model(hidden: Any, tokens: Any = tokens) -> Any:
            return embed[np.repeat(next(tokens), 2)].to(hidden.dtype)

        traces.append(capture_hf(model, PLAN, step_model))
    half, single = traces
    assert (half.meta.dtype, half.tas.dtype) == ("bfloat16", np.float32)
    np.testing.assert_allclose(half.tas, single.tas, atol=0.06)
    assert len(np.unique(half.tas.astype(np.float16))) < len(np.unique(half.tas))


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(carsim, ["capture", *map(str, arguments)])


def test_the_command_writes_a_trace_that_says_how_it_was_made(tiny: Tiny, tmp_path: Path) -> None:
    out = tmp_path / "a.npz"
    arguments = ["--hf", tiny.folder, "--out", out, *SMALL, *IDS, "--tau", "0.03,none,-.2"]
    result = invoke(*arguments, "--decision-scope", "pair", "--window", 5, "--seed", 2)
    assert result.exit_code == 0, result.output
    trace = load_trace(out)
    meta = trace.meta
    assert (trace.n_steps, trace.n_layers, trace.n_rows) == (12, 3, 4)
    assert meta.tau == (0.03, None, -0.2)
    assert meta.attention == StreamingAttention(sinks=4, window=5)
    assert meta.prompt_lengths == (4, 2, 2, 2)
    assert meta.guidance_pairs == ((0, 1), (2, 3))
    assert meta.decoded == meta.simulated == tiny.model.geometry
    assert meta.weights.startswith("checkpoint tiny, sha256 ")
    assert meta.command == (
        "carsim capture --hf tiny --frames 3 --tokens-per-frame 4 --prompt-ids '3 9 4 11' "
        "--prompt-ids '8 2' --blank-ids '1 5' --tau 0.03,none,-0.2 --decision-scope pair "
        "--window 5 --seed 2"
    )
    assert CliRunner().invoke(carsim, ["trace", "info", str(out)]).exit_code == 0
    plain = tmp_path / "b.npz"
    unguided = ("--guidance-pairs", 0, "--prompt-ids", "3 9", "--visual-tokens", "10:20")
    result = invoke("--hf", tiny.folder, "--out", plain, *SMALL, *unguided)
    assert result.exit_code == 0, result.output
    assert load_trace(plain).meta.attention == DenseAttention()
    assert np.isfinite(load_trace(plain).tas[4:]).all(), "by default all is scored"
    assert not load_trace(plain).replay.any()


def test_text_prompts_go_through_the_tokenizer_of_the_folder(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path / "worded"
    save_tiny(folder, GQA)
    words = {"<s>": 1, "a": 2, "dog": 3, "runs": 4, "?": 5}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    arguments = ["--hf", folder, *SMALL, "--prompt", "a dog runs", "--top-k", 30]
    arguments += ["--temperature", 30]
    result = invoke(*arguments, "--guidance-pairs", 2, "--out", tmp_path / "a.npz")
    assert result.exit_code == 0, result.output
    trace = load_trace(tmp_path / "a.npz")
    assert trace.meta.prompt_lengths == (4, 1, 4, 1)
    assert not np.array_equal(trace.tas[4:, :, 0], trace.tas[4:, :, 2]), "each with its own seed"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prompt", "a dog"], "its tokenizer cannot be used"),
        ([*IDS, "--prompt-ids", "99"], "token 99; give tokens of 0 to 39"),
        ([*IDS, "--tau", "0.1,0.2"], "2 taus for 3 layers"),
        ([*IDS, "--guidance-pairs", 0, "--decision-scope", "pair"], "'pair' needs guidance pairs"),
        ([*IDS, "--visual-tokens", "30:40"], "30:40 is not within the vocabulary"),
        ([*IDS, "--device", "abacus"], "cannot be loaded"),
    ],
)
def test_bad_options_get_one_line(
    tiny: Tiny, tmp_path: Path, arguments: list[object], words: str
) -> None:
    out = tmp_path / "a.npz"
    assert words in refused("--hf", tiny.folder, "--out", out, *SMALL, *arguments)
    assert not out.exists()


def edit_weights(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


QUERY = "model.layers.1.self_attn.q_proj.weight"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: edit_config(f, intermediate_size=48), "9 tensors misshapen: model.layers.0.mlp"),
        (lambda f: (f / "model.safetensors").unlink(), "cannot be loaded"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x" * 50), "cannot be loaded"),
        (lambda f: edit_weights(f, lambda t: t.pop(QUERY)), f"1 tensors missing: {QUERY}"),
        (
            lambda f: edit_weights(f, lambda t: t.update({QUERY[:-6] + "bias": torch.ones(32)})),
            f"1 tensors unknown: {QUERY[:-6]}bias",
        ),
        (
            lambda f: edit_weights(f, lambda t: t.pop("lm_head.weight")),
            "has no lm_head.weight, so that no token can be sampled",
        ),
        (
            lambda f: edit_weights(f, lambda t: t[QUERY].fill_(float("nan"))),
            "decoding: step 0: NaN or infinite numbers",
        ),
    ],
)
def test_bad_checkpoints_get_one_line(
    tmp_path: Path, damage: Callable[[Path], Any], words: str
) -> None:
    folder = tmp_path / "tiny"
    save_tiny(folder, GQA)
    damage(folder)
    arguments = ("--hf", folder, "--out", tmp_path / "a.npz", *SMALL, *IDS)
    assert words in refused(*arguments)


def test_a_step_model_stands_in_for_a_head_that_is_not_there(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    arrays = save_tiny(folder, tiny.model.geometry)
    edit_weights(folder, lambda tensors: tensors.pop("lm_head.weight"))
    body = load_checkpoint(folder)
    assert body.head is None
    without: Trace = capture_hf(body, replace(PLAN, tau=0.03), greedy(replace(tiny, arrays=arrays)))
    np.testing.assert_array_equal(without.tas, capture_hf(tiny.model, replace(PLAN, tau=0.03)).tas)
    with pytest.raises(InputError, match=r"step_model: step 0: returned shape \(3, 32\), expected"):
        capture_hf(body, PLAN, lambda hidden: hidden[1:])


def test_old_checkpoints_with_rotary_frequencies_load(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    save_tiny(folder, MHA)
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    edit_weights(folder, lambda tensors: tensors.update({name: torch.ones(4)}))
    assert load_checkpoint(folder).geometry == MHA
