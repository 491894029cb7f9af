"""Runs without a trace, beside what is worked out by hand and by other parts of carsim."""

import json

import pytest
from tiny import tiny_design, tiny_report, tiny_trace

from carsim import Workload, compare, load_design, run
from carsim.base.errors import InputError
from carsim.design import override
from carsim.report import summary
from carsim.runs.decode import decode


def tinyllama():
    return load_design("zcu102", ["model.preset=tinyllama_1b", "machine.include_head=true"])


def test_a_text_decodes_as_fast_as_plain_decoding_does() -> None:
    """The same figure by another way: `validate boards` simulates steps without a video."""
    design = override(tinyllama(), {"policy.batch": 1})
    plain = decode(design, 100)
    found = run(design, workload=Workload.at_contexts(100, 100)).chosen
    assert found.stream_tokens_per_s == pytest.approx(plain.tokens_per_s, rel=1e-9)
    assert found.tokens_per_s == found.stream_tokens_per_s


def test_the_first_token_comes_after_prompt_and_first_step() -> None:
    design = tinyllama()
    whole = run(design, workload="text:50+20")
    first = run(design, workload="text:50+1").chosen
    assert whole.chosen.first_token_s == pytest.approx(first.latency_s)
    without = run(design, workload="text:0+1").chosen
    assert without.seconds_by_phase["prefill"] == 0
    assert without.first_token_s == pytest.approx(without.latency_s)
    assert whole.bound.first_token_s is None


def test_joules_of_a_token_leave_the_prompt_out() -> None:
    design = tinyllama()
    short, long = (run(design, workload=f"text:{p}+4").chosen for p in (0, 400))
    of_all = long.energy_per_video.value_j / 4
    assert short.energy_per_token.value_j < long.energy_per_token.value_j < 0.5 * of_all
    assert short.energy_per_token.value_j == pytest.approx(short.energy_per_video.value_j / 4)


def test_where_nothing_replays_no_row_does_and_no_cache_is_held() -> None:
    report = run(load_design("zcu102"), workload="video:2")
    assert [row.variant.key for row in report.rows] == ["dense/static", "streaming/static", "bound"]
    assert report.chosen is report.baseline
    contents = [c.content for use in report.fit.memories for c in use.contents]
    assert "replay cache" not in contents
    replaying = run(load_design("zcu102"), workload="video:2,replay=0.5")
    contents = [c.content for use in replaying.fit.memories for c in use.contents]
    assert "replay cache" in contents


def test_dense_decoding_takes_what_the_dense_row_of_a_trace_takes() -> None:
    design = override(tiny_design(), {"model.video": {"frames": 3, "tokens_per_frame": 16}})
    design = override(design, {"model.video.prompt_tokens": 5})
    dense = run(design, workload="video:3", allow_misfit=True).chosen
    assert dense.latency_s == tiny_report().row("dense, static").latency_s


def test_a_text_is_stored_and_compared_as_one() -> None:
    a = run(tinyllama(), workload="text:8")
    assert summary(a)["video"]["kind"] == "text"
    found = compare(a, override(tinyllama(), {"machine.cores": 1}), workload="text:8")
    assert found.change("stream_tokens_per_s").relative < 0
    assert found.named("time per video") == "time per text"
    json.dumps(found.document(), allow_nan=False)


def test_traces_and_statements_exclude_each_other() -> None:
    with pytest.raises(InputError, match="trace`: says what is decoded, and so does"):
        run(tiny_design(), [tiny_trace()], workload="video:3")


def test_what_nobody_stated_is_refused() -> None:
    design = load_design("zcu102")
    with pytest.raises(InputError, match=r"what draft attention \(.* depends on the data"):
        run(override(design, {"policy.attention": {"kind": "draft"}}))
    with pytest.raises(InputError, match=r"policy\.tau: .* hold no scores"):
        run(override(design, {"policy.tau": 0.3}), workload="video:2,replay=0.5")
    with pytest.raises(InputError, match="3 tokens do not divide a text of 128"):
        run(override(design, {"policy.tokens_per_step": 3}), workload="text:128")
