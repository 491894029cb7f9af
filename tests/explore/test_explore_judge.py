"""A drawn share of a sweep's points is judged by the SimPy machine."""

import pytest
from explore_study import write_study

from carsim.base.errors import SolverError
from carsim.explore import evaluate
from carsim.explore.sweep import sweep
from carsim.machine import judge, solver
from carsim.machine.phase import Phase, Timing

TRACKED = solver.solve


def one_cycle_late(phase: Phase) -> Timing:
    found = TRACKED(phase)
    return found._replace(ended=found.ended + 1)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Every point is judged; what the judge said."""
    said: list[str | None] = []

    def listening(*arguments: object) -> str | None:
        said.append(judge.disagreement(*arguments))
        return said[-1]

    monkeypatch.setattr(evaluate, "JUDGED", 1)
    monkeypatch.setattr(evaluate, "disagreement", listening)
    return said


def test_the_judge_agrees_with_the_solver(tmp_path, judged):
    rows = sweep(write_study(tmp_path), workers=0)
    assert (rows["status"] == "ok").all()
    assert judged == [None] * len(rows)


def test_a_solver_that_is_a_cycle_late_stops_the_sweep(tmp_path, judged, monkeypatch):
    monkeypatch.setattr(judge.solver, "solve", one_cycle_late)
    with pytest.raises(
        SolverError, match=r"point .*: the solver finds cycles .* SimPy machine"
    ) as raised:
        sweep(write_study(tmp_path), tmp_path / "out", workers=0)
    assert raised.value.exit_status == 4  # as docs/questions.md says


def test_a_study_on_the_simpy_machine_needs_no_judge(tmp_path, judged):
    sweep(write_study(tmp_path, fidelity="tile", axes={"policy.tau": [0.0]}), workers=0)
    assert judged == []
