"""Search: resumable, and better than chance where the answer is known."""

import multiprocessing
import os
import signal
import statistics
from functools import partial
from itertools import islice

import numpy as np
import pytest
from explore_study import make_study, write_study

from carsim.base.errors import InputError
from carsim.explore.evaluate import Evaluator
from carsim.explore.points import make_points
from carsim.explore.searcher import LACKING, Searcher
from carsim.explore.store import Store, open_folder, open_store
from carsim.explore.sweep import fill, search, sweep
from studies.cores_tau.shares import drawn, hypervolume, key_of, objectives, searched

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
    return make_study(folder, axes=AXES, objectives=GOALS, baseline=False)


@pytest.fixture(scope="module")
def grid(study):
    """Every point of the study with its result."""
    points = make_points(study)
    rows = Evaluator(study).evaluate(points)
    return {key_of(point.values): row for point, row in zip(points, rows, strict=True)}


def test_a_tenth_of_a_grid_finds_most_of_its_front_and_beats_chance(study, grid):
    everything = objectives(study, grid.values())
    scale, low = np.ptp(everything, axis=0), everything.min(axis=0)

    def volume(values):
        return hypervolume((values - low) / scale, np.full(len(GOALS), 1.01))

    def share_found(way, seed):
        """Of the grid's hypervolume, what a tenth of its points have."""
        rows = list(islice(way(grid, seed), len(grid) // 10))
        return volume(objectives(study, rows)) / volume(everything)

    found, chance = (
        statistics.median(share_found(way, seed) for seed in range(3))
        for way in (partial(searched, study), drawn)
    )
    assert found > 0.95
    assert found > chance


def test_a_seed_repeats_a_search(study):
    frames = (search(study, 8, workers=0, seed=seed) for seed in (0, 0, 1))
    found, repeated, different = ({*map(tuple, each[[*AXES]].to_numpy())} for each in frames)
    assert found == repeated != different


def test_a_search_of_everything_is_the_grid(tmp_path):
    axes = {name: values for name, values in AXES.items() if name != "policy.tau"}
    small = make_study(tmp_path, axes=axes, objectives=GOALS, baseline=False)
    frame, whole = search(small, 10_000, workers=0, seed=0), sweep(small, workers=0)
    assert len(frame) == 24
    points = [{*map(tuple, each[[*axes, *GOALS]].fillna(0).to_numpy())} for each in (frame, whole)]
    assert points[0] == points[1]


def stored(folder):
    with open_store(folder) as store:
        return set(store.finished())


def test_a_killed_search_goes_on_where_it_was(tmp_path, study):
    folder = tmp_path / "out"

    def search_and_die():
        add = Store.add

        def fourth(store, results):
            if len(store.finished()) == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            add(store, results)

        Store.add = fourth
        search(study, 40, folder, workers=0)

    victim = FORK.Process(target=search_and_die)
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    before = stored(folder)
    assert len(before) == 3
    with open_folder(folder) as store:
        progress = fill(store, study, points=6, workers=0)
    assert (progress.finished, progress.evaluated) == (6, 3)
    assert progress.points_per_minute * progress.seconds == pytest.approx(60 * 3)
    assert before < stored(folder)


def test_workers_of_one_process_search_too(tmp_path, study):
    with Store() as store:
        progress = fill(store, study, points=8, workers=2, seed=0)
        assert (progress.finished, progress.evaluated) == (8, 8)
        assert len(store.finished()) == 8


def test_a_narrow_filter_is_searched_to_its_end(tmp_path):
    filters = ["machine.cores == 4 and policy.batch == 2 and policy.tau > 0.65"]
    path = write_study(tmp_path, axes=AXES, objectives=GOALS, filters=filters, baseline=False)
    frame = search(path, 100, workers=0, seed=0)
    assert len(frame) == 8  # two of tau, of schedules and of boards
    assert (frame["machine.cores"] == 4).all()


def test_what_does_not_fit_or_breaks_a_constraint_is_told_as_infeasible(tmp_path):
    constraints = ["dsp <= 80", "policy.batch == 4"]
    limited = make_study(
        tmp_path, axes=AXES, objectives=GOALS, constraints=constraints, baseline=False
    )
    searcher, evaluator = Searcher(limited, 0), Evaluator(limited)
    met = set()
    for _ in range(16):
        (point,) = searcher.next()
        (row,) = evaluator.evaluate([point])
        searcher.learn([(point, row)])
        trial = searcher._trials.trials[point.ordinal]
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
    aimed = make_study(tmp_path, objectives=["latency_s"])
    filters = ["machine.cores > 9"]
    for changes, message in (
        ({}, r"\$\.objectives: are missing; name at least one"),
        ({"objectives": ["latency_s"], "filters": filters}, r"leave no point: machine\.cores > 9"),
    ):
        with pytest.raises(InputError, match=message):
            search(make_study(tmp_path, **changes), 3, workers=0)
    sweep(aimed, tmp_path / "out", workers=0)
    with pytest.raises(InputError, match="holds a sweep, and this is none; name another folder"):
        search(aimed, 3, tmp_path / "out")
