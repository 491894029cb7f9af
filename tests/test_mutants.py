"""Every mutant of tests/mutants.yaml can still be put in; whether it dies, mutants.py tells."""

from mutants import missing, mutants


def test_mutants_fit_the_code_of_today() -> None:
    found = mutants()
    assert [problem for problem in map(missing, found) if problem] == []
    for mutant in found:
        assert mutant.old != mutant.new
        assert mutant.reason
        assert mutant.tests
