"""Comparisons: what differs between two runs, and that its numbers are those of the runs."""

from pathlib import Path

import pytest
from tiny import MISFIT, tiny_design, tiny_report, tiny_trace, write_inputs

from carsim import compare, load_trace, run
from carsim.base.errors import InputError, MisfitError
from carsim.design.load import build_design
from carsim.metrics import INTERVALS
from carsim.report import save_report
from carsim.report.compare import RunComparison
from carsim.report.compare_words import answer, changed_table, ratios_lines, spec_table
from carsim.report.run_tables import elasticities_table
from carsim.report.stored import stored
from carsim.runs.report import Report

CLOCK = "board.fabric_clock_mhz=500"
SPARSE = "policy.attention={kind: streaming, sinks: 1, window: 8}"


def faster() -> RunComparison:
    return compare(tiny_report(), tiny_report(CLOCK))


def test_a_run_is_like_itself() -> None:
    same = compare(tiny_report(), tiny_report())
    assert same.spec == same.inputs == same.notes == ()
    assert all(change.difference in (0, None) for change in (*same.metrics, *same.breakdown))
    assert next(iter(answer(same))).endswith("s, as in A.")
    assert all(text.endswith("; B is better in 50 % of draws") for text in ratios_lines(same))


def test_what_differs_is_named_by_path() -> None:
    (only,) = faster().spec
    assert (only.path, only.a, only.b) == ("board.fabric_clock_mhz", 250.0, 500.0)
    assert faster().inputs == ()


def test_an_order_is_certain_where_intervals_of_boards_are_apart() -> None:
    stored = faster().a
    low, high = INTERVALS["expected_seconds_per_video"]

    def of(factor: float) -> list[str]:
        own = stored.own.model_copy(
            update={low: factor * stored.own[low], high: factor * stored.own[high]}
        )
        other = stored.model_copy(update={"policies": (own,), "result": "calibrated"})
        return [text for text in answer(RunComparison(faster().b, other)) if " interval" in text]

    assert "90 % intervals of A and B overlap:" in of(1.0)[0]
    assert "do not overlap:" in of(1.5 * stored.own[high] / stored.own[low])[0]
    assert [text for text in answer(faster()) if text.startswith("A has ")] == []


def test_a_section_that_only_one_design_has_is_one_difference() -> None:
    design = tiny_design().model_dump()
    removed = design["board"]["memories"].pop("pl_ddr")
    found = compare(build_design(design, "b"), tiny_report(), traces=[tiny_trace()])
    (only,) = found.spec
    assert (only.path, only.a) == ("board.memories.pl_ddr", None)
    assert only.b["standard"] == removed["standard"]
    ((_, of_a, of_b),) = spec_table(found).rows
    assert of_a == "-"
    assert len(of_b) < 70


def test_numbers_are_those_of_the_reports() -> None:
    a, b, found = tiny_report(), tiny_report(CLOCK), faster()
    frames = a.to_frame(), b.to_frame()
    for name in frames[0].index:
        for metric in ("latency_s", "energy_per_video_j", "busy", "memory_gb_per_video"):
            change = found.change(metric, name)
            of_a, of_b = (frame.loc[name, metric] for frame in frames)
            assert (change.a, change.b) == (pytest.approx(of_a), pytest.approx(of_b))
            assert found.document()["metrics"][name][metric]["b"] == change.b
            assert change.difference == pytest.approx(of_b - of_a)
            assert change.relative == pytest.approx(of_b / of_a - 1)
    (told,) = (row for row in changed_table(found).rows if row[0] == "time per video [s]")
    assert float(told[3]) == pytest.approx(float(told[2]) - float(told[1]), rel=1e-2)


def test_where_time_went_adds_up_to_the_difference() -> None:
    for other in (CLOCK, SPARSE, "policy.batch=2", "machine.include_head=false"):
        found = compare(tiny_report(), tiny_report(other))
        total, parts = found.change("seconds_per_video"), found.breakdown
        assert sum(each.a or 0 for each in parts) == pytest.approx(total.a)
        assert sum(each.difference or 0 for each in parts) == pytest.approx(total.difference)
        assert any(text.startswith("Where the time of a video went: ") for text in answer(found))


def test_what_forbids_plain_differences_is_said() -> None:
    def notes(other: Report) -> str:
        return " ".join(compare(tiny_report(), other).notes)

    assert "Decisions are those captured in" in notes(tiny_report("policy.tau=0.5"))
    assert "MISFIT: B does not fit its board: DSP slices: " in notes(tiny_report(MISFIT))
    assert "videos differ" in notes(run(tiny_design(), [tiny_trace(n_frames=2)]))
    text = run(tiny_design(), workload="text:4")
    assert "A decodes a video, B a text, which is different work." in notes(text)
    assert elasticities_table(stored(text)).headings[2] == "time per new token per +10 %"
    assert "video.steps" in [each.path for each in compare(tiny_report(), text).inputs]


def test_folders_reports_and_designs_compare_alike(tmp_path: Path) -> None:
    save_report(tiny_report(), tmp_path / "a")
    save_report(tiny_report(CLOCK), tmp_path / "b")
    design, trace = write_inputs(tmp_path)
    wanted = faster().document()["metrics"]
    assert compare(tmp_path / "a", str(tmp_path / "b")).document()["metrics"] == wanted
    assert compare(design, tiny_design(CLOCK), traces=[trace]).document()["metrics"] == wanted
    assert compare(tmp_path / "a", tiny_design(CLOCK), traces=[load_trace(trace)]).spec == (
        faster().spec
    )


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a design, and has to be simulated on a trace"):
        compare(tiny_design(), tiny_report())
    with pytest.raises(InputError, match=r"holds no summary.json; name the folder of a run"):
        compare(tmp_path, tiny_report())
    misfit = tiny_design(MISFIT), tiny_report()
    with pytest.raises(MisfitError):
        compare(*misfit, traces=[tiny_trace()])
    assert compare(*misfit, traces=[tiny_trace()], allow_misfit=True).notes


def test_a_limit_that_moves_is_told() -> None:
    wide = compare(tiny_report(), tiny_report("board.memories.ps_ddr.ports.count=1"))
    before, after = ({e.phase: e.limited_by for e in run.limits} for run in (wide.a, wide.b))
    assert before != after, "the premise"
    assert [text for text in answer(wide) if text.startswith("Limited otherwise in B: ")]
