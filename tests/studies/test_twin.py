"""The twin: training resumes to the bit, and what it learns is what the NumPy decoder decodes."""

from dataclasses import replace

import numpy as np
import pytest

from carsim.decoder.content import (
    DIGITS,
    HELD_OUT_PHOTOS,
    TOKENS_PER_FRAME,
    Clip,
    load_codebook,
    make_clip,
)
from carsim.decoder.model import TEXT_SYMBOLS, load_model, save_model
from carsim.decoder.sampling import greedy
from carsim.decoder.structures import Policy

torch = pytest.importorskip("torch")  # an extra, as training is no part of the simulator

from studies.twin import data, decoding, heldout, network, optimiser, tas, train  # noqa: E402

TINY = network.Shape(n_layers=3, hidden_size=32, n_heads=4, ffn_size=24)
CURRICULUM = (data.Stage(0.5, 1, 2, (1.0,)), data.Stage(1.0, 2, 1, (0.0, 2.0)))
PLAN = train.Plan(4, warm_up=2, shape=TINY, curriculum=CURRICULUM)


@pytest.fixture(scope="module")
def codebook():
    return load_codebook(train.CODEBOOK)


@pytest.fixture(scope="module")
def trained(codebook):
    training = train.Training(PLAN, codebook)
    rows = [training.advance() for _ in range(PLAN.n_steps)]
    return training, rows


def test_an_interrupted_training_ends_at_the_same_bits(trained, codebook, tmp_path):
    straight, _ = trained
    before = train.Training(PLAN, codebook)
    for _ in range(2):
        before.advance()
    before.save(tmp_path / "checkpoint.pt")
    after = train.Training(PLAN, codebook)
    after.load(tmp_path / "checkpoint.pt")
    for _ in range(2):
        after.advance()
    assert after.step == straight.step == PLAN.n_steps
    for name, expected in straight.twin.state_dict().items():
        assert torch.equal(after.twin.state_dict()[name], expected), name
    untrained = train.Training(PLAN, codebook).twin.state_dict()
    assert not torch.equal(untrained["w_up"], straight.twin.w_up)


def test_a_step_reports_the_losses_of_the_first_frame_and_of_later_ones_apart(trained):
    _, rows = trained
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert np.isnan(rows[0]["loss"])  # the first stage here has single frames
    assert 0 < rows[3]["loss"] < 2 * np.log(512)
    assert rows[3]["loss_first_frame"] != rows[3]["loss"]


def test_the_log_goes_on_where_the_checkpoint_is(tmp_path):
    steps = [
        {"step": step, "lr": 0.1, "loss_first_frame": 5.0, "loss": step, "gradient_norm": 1.0}
        | {"tokens": 512}
        for step in (9, 10)
    ]
    row = train.log_row(steps, seconds=4.0)
    assert dict(zip(train.LOG_COLUMNS, row, strict=True)) == {
        "step": "10",
        "lr": "0.1",
        "loss_first_frame": "5",
        "loss": "9.5",
        "gradient_norm": "1",
        "tokens_per_s": "256",
        "hour": row[-1],
    }
    path = tmp_path / "log.csv"
    path.write_text("10,a\n20,b\n30,c\n")
    train.cut_log(path, 25)
    assert path.read_text() == "10,a\n20,b\n"


