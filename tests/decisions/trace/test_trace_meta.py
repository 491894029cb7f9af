"""What a trace says of itself: thresholds as a phrase, and quality that was measured."""

import json
from typing import Any

import pytest
from pydantic import ValidationError
from trace_maker import make_meta, make_quality

from carsim.base.errors import InputError
from carsim.base.statistics import Interval
from carsim.decisions.replay import InputChange, Tas
from carsim.decisions.trace.meta import Geometry, parse_meta
from carsim.decisions.trace.precision import DecoderPrecision

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
        ((INF, INF, INF, 2.1, 2.1, 2.1), "tau 2.1 (layers 0, 1, 2 never replay)"),
        ((2.1, 2.1, 2.1, 2.1, None, 2.1), "tau 2.1 (layer 4 never replays)"),
        ((INF, 0.5, INF, INF, -1.25, 3.0), "tau -1.25 to 3 (layers 0, 2, 3 never replay)"),
        (-INF, "tau -inf"),
    ],
)
def test_thresholds_as_a_phrase(tau: Any, phrase: str) -> None:
    assert make_meta(tau=tau, decoded=SIX_LAYERS).tau_text == phrase


def test_thresholds_name_a_rule_that_is_not_fastcars() -> None:
    assert make_meta(tau=1.05, rule=Tas(form="paper")).tau_text == "tau 1.05"
    of_head = make_meta(tau=0.8, rule=Tas(form="paper", head=1, offset=1))
    assert of_head.tau_text == "tau 0.8 on TAS (form paper, head 1, offset 1)"
    change = make_meta(tau=(INF, -0.1), rule=InputChange(elements=1))
    words = "tau -0.1 on input change (bits 8, elements 1) (layer 0 never replays)"
    assert change.tau_text == words
    assert make_meta(tau=INF, rule=InputChange()).tau_text == "no replay"


def test_what_is_no_metadata_is_refused_in_one_line() -> None:
    raw = json.loads(make_meta().model_dump_json())
    cure = r".*, or capture the trace again$"
    for changes, problem in (
        ({"tas_form": "paper"}, r"\$\.tas_form: unknown key 'tas_form'; "),
        ({"sead": 1}, r"\$\.sead: unknown key 'sead'; did you mean 'seed'\? "),
        ({"rule": {"kind": "tas", "form": "mean"}}, r"\$\.rule\.form: should be 'released' or"),
        ({"schema_version": 1}, r"\$\.schema_version: should be 2 or 3, got 1"),
    ):
        with pytest.raises(InputError, match=rf"^x: {problem}{cure}"):
            parse_meta(json.dumps(raw | changes), "x")
    for text in ('{"seed": ', '["seed"]', '"seed"', "[" * 9999 + '"seed"'):
        with pytest.raises(InputError, match=r"^x: \$: .*capture the trace again"):
            parse_meta(text, "x")


def test_means_over_clips_and_paired_differences() -> None:
    quality = make_meta(quality=make_quality()).quality
    losses = quality.teacher_forced_nats
    assert (quality.n_clips, losses.own_mean, losses.dense_mean) == (2, 2.0, 1.875)
    assert quality.loss == Interval(0.125, 0.0, 0.25)


def test_figures_of_pictures_in_earlier_files_are_left_out() -> None:
    earlier = make_quality(peak=255, by_sampling=[{"sampling": "greedy", "psnr_db": 1}])
    fields = json.loads(make_meta(quality=make_quality()).model_dump_json())
    assert parse_meta(json.dumps(fields | {"quality": earlier}), "x") == make_meta(
        quality=make_quality()
    )


def losses(own: Any, dense: Any) -> dict[str, Any]:
    return {"teacher_forced_nats": {"own": own, "dense": dense}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"first_frame": 3}, "quality from frame 3 on, there are 3 frames"),
        (losses((0.5, 0.5), (0.5,)), "2 clips beside 1 of dense decoding"),
        (losses((0.5,) * 3, (0.5,) * 3), "quality of 3 clips, there are 2"),
        (losses((INF, 1.0), (1.0, 1.0)), "finite number"),
        (losses((-1.0, 1.0), (1.0, 1.0)), "greater than or equal to 0"),
        (losses((), ()), "at least 1 item"),
    ],
)
def test_quality_that_contradicts_itself(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        make_meta(quality=make_quality(**changes))
    assert words in str(caught.value)


def test_a_precision_is_kept_and_files_of_before_have_none() -> None:
    few = DecoderPrecision.model_validate({"weights": {"bits": 4, "group": 8}, "replay": 4})
    assert parse_meta(make_meta(precision=few).model_dump_json(), "t.npz").precision == few
    fields = json.loads(make_meta().model_dump_json())
    del fields["precision"]
    assert parse_meta(json.dumps(fields), "t.npz").precision is None


def test_a_precision_must_fit_what_was_decoded() -> None:
    fields = json.loads(make_meta().model_dump_json())
    fields["precision"] = {"kv": {"bits": 4, "group": 3}}
    with pytest.raises(InputError, match=r"kv: group 3 does not divide all of 4"):
        parse_meta(json.dumps(fields), "t.npz")


@pytest.mark.parametrize("field", ["content", "sampling"])
def test_lists_stay_lists_in_fields_of_any_json(field: str) -> None:
    meta = make_meta(**{field: {"visual_tokens": [10, [20]]}})
    assert parse_meta(meta.model_dump_json(), "t.npz") == meta
