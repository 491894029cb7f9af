"""Search: resumable, shared by processes, and better than chance where the answer is known."""

import multiprocessing
import os
import resource
import signal
import statistics
from collections import Counter

import numpy as np
import pytest
from explore_study import write_study

from carsim.base.errors import InputError
from carsim.explore.evaluate import Evaluator
from carsim.explore.pareto import hypervolume, pareto
from carsim.explore.points import make_points
from carsim.explore.search import TRIALS_FILE, hunt, search
from carsim.explore.searcher import LACKING, Searcher, open_trials
from carsim.explore.store import Store, open_folder, open_store
from carsim.explore.study import load_study
from carsim.explore.sweep import sweep

pytest.importorskip("optuna")

AXES = {
    "machine.cores": [1, 2, 4],
    "policy.tau": {"range": {"from": -1.0, "to": 0.8, "step": 0.1}},
    "policy.schedule": ["static", "drs"],
    "policy.batch": [2, 4],
    "board.dsp": [60, 2520],
}
"""456 points; four cores do not fit where there are 60 DSP slices."""

GOALS = {"latency_s": "min", "energy_per_video_j": "min", "replay_eligible": "min"}
FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    return load_study(write_study(folder, axes=AXES, objectives=GOALS, baseline=False))


@pytest.fixture(scope="module")
def grid(study):
    """Every point of the study with its result."""
    evaluator = Evaluator(study)
    return {point.id: evaluator.evaluate(point) for point in make_points(study)}


def share_found(study, grid, sampler, seed, points):
    """Of the grid's hypervolume, what a search of so many points finds."""
    searcher = Searcher(study, open_trials(study, "memory", sampler, seed), seed)
    for _ in range(points):
        point = searcher.propose()
        searcher.tell(point, grid[point.id])
    assert len(searcher.known) == points

    def values(rows):
        return np.array([[row[n] for n in GOALS] for row in rows if row["status"] == "ok"])

    everything = values(grid.values())
    scale, low = np.ptp(everything, axis=0), everything.min(axis=0)
    reference = np.full(len(GOALS), 1.01)
    found = values(row for _, row in searcher.known.values())
    whole, part = (hypervolume((v - low) / scale, reference) for v in (everything, found))
    return part / whole