def test_the_rate_warms_up_stays_and_falls_to_zero():
    plan = train.Plan(100, lr=1.0, warm_up=10, decay_share=0.2)
    rates = [plan.rate(step) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert set(rates[9:80]) == {1.0}
    assert rates[90] == pytest.approx(0.5)
    assert rates[100] == 0


def test_numpy_decoder_gives_the_logits_that_torch_gives(trained, codebook, tmp_path):
    training, _ = trained
    save_model(tmp_path / "twin.safetensors", network.to_model(training.twin))
    model = load_model(tmp_path / "twin.safetensors")
    clips = [Clip("camera", "pan", 2.0), Clip(DIGITS, "bounce", 1.0)]
    prompts = [clip.caption for clip in clips]  # of unlike lengths, so one is padded on the left
    assert len({len(prompt) for prompt in prompts}) == 2
    given = np.stack([codebook.encode(make_clip(clip, 1)) for clip in clips])
    seen = []

    def choose(logits):
        seen.append(logits)
        return greedy(logits)

    policy = Policy((None,) * TINY.n_layers)
    codes = decoding.decode_rows(model, policy, prompts, given, 2, choose)
    rows = [(prompt, row.ravel(), 0) for prompt, row in zip(prompts, codes, strict=True)]
    batch = data.assemble(rows, codebook.n_codes)
    with torch.no_grad():
        logits = network.from_model(model)(batch.tokens, batch.positions).numpy()
    for row, prompt in enumerate(prompts):
        start = len(prompt) + TOKENS_PER_FRAME
        expected = logits[row, start : start + TOKENS_PER_FRAME]
        assert np.abs(np.stack(seen)[:, row] - expected).max() < 1e-4
        assert np.ptp(expected) > 0.1


def test_first_heads_start_by_looking_at_their_distance(codebook):
    twin = network.Twin(network.Shape(n_layers=1))
    network.initialise(twin, codebook, 0)
    shape = twin.shape
    length = 2 * TOKENS_PER_FRAME + 40
    codes = torch.from_numpy(np.random.default_rng(0).integers(shape.n_codes, size=length))
    x = network.rms_norm(twin.embed_visual[codes], twin.ln_attn[0])
    cos, sin = network.rotary(torch.arange(length)[None], shape)
    heads = [
        (x @ w[0].T).view(length, shape.n_heads, -1).transpose(0, 1) for w in (twin.wq, twin.wk)
    ]
    q, k = (network.rotate(head, cos[0], sin[0]) for head in heads)
    logits = (q @ k.mT / shape.head_dim**0.5).detach().numpy()  # [H, S, S]
    for head, distance in enumerate(network.FIRST_GAZES[0]):
        steps = np.arange(2 * TOKENS_PER_FRAME, length)
        by_distance = [logits[head, steps, steps - back].mean() for back in range(length - 40)]
        assert int(np.argmax(by_distance)) == distance


def test_shared_queries_and_keys_stay_one_in_training_and_across_checkpoints(codebook, tmp_path):
    plan = replace(PLAN, shape=replace(TINY, n_layers=4, hidden_size=96, n_heads=4))
    start = network.to_model(train.Training(plan, codebook).twin)
    training = train.Training(plan, codebook, start=start)
    shared = training.twin.shared
    assert shared.sum(1).tolist() == [0, 0, 0, 32]  # a third of 96, after the gazing layers
    rows = shared[3]
    first = training.twin.wq[3, rows].clone()
    assert torch.allclose(first @ first.T, 1.5**2 * torch.eye(32), atol=1e-5)
    training.advance()
    training.save(tmp_path / "checkpoint.pt")
    resumed = train.Training(plan, codebook, start=start)
    resumed.load(tmp_path / "checkpoint.pt")
    resumed.advance()
    training.advance()
    for twin in (training.twin, resumed.twin):
        arrays = network.to_model(twin).arrays
        same = (arrays["wq"][3] == arrays["wk"][3]).all(axis=1)
        assert same.tolist() == rows.tolist()
        assert not torch.equal(twin.wq[3, rows], first)
    assert torch.equal(training.twin.wq, resumed.twin.wq)


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


def test_batches_depend_on_seed_and_step_alone(codebook):
    stage = data.Stage(1.0, 2, 2, (1.0, 4.0))
    one, same, next_ = (data.draw_batch(stage, codebook, 3, step) for step in (5, 5, 6))
    assert torch.equal(one.tokens, same.tokens)
    assert not torch.equal(one.targets[:, :99], next_.targets[:, :99])


def test_training_never_sees_a_held_out_photograph():
    stage = data.Stage(1.0, 2, 1, (1.0,))
    rng = np.random.default_rng(0)
    photos = {data.draw_clip(stage, rng).photo for _ in range(300)}
    assert not photos & set(HELD_OUT_PHOTOS)
    assert DIGITS in photos
    assert len(photos) == 11


def test_muon_moves_along_an_orthogonal_matrix():
    for size in ((2, 6, 10), (2, 10, 6)):
        parameter = torch.nn.Parameter(torch.zeros(size))
        parameter.grad = torch.from_numpy(np.random.default_rng(0).standard_normal(size)).float()
        optimiser.Muon([parameter], lr=1.0).step()
        moved = torch.linalg.svdvals(parameter.detach()) / (0.2 * 10**0.5)
        assert (moved > 0.6).all()
        assert (moved < 1.3).all()
        assert ((parameter * parameter.grad).sum((1, 2)) < 0).all()


def test_trivial_predictors_know_that_still_clips_stand_still(codebook):
    trivial = heldout.fit_trivial(codebook, (0.0, 8.0), n_frames=2)
    assert trivial.unigram.sum() == pytest.approx(1)
    assert trivial.copied[0.0] > 0.999
    assert 0 < trivial.copied[8.0] < 0.6
    twin = network.Twin(TINY)  # all zero: every code is equally likely
    scores = heldout.score(twin, codebook, trivial, (Clip("coins", "pan", 0.0),), 2)
    assert scores["loss"].tolist() == pytest.approx([np.log(codebook.n_codes)])
    assert scores["loss_copy"].item() < 0.01
    assert scores["accuracy_copy"].item() == 1


def test_auc_is_the_chance_that_a_positive_scores_higher():
    import pandas as pd

    assert tas.auc(pd.Series([1.0, 2.0, 3.0, 3.0]), pd.Series([False, True, False, True])) == (
        pytest.approx((1 + 0.5 + 1 + 0) / 4)
    )


def test_watch_sees_scores_of_every_layer_after_the_first_frame(trained, codebook):
    training, _ = trained
    clips = (Clip("coins", "pan", 0.0), Clip("coins", "pan", 4.0))
    table = tas.watch(network.to_model(training.twin), codebook, clips, 2)
    assert len(table) == TOKENS_PER_FRAME * TINY.n_layers * len(clips)
    still = table.groupby("clip")["still"].mean()
    assert still[0] > 0.99 > 0.5 > still[1]  # the begin symbol is the one place that changes
    assert table["likeness"].between(-1.0001, 1.0001).all()
    assert not table["released"].equals(table["paper"])
