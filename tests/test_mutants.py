"""Every mutant of tests/mutants.yaml can still be put in; whether it dies, mutants.py tells."""

import pytest
from mutants import missing, mutants, outcome, part


def test_mutants_fit_the_code_of_today() -> None:
    found = mutants()
    assert [problem for problem in map(missing, found) if problem] == []
    for mutant in found:
        assert mutant.old != mutant.new
        assert mutant.reason
        assert mutant.tests


def test_every_mutant_is_in_one_part() -> None:
    found = mutants()
    shares = [part(found, f"{nth}/3") for nth in (1, 2, 3)]
    numbers = sorted(found.index(mutant) for share in shares for mutant in share)
    assert numbers == list(range(len(found)))


@pytest.mark.parametrize("share", ["0/3", "4/3", "a/b"])
def test_a_share_that_is_none_is_refused(share: str) -> None:
    with pytest.raises(SystemExit, match="such as 2/3"):
        part([], share)


def test_tests_that_hang_are_no_tests_that_fail(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mutants.SECONDS", 0.01)
    assert outcome(tmp_path, ["tests"]) == "hang"
