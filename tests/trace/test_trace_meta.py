"""What a trace says of itself: thresholds as a phrase, and quality that was measured."""

import json
from typing import Any

import pytest
from pydantic import ValidationError
from trace_maker import make_meta, make_quality

from carsim.errors import InputError
from carsim.replay import InputChange, Tas
from carsim.trace.meta import Geometry, parse_meta

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


@pytest.mark.parametrize("form", ["released", "paper"])
def test_metadata_from_before_rules_had_kinds(form: str) -> None:
    meta = make_meta(rule=Tas(form=form))
    raw = json.loads(meta.model_dump_json())
    del raw["rule"]
    old = parse_meta(json.dumps(raw | {"tas_form": form}), "x")
    assert old == meta
    assert "tas_form" not in old.model_dump_json()
    assert parse_meta(json.dumps(raw), "x").rule == Tas(form="released")


@pytest.mark.parametrize("form", ["mean", None, {"a": 1}])
def test_an_odd_form_is_told_where_it_stands_now(form: Any) -> None:
    raw = json.loads(make_meta().model_dump_json()) | {"tas_form": form}
    del raw["rule"]
    with pytest.raises(InputError, match=r"x: \$\.rule\.tas\.form: Input should be 'released' or"):
        parse_meta(json.dumps(raw), "x")
    for text in ('{"tas_form": ', '["tas_form"]', '"tas_form"', "[" * 9999 + '"tas_form"'):
        with pytest.raises(InputError, match=r"^x: \$: "):
            parse_meta(text, "x")


def test_a_form_beside_a_rule_is_refused() -> None:
    raw = json.loads(make_meta().model_dump_json()) | {"tas_form": "paper"}
    with pytest.raises(InputError, match=r"x: \$\.tas_form: Extra inputs are not permitted"):
        parse_meta(json.dumps(raw), "x")


def test_quality_as_an_ending() -> None:
    assert make_meta().quality_text == ""
    greedy = {"mode": "sampled", "sampling": {"method": "greedy"}}
    meta = make_meta(quality=make_quality(), **greedy)
    assert meta.quality_text == ", PSNR 31.5 dB to dense (greedy)"
    same = make_quality(psnr_db=INF)
    assert make_meta(quality=same, **greedy).quality_text == ", identical to dense (greedy)"


def test_a_label_shows_the_quality_of_the_traces_own_sampling() -> None:
    """Rows that were drawn, or fed true tokens, do not have the quality of greedy rows."""
    assert make_meta(quality=make_quality()).quality_text == ""
    drawn = {"mode": "sampled", "sampling": {"method": "top_k", "k": 5}}
    assert make_meta(quality=make_quality(), **drawn).quality_text == ""
    both = make_quality()
    top_k = {**both["by_sampling"][0], "sampling": "top_k", "psnr_db": 16.6}
    both["by_sampling"] += (top_k,)
    assert make_meta(quality=both, **drawn).quality_text == ", PSNR 16.6 dB to dense (top_k)"


def test_quality_survives_the_file() -> None:
    meta = make_meta(quality=make_quality(psnr_db=INF, psnr_db_by_frame=(INF, INF)))
    assert parse_meta(meta.model_dump_json(), "x") == meta


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_clips": 3}, "quality of 3 clips, there are 2"),
        ({"first_frame": 2}, "2 numbers of psnr_db by frame for 1 generated frames"),
        ({"psnr_db_by_frame": ()}, "0 numbers of psnr_db by frame for 2 generated frames"),
        ({"ssim_by_frame": (0.5,)}, "1 numbers of ssim by frame for 2"),
        ({"identical_clips": 3}, "more identical clips than clips"),
        ({"token_agreement": 1.2}, "less than or equal to 1"),
        ({"psnr_db": float("nan")}, "expected a number, not NaN"),
        ({"teacher_forced_nats": INF}, "finite"),
        ({"peak": 1}, "Input should be 255"),
        ({"sampling": "beam"}, "'greedy' or 'top_k'"),
    ],
)
def test_quality_that_contradicts_itself(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        make_meta(quality=make_quality(**changes))
    assert words in str(caught.value)


def test_a_sampling_is_listed_once() -> None:
    quality = make_quality()
    with pytest.raises(ValidationError, match="a sampling is listed twice"):
        make_meta(quality={**quality, "by_sampling": quality["by_sampling"] * 2})
