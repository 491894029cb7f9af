"""The tool that draws mutants: its draw, its score, and what it counts as killed."""

import pytest
from drawn_mutants import Drawn, draw, main, mutated, outcome, page, possible


def test_tests_that_hang_are_no_tests_that_fail(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drawn_mutants.SECONDS", 0.01)
    assert outcome(tmp_path, ["tests"]) == "hang"


def test_mutants_are_drawn_by_their_seed_and_leave_annotations_alone(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cosmic_ray")
    monkeypatch.setattr("drawn_mutants.ROOT", tmp_path)
    (tmp_path / "carsim").mkdir()
    file = tmp_path / "carsim" / "a.py"
    file.write_text("def f(a: int | None, b: int = 3) -> int | None:\n    return a and a + b\n")
    found = list(possible(file))
    assert {each.line for each in found} == {1, 2}
    assert not [each for each in found if "_BitOr_" in each.operator]
    assert draw([file], 5, seed=1) == draw([file], 5, seed=1) != draw([file], 5, seed=2)
    assert all(mutated(each) != file.read_text() for each in found)
    file.write_text('"""Lines\nabove."""\n\n\n' + file.read_text())
    assert {each.key for each in found if each.line == 2} < {each.key for each in possible(file)}


def test_what_has_been_judged_is_scored_without_what_is_equal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("drawn_mutants.change", lambda drawn: f"-{drawn.nth}")
    drawn = [Drawn("carsim/cost/a.py", "core/AddNot", nth, 7, f"{nth}.1") for nth in range(5)]
    keys = [*(each.key for each in drawn), "carsim/gone.py AddNot 0.1"]
    results = [(keys[n], found) for n, found in enumerate(("pass", "fail", "pass", "pass"))]
    results += [(keys[3], "hang"), (keys[5], "pass")]
    text = page(drawn, results, {})
    assert "Of 5 mutants that were drawn, 4 have been judged." in text
    assert "| carsim/cost | 4 | 2 | 0 | 2 | 50% [15%, 85%] | 25% [5%, 70%] |" in text
    assert "carsim/cost/a.py:7 `AddNot 2.1`: no verdict yet\n\n```diff\n-2\n```" in text
    text = page(drawn, results, {drawn[2].key: "equal: says the same"})
    assert "| carsim | 4 | 2 | 1 | 1 | 67% " in text


def test_the_first_call_needs_no_file_of_results_or_verdicts(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("cosmic_ray")
    monkeypatch.setattr("drawn_mutants.ROOT", tmp_path)
    results = tmp_path / "out" / "drawn_mutants.jsonl"
    monkeypatch.setattr("drawn_mutants.RESULTS", results)
    source = tmp_path / "carsim" / "a.py"
    source.parent.mkdir()
    source.write_text("def f(a, b):\n    return a + b\n")
    monkeypatch.setattr("sys.argv", ["drawn_mutants.py", str(source), "--seconds", "0"])
    assert main() == 0
    assert results.read_text() == ""
    assert ", 0 have been judged." in capsys.readouterr().out
