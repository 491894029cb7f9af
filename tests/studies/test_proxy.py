"""The proxy model: training resumes to the bit; the NumPy decoder decodes what it learns."""

import copy

import numpy as np
import pytest

from carsim.decoder.content import TOKENS_PER_FRAME, load_codebook
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.group import embed_prompts
from carsim.decoder.model import TEXT_SYMBOLS, load_model, save_model
from carsim.decoder.structures import Config, DecoderPolicy, stack_weights

torch = pytest.importorskip("torch")  # an extra, as training is no part of the simulator

from studies.content import CODEBOOK  # noqa: E402
from studies.proxy import counted, data, network, training  # noqa: E402
from studies.proxy.photos import Clip, make_clip  # noqa: E402

TINY = network.Shape(n_layers=3, hidden_size=32, n_heads=4, ffn_size=24)
CURRICULUM = (data.Stage(0.5, 1, 2), data.Stage(1.0, 2, 1))
PLAN = training.Plan(4, warm_up=2, shape=TINY, curriculum=CURRICULUM)


@pytest.fixture(scope="module")
def codebook():
    return load_codebook(CODEBOOK)


@pytest.fixture(scope="module")
def walks():
    """Two walks in which half of the codes change from frame to frame."""
    walk = np.random.default_rng(0).integers(512, size=(2, 12, TOKENS_PER_FRAME))
    walk[:, :, : TOKENS_PER_FRAME // 2] = walk[:, :1, : TOKENS_PER_FRAME // 2]
    return list(walk.astype(np.int16))


@pytest.fixture(scope="module")
def trained(codebook, walks):
    run = training.Training(PLAN, walks, codebook)
    return run, [run.advance() for _ in range(PLAN.n_steps)]


def test_an_interrupted_training_ends_at_the_same_bits(trained, walks, codebook, tmp_path):
    straight, _ = trained
    before = training.Training(PLAN, walks, codebook)
    for _ in range(2):
        before.advance()
    before.save(tmp_path / "checkpoint.pt")
    after = training.Training(PLAN, walks, codebook)
    after.load(tmp_path / "checkpoint.pt")
    for _ in range(2):
        after.advance()
    assert after.step == straight.step == PLAN.n_steps
    for name, expected in straight.twin.state_dict().items():
        assert torch.equal(after.twin.state_dict()[name], expected), name
    untrained = training.Training(PLAN, walks, codebook).twin.state_dict()
    assert not torch.equal(untrained["w_up"], straight.twin.w_up)


def test_a_step_reports_the_losses_of_the_first_frame_and_of_later_ones_apart(trained):
    _, rows = trained
    assert np.isnan(rows[0]["loss"])  # the first stage here has single frames
    assert 0 < rows[3]["loss"] < 2 * np.log(512)
    assert rows[3]["loss_first_frame"] != rows[3]["loss"]


def decode_rows(model, policy, prompts, given, n_frames, choose):
    """One row per prompt: given frames int64[B, frames, 256] first, then frames of its own."""
    config = Config(model.geometry, TOKENS_PER_FRAME, n_frames)
    weights = stack_weights(config, model.arrays)
    arrays = {key: array.astype(np.float32) for key, array in model.arrays.items()}
    texts = tuple(text.encode() for text in prompts)
    prompt, mask = embed_prompts(model, texts, max(map(len, texts)), config)
    state, _ = prefill(config, policy, weights, prompt, mask)
    codes = np.zeros((len(texts), config.n_steps), np.int64)
    n_given = given[0].size
    codes[:, :n_given] = given.reshape(len(texts), -1)
    x = np.tile(arrays["begin"], (len(texts), 1))
    for step in range(config.n_steps):
        hidden = decode_step(state, x)
        if step >= n_given:
            codes[:, step] = choose(hidden.astype(np.float64) @ arrays["head"].T)
        x = arrays["embed_visual"][codes[:, step]]
    return codes.reshape(len(texts), n_frames, TOKENS_PER_FRAME)


def test_numpy_decoder_gives_the_logits_that_torch_gives(trained, codebook, tmp_path):
    run, _ = trained
    save_model(tmp_path / "twin.safetensors", network.to_model(run.twin))
    model = load_model(tmp_path / "twin.safetensors")
    clips = [Clip("camera", "pan", 2.0), Clip("coins", "rotate", 1.0)]
    prompts = [clip.caption for clip in clips]  # of unlike lengths, so one is padded on the left
    assert len({len(prompt) for prompt in prompts}) == 2
    given = np.stack([codebook.encode(make_clip(clip, 1)) for clip in clips])
    seen = []

    def choose(logits):
        seen.append(logits)
        return logits.argmax(axis=1)

    codes = decode_rows(model, DecoderPolicy((None,) * TINY.n_layers), prompts, given, 2, choose)
    rows = [(prompt, row.ravel(), 0) for prompt, row in zip(prompts, codes, strict=True)]
    batch = data.assemble(rows, codebook.n_codes)
    with torch.no_grad():
        twin = copy.deepcopy(run.twin).half().float()  # rounded as the exported arrays are
        logits = twin(batch.tokens, batch.positions).numpy()
    for row, prompt in enumerate(prompts):
        start = len(prompt) + TOKENS_PER_FRAME
        expected = logits[row, start : start + TOKENS_PER_FRAME]
        assert np.abs(np.stack(seen)[:, row] - expected).max() < 1e-4
        assert np.ptp(expected) > 0.1


def test_a_batch_feeds_each_code_after_the_one_it_follows(codebook):
    codes = np.arange(2 * TOKENS_PER_FRAME) % codebook.n_codes
    batch = data.assemble([("ab", codes, 0), ("a", codes, 512)], codebook.n_codes)
    assert batch.tokens.shape == (2, 2 + 2 * TOKENS_PER_FRAME)
    begin = TEXT_SYMBOLS + codebook.n_codes
    assert batch.tokens[0, :4].tolist() == [97, 98, begin, TEXT_SYMBOLS]
    assert batch.targets[0, 2:5].tolist() == [0, 1, 2]
    assert batch.positions[1, :3].tolist() == [0, 513, 514]  # far from its prompt
    first = data.FIRST_FRAME_WEIGHT * TOKENS_PER_FRAME
    assert batch.weights.sum(1).tolist() == pytest.approx([first + TOKENS_PER_FRAME] * 2)
    assert batch.weights[0, :2].tolist() == [0, 0]
    assert batch.weights[1, -1] == 0  # padding


def test_the_counted_rival_is_a_distribution():
    rng = np.random.default_rng(0)
    clips = [rng.integers(8, size=(3, TOKENS_PER_FRAME)) for _ in range(4)]
    fitted = counted.fit(clips, 8)
    chances = []
    for code in range(8):  # at the last place, which is context of no other
        clip = clips[0].copy()
        clip[-1, -1] = code
        chances.append(np.exp(-fitted.nats(clip)[-1, -1]))
    assert sum(chances) == pytest.approx(1)


def test_the_counted_rival_copies_what_stands_and_follows_what_moves():
    rng = np.random.default_rng(0)

    def clip(shift: int) -> np.ndarray:
        wide = rng.integers(64, size=(16, 64))
        return np.stack([wide[:, shift * t : shift * t + 16].ravel() for t in range(4)])

    for shift in (0, 2):
        fitted = counted.fit([clip(shift) for _ in range(12)], 64)
        nats = fitted.nats(clip(shift)).reshape(3, 16, 16)
        seen = nats[:, 3:, 3:12]  # away from the border, where there is something to follow
        assert seen.mean() < 0.3
        assert fitted.nats(rng.integers(64, size=(4, 256))).mean() > 3.5