def test_a_tenth_of_a_grid_finds_most_of_its_front_and_beats_chance(study, grid):
    shares = {
        sampler: statistics.median(
            share_found(study, grid, sampler, seed, len(grid) // 10) for seed in range(3)
        )
        for sampler in ("tpe", "random")
    }
    assert shares["tpe"] > 0.95
    assert shares["tpe"] > shares["random"]


def test_a_seed_repeats_a_search(study):
    once, again, other = (search(study, 8, workers=0, seed=seed) for seed in (0, 0, 1))
    found, repeated, different = (
        set(map(tuple, each[[*AXES]].to_numpy().tolist())) for each in (once, again, other)
    )
    assert found == repeated != different


def test_a_search_of_everything_is_the_grid(tmp_path):
    axes = {name: values for name, values in AXES.items() if name != "policy.tau"}
    small = load_study(write_study(tmp_path, axes=axes, objectives=GOALS, baseline=False))
    frame = search(small, 10_000, workers=0, seed=0)
    assert len(frame) == 24
    columns = [*axes, *GOALS]
    found, expected = (
        sorted(map(tuple, pareto(each, GOALS)[columns].to_numpy().tolist()))
        for each in (frame, sweep(small, workers=0))
    )
    assert found == expected


class Hunter:
    """A process that searches: it notes each point that it evaluates, and may hang for good.

    Args:
        study: The study.
        folder: Where to.
        points: How many.
        hang: Hang where ``evaluate`` or ``tell`` is called for the n-th time.
        together: Wait for each other at the first point.
    """

    def __init__(self, study, folder, points, hang=("", 0), together=None):
        self.calls, self.hang = Counter(), hang
        self.evaluated, self.hangs = FORK.SimpleQueue(), FORK.Event()
        self.together = together
        self.process = FORK.Process(target=self._run, args=(study, folder, points))
        self.process.start()

    def points(self):
        """What it has evaluated."""
        found = []
        while not self.evaluated.empty():
            found.append(self.evaluated.get())
        return found

    def _run(self, study, folder, points):
        evaluate, tell = Evaluator.evaluate, Searcher.tell

        def noted(evaluator, point):
            self._count("evaluate")
            if self.together and self.calls["evaluate"] == 1:
                self.together.wait()
            row = evaluate(evaluator, point)
            self.evaluated.put(point.id)
            return row

        def told(searcher, point, row):
            self._count("tell")
            tell(searcher, point, row)

        Evaluator.evaluate, Searcher.tell = noted, told
        with open_folder(folder) as store:
            hunt(store, study, points, out=folder, workers=0)

    def _count(self, method):
        self.calls[method] += 1
        if self.hang == (method, self.calls[method]):
            self.hangs.set()
            signal.pause()


def stored(folder):
    with open_store(folder) as store:
        return set(store.finished())


@pytest.mark.parametrize(
    ("hang", "known"),
    [(("evaluate", 4), 3), (("tell", 3), 3)],
    ids=["while it evaluates", "when it has stored and not told"],
)
def test_a_killed_search_goes_on_where_it_was(tmp_path, study, hang, known):
    folder = tmp_path / "out"
    victim = Hunter(study, folder, 40, hang)
    assert victim.hangs.wait(600)
    os.kill(victim.process.pid, signal.SIGKILL)
    victim.process.join()
    before = stored(folder)
    assert len(before) == known
    second = Hunter(study, folder, 6)
    second.process.join()
    assert second.process.exitcode == 0
    assert len(second.points()) == 6 - known
    assert before < stored(folder)
    assert len(stored(folder)) == 6


def test_processes_that_start_on_one_study_at_once_share_the_work(tmp_path, study):
    folder, together = tmp_path / "out", FORK.Barrier(2, timeout=600)
    hunters = [Hunter(study, folder, 8, together=together) for _ in range(2)]
    for each in hunters:
        each.process.join()
        assert each.process.exitcode == 0
    one, two = (each.points() for each in hunters)
    assert one
    assert two
    assert {*one, *two} == stored(folder)
    assert 8 <= len(stored(folder)) <= 9  # each may be at a last one


def test_workers_of_one_process_search_too(tmp_path, study):
    with Store(":memory:") as store:
        progress = hunt(store, study, 8, workers=2, seed=0)
        assert (progress.finished, progress.evaluated) == (8, 8)
        assert len(store.finished()) == 8


def test_a_search_learns_from_what_is_stored_though_its_trials_are_lost(study):
    with Store(":memory:") as store:
        hunt(store, study, 5, workers=0)
        before = set(store.finished())
        progress = hunt(store, study, 7, workers=0)  # with trials of its own
        assert (progress.finished, progress.evaluated) == (7, 2)
        assert before < set(store.finished())
        assert len(store.finished()) == 7


def test_a_narrow_filter_is_searched_to_its_end(tmp_path):
    filters = ["machine.cores == 4 and policy.batch == 2 and policy.tau > 0.65"]
    path = write_study(tmp_path, axes=AXES, objectives=GOALS, filters=filters, baseline=False)
    frame = search(path, 100, workers=0, seed=0)
    assert len(frame) == 8  # two of tau, of schedules and of boards
    assert (frame["machine.cores"] == 4).all()


def test_what_does_not_fit_or_breaks_a_constraint_is_told_as_infeasible(tmp_path):
    constraints = ["dsp <= 80", "policy.batch == 4"]
    limited = load_study(
        write_study(tmp_path, axes=AXES, objectives=GOALS, constraints=constraints, baseline=False)
    )
    trials = open_trials(limited, "memory", "random", 0)
    searcher, evaluator = Searcher(limited, trials, 0), Evaluator(limited)
    assert trials.metric_names == [*GOALS]
    met = set()
    for _ in range(16):
        point = searcher.propose()
        row = evaluator.evaluate(point)
        searcher.tell(point, row)
        trial = trials.trials[point.ordinal]
        tau = pytest.approx(point.values["policy.tau"])
        assert trial.params == {**point.values, "policy.tau": tau}
        if row["status"] == "misfit":
            lacking = row["fill"] - 1
        else:
            lacking = (row["dsp"] > 80) + (point.values["policy.batch"] != 4)
        assert trial.constraints == {LACKING: lacking}
        assert lacking or trial.values == [row[name] for name in GOALS]
        met.add((row["status"], lacking))
    assert {status for status, _ in met} == {"ok", "misfit"}
    assert {0, 1} <= {lacking for _, lacking in met}


def test_what_cannot_be_searched_is_one_line(tmp_path):
    aimless = load_study(write_study(tmp_path))
    with pytest.raises(InputError, match=r"\$\.objectives: are missing; name at least one"):
        search(aimless, 3)
    aimed = load_study(write_study(tmp_path, objectives=["latency_s"]))
    with pytest.raises(InputError, match="`storage` nonsense://x: cannot be used") as caught:
        search(aimed, 3, storage="nonsense://x")
    assert "\n" not in str(caught.value)
    filtered = load_study(
        write_study(tmp_path, objectives=["latency_s"], filters=["machine.cores > 9"])
    )
    with pytest.raises(InputError, match=r"\$\.filters: leave no point: machine\.cores > 9"):
        search(filtered, 3, workers=0)
    (tmp_path / "text.sqlite").write_text("no database\n" * 100)
    with pytest.raises(InputError, match=r"cannot be used \(file is not a database\)") as caught:
        search(aimed, 3, storage=f"sqlite:///{tmp_path / 'text.sqlite'}")
    assert "\n" not in str(caught.value)
    sweep(aimed, tmp_path / "out", workers=0)
    with pytest.raises(InputError, match="holds a sweep, not a search; name another folder"):
        search(aimed, 3, tmp_path / "out")
    assert not (tmp_path / "out" / TRIALS_FILE).exists()


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, study):
    out, told = tmp_path / "out", FORK.SimpleQueue()
    search(study, 2, out, workers=0)
    most = (out / TRIALS_FILE).stat().st_size + 12_000

    def fill_up():
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        with pytest.raises(InputError) as caught:
            search(study, 456, out, workers=0)
        told.put(str(caught.value))

    child = FORK.Process(target=fill_up)
    child.start()
    child.join()
    assert child.exitcode == 0
    message = told.get()
    assert "cannot be used" in message
    assert "stored stays" in message
    assert "\n" not in message
    kept = stored(out)
    assert 2 < len(kept) < 456
    assert len(search(study, len(kept) + 1, out, workers=0)) == len(kept) + 1
    assert kept < stored(out)
