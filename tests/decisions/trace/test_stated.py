"""What is stated in place of a trace: dense decoding, and replays at a ratio and an agreement."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import yaml
from explore_study import make_study
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_design

from carsim.base.errors import InputError
from carsim.decisions.trace import load_trace, save_trace
from carsim.decisions.trace.drawn import agreement_of
from carsim.decisions.trace.meta import STATED
from carsim.decisions.trace.stated import MOST_STEPS, TEXT_PROMPT, TEXT_TOKENS, stated_trace
from carsim.design import load_design
from carsim.explore.sweep import sweep
from carsim.runs.first import Wish, first_design
from carsim.runs.pipeline import run
from carsim.workload.model import UsualVideo
from carsim.workload.workload import Workload, workload_of

TINY = tiny_design().model
VILA = load_design("zcu102").model
SMALL = VILA.model_copy(update={"video": UsualVideo(frames=5, tokens_per_frame=64)})


def decoded(word, model, batch):
    return stated_trace(workload_of(word), model, batch)


def test_what_is_not_said_is_usual() -> None:
    video, text = decoded("video", VILA, 2), decoded("text", TINY, 2)
    assert (video.meta.kind, video.n_frames, video.tokens_per_frame) == ("video", 8, 256)
    assert (video.prompt_tokens, video.meta.guidance_pairs) == (62, ((0, 1),))
    assert (text.meta.kind, text.n_steps, text.prompt_tokens) == ("text", TEXT_TOKENS, TEXT_PROMPT)
    assert decoded("text:3", VILA, 2).meta.kind == "text"
    assert decoded("video:prompt=7", VILA, 2).prompt_tokens == 7


WORDS = {
    "text": Workload("text"),
    "text:512": Workload("text", tokens=512),
    "text:2048+512": Workload("text", prompt=2048, tokens=512),
    "video:8": Workload("video", frames=8),
    "video:8,replay=0.5,pairs=0.9": Workload("video", frames=8, replay=0.5, pairs=0.9),
    "video:2,guidance=false": Workload("video", frames=2, guidance=False),
    "video:2,replay=0.5,seed=3": Workload("video", frames=2, replay=0.5, seed=3),
    "trace:a,b.npz": Workload("trace", traces=("a", "b.npz")),
}


@pytest.mark.parametrize("word", WORDS)
def test_a_word_a_file_and_the_class_say_the_same(word, tmp_path) -> None:
    work = WORDS[word]
    assert workload_of(word) == work
    assert workload_of(work.text) == work
    path = tmp_path / "work.yaml"
    fields = {key: value for key, value in asdict(work).items() if value not in (None, ())}
    path.write_text(yaml.safe_dump({k: list(v) if k == "traces" else v for k, v in fields.items()}))
    assert workload_of(path) == work


def test_a_text_has_no_guidance_and_takes_no_memory() -> None:
    trace = decoded("text:5+4096", TINY, 2)
    assert trace.meta.guidance_pairs == ()
    assert trace.replay.shape == (4096, 4, 2)
    assert trace.replay.strides == trace.tas.strides == (0, 0, 0)
    assert not trace.replay.any()
    assert trace.meta.never_replays


def test_a_context_is_a_prompt_and_tokens() -> None:
    by_context = stated_trace(Workload.at_contexts(513, 640), TINY, 1)
    assert (by_context.prompt_tokens, by_context.n_steps) == (512, 128)
    assert stated_trace(Workload.at_contexts(1), TINY, 1).context().tolist() == [[1]]
    assert by_context.context()[[0, -1], 0].tolist() == [513, 640]


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_without_guidance_each_row_is_a_video(batch: int) -> None:
    unguided = decoded("video:2,guidance=false", SMALL, batch)
    assert unguided.meta.guidance_pairs == ()
    assert unguided.n_rows == batch
    assert "without guidance" in unguided.meta.content["stated"]


def test_every_label_says_that_nothing_was_captured(tmp_path) -> None:
    for word in ("video:2", "video:replay=0.5", "text:4"):
        trace = decoded(word, SMALL, 2)
        assert trace.title.startswith(STATED)
        assert trace.meta.origin == STATED
        saved = save_trace(tmp_path / "stated.npz", trace, overwrite=True)
        assert STATED in load_trace(saved.path).title
    drawn = decoded("video:replay=0.5,pairs=0.8,seed=3", SMALL, 2)
    assert drawn.title == (
        f"{STATED}: 50 % of eligible steps replay, rows of a pair agree in 80 %, drawn with seed 3"
    )
    assert "(assumed)" in decoded("video:replay=0.5", SMALL, 2).title


@given(st.floats(0.1, 0.9), st.floats(0, 1), st.integers(0, 99))
def test_what_is_drawn_has_the_ratio_and_the_agreement(ratio: float, share: float, seed: int):
    by_chance = agreement_of(0.0, ratio)
    agreement = by_chance + share * (1 - by_chance)
    trace = stated_trace(Workload("video", replay=ratio, pairs=agreement, seed=seed), SMALL, 2)
    assert not trace.replay[:64].any()
    eligible = trace.replay[64:]
    # 4 frames of 64 places in 32 layers: 8,192 draws, independent of each other.
    assert eligible.mean() == pytest.approx(ratio, abs=5 * 0.5 / 8192**0.5)
    agree = (eligible[..., 0] == eligible[..., 1]).mean()
    assert agree == pytest.approx(agreement, abs=5 * 0.5 / 8192**0.5)
    both = eligible.all(axis=-1).mean()
    assert both == pytest.approx(ratio - (1 - agreement) / 2, abs=5 * 0.5 / 8192**0.5)


def test_equal_statements_give_equal_traces_and_other_seeds_others() -> None:
    one, two, other = (decoded(f"video:replay=0.5,seed={n}", SMALL, 2) for n in (1, 1, 2))
    assert one.sha256 == two.sha256 != other.sha256
    assert np.array_equal(one.replay, two.replay)
    assert len({decoded(f"text:{n}", SMALL, 2).sha256 for n in (1, 2)}) == 2


BAD = {
    "no token": ("text:0", "tokens: expected a whole number of 1 or more, got 0"),
    "half a frame": ("video:frames=1.5", "frames: expected a whole number"),
    "a negative prompt": ("video:prompt=-1", "prompt: expected a whole number of 0 or more"),
    "no number": ("text:many", "got 'text:many'; say text:2048+512"),
    "three numbers": ("text:1+2+3", "got 'text:1+2+3'; say text:2048+512"),
    "no kind": ("vidoe:8", "got 'vidoe:8'; did you mean 'video'? say"),
    "an unknown field": ("video:8,tau=1", "unknown field 'tau'"),
    "more than all": (
        "video:replay=1.2",
        "replay: expected a share of 0 to 1, such as 0.5 for 50 %, got 1.2",
    ),
    "pairs alone": ("video:pairs=0.8", "pairs is of decisions to replay, and nothing replays"),
    "a seed alone": ("video:seed=3", "seed is of decisions to replay, and nothing replays; add"),
    "two kinds": ("text:3,frames=2", "`workload` text: has no `frames`: its fields are prompt"),
    "a text that replays": ("text:3,replay=0.5", "`workload` text: has no `replay`"),
    "a guidance that is a number": ("video:guidance=1", "guidance: expected true or false, got 1"),
    "replay without pairs": ("video:replay=0.5,guidance=false", "drawn for guidance pairs, and"),
    "a text with guidance": ("text:3,guidance=false", "`workload` text: has no `guidance`"),
    "no trace": ("trace:", "names no trace; say trace:NAME"),
    "less than chance": ("video:replay=0.5,pairs=0.3", "agree in 0.5 by chance alone, got 0.3"),
    "one frame": ("video:1,replay=0.5", "the first frame never replays"),
    "too many frames": ("video:2049", "frames: 131,136 steps are more than the limit"),
    "too long": (f"text:{MOST_STEPS + 1}", "tokens: 131,073 steps are more than the limit"),
}


@pytest.mark.parametrize(("word", "message"), BAD.values(), ids=BAD)
def test_what_makes_no_sense_is_one_clear_line(word, message) -> None:
    with pytest.raises(InputError) as caught:
        decoded(word, SMALL, 2)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_context_ends_after_it_begins() -> None:
    with pytest.raises(InputError, match="5:2 ends before it begins"):
        Workload.at_contexts(5, 2)


def test_a_text_beyond_the_context_of_the_model_is_refused() -> None:
    model = TINY.model_copy(update={"context": 100})
    decoded("text:60+40", model, 1)
    with pytest.raises(InputError, match=r"60 tokens and 41 new ones are more than the context"):
        decoded("text:60+41", model, 1)


@pytest.mark.parametrize("word", ["video", "video:2", "video:replay=0.5", "video:2,guidance=true"])
@pytest.mark.parametrize("batch", [1, 3, 9])
def test_a_video_needs_whole_guidance_pairs(word: str, batch: int) -> None:
    message = f"a batch of {batch} is no whole number of guidance pairs; take an even batch, or say"
    with pytest.raises(InputError, match=message):
        decoded(word, SMALL, batch)


def test_odd_batches_are_refused_wherever_a_video_is_stated(tmp_path: Path) -> None:
    design = tiny_design("policy.batch=3")
    with pytest.raises(InputError, match="is no whole number of guidance pairs"):
        run(design, workload="video:2")
    with pytest.raises(InputError, match="is no whole number of guidance pairs"):
        first_design(Wish.of("zcu102", "tiny", batch=3, workload=workload_of("video:2")))
    axes = {"policy.batch": [1, 2, 3, 4]}
    rows = sweep(make_study(tmp_path, axes=axes, traces=None, workload="video:2"), workers=0)
    assert rows["status"].tolist() == ["invalid", "ok", "invalid", "ok"]
    assert rows["reason"].str.contains("guidance=false").tolist() == [True, False, True, False]
    speeds = [
        run(tiny_design(f"policy.batch={n}"), workload="video:2,guidance=false") for n in (1, 2)
    ]
    assert [each.chosen.batches.videos_per_batch for each in speeds] == [1, 2]
