"""What a trace says of itself: thresholds as a phrase, and quality that was measured."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from trace_maker import make_meta, make_quality

from carsim.base.errors import InputError
from carsim.base.statistics import Interval
from carsim.decisions.replay import InputChange, Tas
from carsim.decisions.trace.geometry import Geometry
from carsim.decisions.trace.meta import parse_meta
from carsim.decisions.trace.precision import DecoderPrecision
from carsim.decisions.trace.quality import MOST_PSNR_DB, PerClip

INF = float("inf")
SIX_LAYERS = Geometry(**{**make_meta().decoded.model_dump(), "n_layers": 6})


@pytest.mark.parametrize(
    ("tau", "phrase"),
    [
        (None, "no replay"),
        (INF, "no replay"),
        ((None, INF, None, INF, INF, INF), "no replay"),
        (2.0771, "tau 2.0771"),
        ((2.1,) * 6, "tau 2.1"),
        ((INF, INF, INF, 2.1, 2.1, 2.1), "tau 2.1 (layers 0-2 never replay)"),
        ((2.1, 2.1, 2.1, 2.1, None, 2.1), "tau 2.1 (layer 4 never replays)"),
        ((INF, 0.5, INF, INF, -1.25, 3.0), "tau -1.25 to 3 (layers 0, 2-3 never replay)"),
        (-INF, "tau -inf"),
    ],
)
def test_thresholds_as_a_phrase(tau: Any, phrase: str) -> None:
    assert make_meta(tau=tau, decoded=SIX_LAYERS).tau_text == phrase


def test_thresholds_name_a_rule_that_is_not_fastcars() -> None:
    assert make_meta(tau=1.05, rule=Tas(form="paper")).tau_text == "tau 1.05"
    of_head = make_meta(tau=0.8, rule=Tas(form="paper", head=1, offset=1))
    assert of_head.tau_text == "tau 0.8 on TAS (paper form, head 1, key one place later)"
    change = make_meta(tau=(INF, -0.1), rule=InputChange(bits=4, elements=1))
    words = "tau -0.1 on input change (4 bit, 1 element) (layer 0 never replays)"
    assert change.tau_text == words
    whole = make_meta(tau=-0.1, rule=InputChange(bits=None))
    assert whole.tau_text == "tau -0.1 on input change (not quantised, all elements)"
    assert make_meta(tau=INF, rule=InputChange()).tau_text == "no replay"


def test_what_is_no_metadata_is_refused_in_one_line() -> None:
    raw = json.loads(make_meta().model_dump_json())
    cure = r".*, or capture the trace again$"
    for changes, problem in (
        ({"tas_form": "paper"}, r"\$\.tas_form: unknown key 'tas_form'; "),
        ({"sead": 1}, r"\$\.sead: unknown key 'sead'; did you mean 'seed'\? "),
        ({"rule": {"kind": "tas", "form": "mean"}}, r"\$\.rule\.form: should be 'released' or"),
        ({"schema_version": 1}, r"\$\.schema_version: should be 2, got 1"),
    ):
        with pytest.raises(InputError, match=rf"^x: {problem}{cure}"):
            parse_meta(json.dumps(raw | changes), "x")
    for text in ('{"seed": ', '["seed"]', '"seed"', "[" * 9999 + '"seed"'):
        with pytest.raises(InputError, match=r"^x: \$: .*capture the trace again"):
            parse_meta(text, "x")


def test_generated_clips_are_judged_under_the_traces_own_sampling() -> None:
    """Rows that were drawn, or fed true tokens, do not have the quality of greedy rows."""
    assert make_meta(quality=make_quality()).own_quality is None
    drawn = {"mode": "sampled", "sampling": {"method": "top_k", "k": 5}}
    assert make_meta(quality=make_quality(), **drawn).own_quality is None
    both = make_quality()
    both["by_sampling"] += ({**both["by_sampling"][0], "sampling": "top_k"},)
    own = make_meta(quality=both, **drawn).own_quality
    assert own is not None
    assert own.sampling == "top_k"


def test_means_over_clips_and_paired_differences() -> None:
    quality = make_meta(quality=make_quality()).quality
    assert quality is not None
    greedy = quality.by_sampling[0]
    assert (quality.n_clips, quality.loss.mean) == (2, 0.125)
    assert (greedy.psnr_db.own_mean, greedy.psnr_db.dense_mean) == (26.0, 27.0)
    assert greedy.psnr_db.difference == Interval(-1.0, -1.5, -0.5)
    assert greedy.token_agreement_mean == 0.375


FIGURES = st.lists(
    st.tuples(st.floats(0, MOST_PSNR_DB), st.floats(0, MOST_PSNR_DB)), min_size=1, max_size=4
)


@given(figures=FIGURES)
def test_means_lie_among_clips_and_differ_by_the_mean_difference(
    figures: list[tuple[float, float]],
) -> None:
    own, dense = zip(*figures, strict=True)
    found = PerClip(own=own, dense=dense)
    assert min(own) <= found.own_mean * (1 + 1e-12)
    assert found.own_mean <= max(own) * (1 + 1e-12)
    assert found.difference.mean == pytest.approx(found.own_mean - found.dense_mean, abs=1e-9)


def test_quality_survives_the_file() -> None:
    meta = make_meta(quality=make_quality())
    assert parse_meta(meta.model_dump_json(), "x") == meta


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"first_frame": 3}, "quality from frame 3 on, there are 3 frames"),
        ({"token_agreement": (0.5,)}, "token_agreement of 1 clips, loss of 2"),
        ({"ssim": {"own": (0.5,), "dense": (0.5,)}}, "ssim of 1 clips, loss of 2"),
        ({"ssim": {"own": (0.5, 0.5), "dense": (0.5,)}}, "2 clips beside 1 of dense decoding"),
        ({"ssim": {"own": (0.5, -2.0), "dense": (0.5, 0.5)}}, "expected -1 to 1, got -2"),
        ({"psnr_db": {"own": (60.0, 1.0), "dense": (1.0, 1.0)}}, "expected 0 to 58.9226, got 60"),
        ({"psnr_db": {"own": (INF, 1.0), "dense": (1.0, 1.0)}}, "finite number"),
        ({"clip_nats": {"own": (-1.0, 1.0), "dense": (1.0, 1.0)}}, "expected 0 to inf, got -1"),
        ({"teacher_forced_nats": {"own": (), "dense": ()}}, "at least 1 item"),
        ({"token_agreement": (0.5, 1.2)}, "less than or equal to 1"),
        ({"peak": 1}, "Input should be 255"),
        ({"sampling": "beam"}, "'greedy' or 'top_k'"),
    ],
)
def test_quality_that_contradicts_itself(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        make_meta(quality=make_quality(**changes))
    assert words in str(caught.value)


def test_quality_of_more_clips_than_there_are() -> None:
    three = dict.fromkeys(("own", "dense"), (0.5,) * 3)
    names = ("psnr_db", "ssim", "clip_nats", "teacher_forced_nats")
    quality = make_quality(**dict.fromkeys(names, three), token_agreement=(0.5,) * 3)
    with pytest.raises(ValidationError, match="quality of 3 clips, there are 2"):
        make_meta(quality=quality)


def test_a_sampling_is_listed_once() -> None:
    quality = make_quality()
    with pytest.raises(ValidationError, match="a sampling is listed twice"):
        make_meta(quality={**quality, "by_sampling": quality["by_sampling"] * 2})


def test_a_precision_is_kept_and_files_of_before_have_none() -> None:
    few = DecoderPrecision.model_validate({"weights": {"bits": 4, "group": 8}, "replay": 4})
    meta = make_meta(precision=few)
    assert parse_meta(meta.model_dump_json(), "t.npz").precision == few
    fields = json.loads(make_meta().model_dump_json())
    del fields["precision"]
    assert parse_meta(json.dumps(fields), "t.npz").precision is None


def test_a_precision_must_fit_what_was_decoded() -> None:
    fields = json.loads(make_meta().model_dump_json())
    fields["precision"] = {"kv": {"bits": 4, "group": 3}}
    with pytest.raises(InputError, match=r"kv: group 3 does not divide all of 4"):
        parse_meta(json.dumps(fields), "t.npz")
