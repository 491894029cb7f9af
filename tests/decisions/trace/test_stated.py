"""What is stated in place of a trace: dense decoding, and replays at a ratio and an agreement."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_design

from carsim.base.errors import InputError
from carsim.decisions.trace import Stated, load_trace, save_trace
from carsim.decisions.trace.copula import agreement_of, correlation_of_agreement
from carsim.decisions.trace.meta import STATED
from carsim.decisions.trace.stated import MOST_STEPS, TEXT_PROMPT, TEXT_TOKENS
from carsim.design import load_design
from carsim.workload.model import UsualVideo

TINY = tiny_design().model
VILA = load_design("zcu102").model
SMALL = VILA.model_copy(update={"video": UsualVideo(frames=5, tokens_per_frame=64)})


def test_a_model_decides_what_it_makes() -> None:
    video, text = Stated().trace(VILA, 2), Stated().trace(TINY, 2)
    assert (video.meta.kind, video.n_frames, video.tokens_per_frame) == ("video", 8, 256)
    assert (video.prompt_tokens, video.meta.guidance_pairs) == (62, ((0, 1),))
    assert (text.meta.kind, text.n_steps, text.prompt_tokens) == ("text", TEXT_TOKENS, TEXT_PROMPT)
    assert Stated(frames=3).trace(TINY, 2).meta.kind == "video"
    assert Stated(tokens=3).trace(VILA, 2).meta.kind == "text"
    assert Stated(prompt=7).trace(VILA, 2).prompt_tokens == 7


def test_a_text_has_no_guidance_and_takes_no_memory() -> None:
    trace = Stated(prompt=5, tokens=4096).trace(TINY, 3)
    assert trace.meta.guidance_pairs == ()
    assert trace.replay.shape == (4096, 4, 3)
    assert trace.replay.strides == trace.tas.strides == (0, 0, 0)
    assert not trace.replay.any()
    assert trace.meta.never_replays


def test_a_context_is_a_prompt_and_tokens() -> None:
    by_context = Stated(context=(513, 640)).trace(TINY, 1)
    assert (by_context.prompt_tokens, by_context.n_steps) == (512, 128)
    assert Stated(context=(1, 1)).trace(TINY, 1).context().tolist() == [[1]]
    assert by_context.context()[[0, -1], 0].tolist() == [513, 640]


def test_a_single_row_is_a_video_without_guidance() -> None:
    assert Stated(frames=2).trace(SMALL, 1).meta.guidance_pairs == ()


def test_every_label_says_that_nothing_was_captured(tmp_path) -> None:
    for stated in (Stated(frames=2), Stated(replay=0.5), Stated(tokens=4)):
        trace = stated.trace(SMALL, 2)
        assert trace.title.startswith(STATED)
        assert trace.meta.origin == STATED
        saved = save_trace(tmp_path / "stated.npz", trace, overwrite=True)
        assert STATED in load_trace(saved.path).title
    drawn = Stated(replay=0.5, pairs=0.8, seed=3).trace(SMALL, 2)
    assert drawn.title == (
        f"{STATED}: 50 % of eligible steps replay, rows of a pair agree in 80 %, drawn with seed 3"
    )
    assert "(assumed)" in Stated(replay=0.5).trace(SMALL, 2).title


@given(st.floats(0.1, 0.9), st.floats(0, 1), st.integers(0, 99))
def test_what_is_drawn_has_the_ratio_and_the_agreement(ratio: float, share: float, seed: int):
    by_chance = agreement_of(0.0, ratio)
    agreement = by_chance + share * (1 - by_chance)
    trace = Stated(replay=ratio, pairs=agreement, seed=seed).trace(SMALL, 2)
    assert not trace.replay[:64].any()
    eligible = trace.replay[64:]
    # 4 frames of 64 places in 32 layers: 8,192 draws, independent of each other.
    assert eligible.mean() == pytest.approx(ratio, abs=5 * 0.5 / 8192**0.5)
    agree = (eligible[..., 0] == eligible[..., 1]).mean()
    assert agree == pytest.approx(agreement, abs=5 * 0.5 / 8192**0.5)
    both = eligible.all(axis=-1).mean()
    assert both == pytest.approx(ratio - (1 - agreement) / 2, abs=5 * 0.5 / 8192**0.5)


@given(st.floats(0.01, 0.99), st.floats(0, 1))
def test_agreement_and_correlation_lead_to_one_another(ratio: float, share: float) -> None:
    agreement = agreement_of(0.0, ratio) + share * (1 - agreement_of(0.0, ratio))
    assert agreement_of(correlation_of_agreement(agreement, ratio), ratio) == pytest.approx(
        agreement, abs=1e-6
    )


def test_equal_statements_give_equal_traces_and_other_seeds_others() -> None:
    one, two, other = (Stated(replay=0.5, seed=seed).trace(SMALL, 2) for seed in (1, 1, 2))
    assert one.sha256 == two.sha256 != other.sha256
    assert np.array_equal(one.replay, two.replay)
    hashes = {Stated(tokens=n).trace(SMALL, 2).sha256 for n in (1, 2)}
    assert len(hashes) == 2


BAD = {
    "no token": ({"tokens": 0}, "`tokens`: expected a whole number of 1 or more, got 0"),
    "half a frame": ({"frames": 1.5}, "`frames`: expected a whole number"),
    "a negative prompt": ({"prompt": -1}, "`prompt`: expected a whole number of 0 or more"),
    "more than all": ({"replay": 1.2}, "`replay`: expected 0 to 1, got 1.2"),
    "pairs alone": ({"pairs": 0.8}, "`pairs`: says how often decisions to replay agree"),
    "a seed alone": ({"seed": 3}, "`seed`: nothing is drawn; add `replay`"),
    "two kinds": ({"frames": 2, "tokens": 3}, "`tokens`: is of a text, `frames` is of a video"),
    "a text that replays": ({"tokens": 3, "replay": 0.5}, "`replay`: a text has no frame before"),
    "a context twice": ({"context": (1, 2), "prompt": 1}, "`context`: says what `prompt` and"),
    "a context backwards": ({"context": (5, 2)}, "`context`: 5:2 ends before it begins"),
    "no context": ({"context": (0, 2)}, "`context`: expected a whole number of 1 or more, got 0"),
    "less than chance": ({"replay": 0.5, "pairs": 0.3}, "agree in 0.5 by chance alone, got 0.3"),
    "one frame": ({"frames": 1, "replay": 0.5}, "`replay`: the first frame never replays"),
    "too long": ({"tokens": MOST_STEPS + 1}, "`tokens`: 131,073 steps are more than the limit"),
}


@pytest.mark.parametrize(("fields", "message"), BAD.values(), ids=BAD)
def test_what_makes_no_sense_is_one_clear_line(fields, message) -> None:
    with pytest.raises(InputError) as caught:
        Stated(**fields).trace(SMALL, 2)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_text_beyond_the_context_of_the_model_is_refused() -> None:
    model = TINY.model_copy(update={"context": 100})
    Stated(prompt=60, tokens=40).trace(model, 1)
    with pytest.raises(InputError, match=r"^`tokens`: a prompt of 60 tokens and 41 more is longer"):
        Stated(prompt=60, tokens=41).trace(model, 1)
    with pytest.raises(InputError, match=r"^`prompt`: a prompt of 101 tokens is longer than the"):
        Stated(prompt=101).trace(model, 1)


def test_replays_need_whole_pairs() -> None:
    with pytest.raises(InputError, match="a batch of 3 is no whole number of guidance pairs"):
        Stated(replay=0.5).trace(SMALL, 3)
