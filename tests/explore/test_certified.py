"""The certified front of a grid against the front of all of its points."""

import json
import math
import operator
import os
import shlex
from contextlib import closing, nullcontext
from typing import Literal

import numpy as np
import pytest
from click.testing import CliRunner
from explore_study import DEATHS, make_study, spoilt, write_study
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from carsim.base.errors import InputError, SolverError
from carsim.cli import carsim
from carsim.cli.sweep import sweep_progress
from carsim.explore.bounds import bounds_of
from carsim.explore.certified import CertifiedFront
from carsim.explore.evaluate import Evaluator
from carsim.explore.grid import GridStudy
from carsim.explore.pareto import directions, pareto
from carsim.explore.points import make_points
from carsim.explore.store import Store, open_folder
from carsim.explore.sweep import fill, sweep
from carsim.explore.workers import Processes
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.schedule import SCHEDULES
from carsim.program.program import skip
from carsim.program.skips import SKIPS, Skip
from carsim.report.plots import write_plot
from carsim.report.stored_study import StoredStudy, read_study

KERNELS = [
    {"block": "mlp", "rows": 1, "us": 0.1},
    {"block": "mlp", "rows": 2, "us": 0.05},
    {"block": "qkv", "rows": 1, "us": 0.01},
]
"""Times far below those of bytes and products, and fewer for more rows."""

AXES = {
    "replay": st.sampled_from([[True], [False, True]]),
    "machine.cores": st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=3, unique=True),
    "machine.mapping": st.just(list(MAPPINGS)),
    "policy.schedule": st.just(list(SCHEDULES)),
    "machine.weight_sharing": st.sampled_from([["broadcast"], ["broadcast", "private"]]),
    "machine.array.rows": st.sampled_from([[2], [2, 32]]),
    "machine.array.cols": st.sampled_from([[4], [3, 16]]),
    "machine.vector.lanes": st.sampled_from([[4], [2, 16]]),
    "machine.weight_buffer_kib": st.sampled_from([[4], [2, 32]]),
    "machine.decision_at": st.sampled_from([["attention"], ["q", "residual"]]),
    "board.fabric_clock_mhz": st.sampled_from([[250.0], [100.0, 300.0]]),
    "machine.overheads.layer_us": st.sampled_from([[0.0], [0.0, 9.0]]),
    "machine.overheads.kernels": st.sampled_from([[[]], [[], KERNELS]]),
    "board.dsp": st.sampled_from([[2520], [60, 2520]]),
    "policy.tau": st.sampled_from([[0.0], [-0.5, 0.5], ["captured"]]),
    "policy.batch": st.sampled_from([[4], [2, 4]]),
    "policy.skip": st.sampled_from(
        [[{"kind": "mlp"}], [{"kind": "mlp"}, {"kind": "attention_too"}], [{"kind": "layer"}]]
    ),
    "policy.attention": st.sampled_from(
        [[{"kind": "dense"}], [{"kind": "streaming", "window": 9}]]
    ),
}
CLOCKS = {"machine.cores": [1, 2, 4], "board.fabric_clock_mhz": [50.0, 100.0, 200.0, 400.0]}
OBJECTIVES = [
    *("latency_s", "energy_per_video_j", "dsp", "bram36", "fill", "tokens_per_s"),
    *("expected_seconds_per_video", "expected_tokens_per_s_low"),
    *("frames_per_s", "energy_per_token_j", "memory_used_gb", "replay_eligible", "body_latency_s"),
    *("average_power_w", "energy_above_idle_per_video_j", "memory_gb_per_video"),
    *("first_token_s", "prefill_s"),
]


def drawn(folder, data, most):
    axes = {name: data.draw(values, name) for name, values in AXES.items()}
    while np.prod([len(values) for values in axes.values()]) > most:
        shortened = data.draw(st.sampled_from([name for name in axes if len(axes[name]) > 1]))
        dropped = data.draw(st.sampled_from(axes[shortened]))
        axes[shortened] = [each for each in axes[shortened] if each != dropped]
    some = st.lists(st.sampled_from(OBJECTIVES), min_size=1, max_size=4, unique=True)
    return make_study(folder, axes=axes, objectives=data.draw(some), baseline=False)


def _goals(study, frame):
    """Objectives of the points that fit, of which less is better."""
    signs = directions(study.objectives)
    return frame[frame["status"] == "ok"][[*signs]].to_numpy() * [*signs.values()]


def check(study):
    """The front of few points is that of all, and no bound exceeds an exact value.

    Bounds are equal for designs one by one, and what a share leaves out is hardly better.
    """
    signs = directions(study.objectives)
    bounds, lacks = bounds_of(GridStudy(study))
    with pytest.MonkeyPatch.context() as alone:
        alone.setattr("carsim.explore.grid.CHUNK_CELLS", 1)
        alone.setattr("carsim.explore.certified.CHUNK", 1)
        np.testing.assert_equal(bounds_of(GridStudy(study)), (bounds, lacks))
        near = sweep(study, workers=0, front_only=True, within=0.2)
    misfits = np.any([np.zeros(len(bounds), bool), *lacks.values()], axis=0)
    whole = sweep(study, workers=0)
    for point, bound, is_misfit in zip(make_points(study), bounds, misfits, strict=True):
        row = whole.iloc[point.ordinal]
        assert not is_misfit or row["status"] != "ok"
        if row["status"] == "ok":
            exact = [sign * row[name] for name, sign in signs.items()]
            assert (np.array(exact) >= bound).all(), (point.values, exact, bound)
    every, near = (_goals(study, frame) for frame in (whole, near))
    assert all((near <= each + 0.2 * abs(each)).all(axis=1).any() for each in every)
    some = sweep(study, workers=0, front_only=True)
    assert len(near) <= len(_goals(study, some)) <= len(every)
    if (whole["status"] != "ok").all():
        assert not (some["status"] == "ok").any()
        return
    found, front = (pareto(each, study.objectives)["point"].tolist() for each in (some, whole))
    assert found == front


pytestmark = pytest.mark.filterwarnings("ignore:.*no value tried of others goes with")

LONG = pytest.mark.skipif("CARSIM_LONG" not in os.environ, reason="15 seconds; set CARSIM_LONG")


@pytest.mark.parametrize("kind", SKIPS)
@pytest.mark.parametrize(
    "attention", [{"kind": "dense"}, {"kind": "streaming", "sinks": 1, "window": 9}]
)
def test_bounds_of_blocks_that_read_and_are_skipped_hold_and_are_near(tmp_path, kind, attention):
    axes = {
        "policy.tau": [-0.5, 0.0, 0.5],
        "machine.cores": [1, 2, 4],
        "machine.mapping": ["batch", "heads"],
        "machine.array.rows": [2, 32],
        "policy.skip": [{"kind": "mlp"}, {"kind": kind}][: 1 + (kind != "mlp")],
        "policy.attention": [attention],
        "machine.decision_at": ["q"],
        "machine.drs.instructions_per_sequence": [1],  # bounds know no dispatch
    }
    objectives = ["latency_s", "energy_per_video_j", "dsp"]
    study = make_study(tmp_path, axes=axes, objectives=objectives, baseline=False)
    check(study)
    bounds, _ = bounds_of(GridStudy(study))
    frame = sweep(study, workers=0)
    # With one core, no core waits for another. A skip may need more decisions than the trace has.
    compared = ((frame["machine.cores"] == 1) & (frame["status"] == "ok")).to_numpy()
    latencies = frame["latency_s"].to_numpy()[compared]
    assert (bounds[compared, 0] > 0.85 * latencies).all()


class OddLayersAlone(Skip):
    """Attention and MLP are skipped in layers with an odd number; all rows compute the others."""

    label = "attention and MLP of odd layers"

    kind: Literal["odd_alone"] = "odd_alone"

    def mark(self, layer, number):
        if number % 2 == 0:
            return layer
        return skip(layer, "attention", "output", "mlp", holds=["output", "mlp"])


def test_bounds_hold_where_some_layers_skip_nothing(tmp_path):
    """A slow memory, so that bytes of what is held would make a bound too high."""
    SKIPS.register(OddLayersAlone)
    try:
        axes = {
            "policy.tau": [-0.5, 0.5],
            "machine.cores": [1, 2],
            "policy.skip": [{"kind": "odd_alone"}],
            "machine.decision_at": ["q"],
        }
        objectives = ["latency_s", "energy_per_video_j"]
        check(make_study(tmp_path, axes=axes, objectives=objectives, baseline=False))
    finally:
        del SKIPS["odd_alone"]


@pytest.mark.parametrize("most", [120, pytest.param(2000, marks=LONG)])
@settings(max_examples=3, phases=[Phase.explicit, Phase.generate])
@given(data=st.data())
def test_the_certified_front_is_that_of_the_whole_grid(tmp_path_factory, most, data):
    check(drawn(tmp_path_factory.mktemp("grid"), data, most))


@pytest.mark.parametrize(
    "refused",
    [
        {"machine.kv_buffer_kib": [1, 8]},
        {"machine.weight_buffer_kib": [1, 8], "policy.schedule": ["static", "pack"]},
    ],
)
def test_a_first_value_that_is_refused_leaves_bounds(tmp_path, refused):
    axes = {"machine.cores": [1, 2], **refused}
    study = make_study(tmp_path, axes=axes, objectives=["seconds_per_video", "energy_per_token_j"])
    check(study)
    assert np.isfinite(bounds_of(GridStudy(study))[0]).any()


def test_expected_times_are_bounded_though_their_factor_varies(tmp_path):
    # Programs on the device have a population of their own; hosts of HLS kernels are too few.
    control = {"machine.overheads.control": ["bare_metal", "hls_host", None]}
    axes = {**CLOCKS, **control}
    goals = ["expected_seconds_per_video_high", "expected_frames_per_s", "energy_per_video_j"]
    study = make_study(tmp_path, axes=axes, objectives=goals, baseline=False)
    assert study.expected is None
    check(study)
    front = sweep(study, workers=0, front_only=True)
    assert np.isfinite(bounds_of(GridStudy(study))[0]).all()
    # The population with the least factor is on the front; that of others is not.
    assert set(pareto(front, ["expected_frames_per_s"])["machine.overheads.control"]) == {
        "bare_metal"
    }


def test_bounds_of_power_traffic_and_prompts_hold_and_leave_designs_out(tmp_path):
    axes = {**CLOCKS, "machine.array.cols": [4, 16], "board.dsp": [40, 2520]}
    for goals in (
        ["average_power_w", "dsp"],
        ["average_power_w", "seconds_per_video"],
        ["energy_above_idle_per_video_j", "memory_gb_per_video"],
        ["first_token_s", "dsp"],
    ):
        study = make_study(tmp_path, axes=axes, objectives=goals, baseline=False)
        check(study)
        bounds, _ = bounds_of(GridStudy(study))
        assert np.isfinite(bounds).all()
        assert (bounds[:, 0] > 0).all()
        assert len(sweep(study, workers=0, front_only=True)) < len(bounds)


def test_a_constant_factor_is_known_to_the_study(tmp_path):
    study = make_study(tmp_path, axes=CLOCKS, objectives=["expected_latency_s"])
    assert study.expected.title == "11 published FPGA systems"


def test_bounds_know_what_two_slots_let_through(tmp_path):
    axes = {"machine.array": [{"rows": 32, "cols": 64}], "machine.weight_buffer_kib": [2]}
    study = make_study(tmp_path, axes=axes | {"machine.cores": [1]}, objectives=["latency_s"])
    (bound,), _ = bounds_of(GridStudy(study))
    assert bound < sweep(study, workers=0)["latency_s"][0] < 1.5 * bound  # 2.2 without
    check(make_study(tmp_path, axes={"policy.tau": [*range(40)]}, objectives=["dsp"]))  # all equal


def test_it_goes_on_where_it_was_and_says_what_is_proven(tmp_path):
    axes = {**CLOCKS, "board.dsp": [40, 999]}
    study = make_study(tmp_path, axes=axes, objectives=["seconds_per_video", "dsp"])
    seen = []
    with Store() as store:
        study = study.lean
        chooser = CertifiedFront(GridStudy(study))
        store.claim(study, "front")
        first = chooser.next()[:1]
        store.add((point, *Evaluator(study).evaluate([point])) for point in first)
        done = fill(store, study, workers=0, front_only=True, tell=seen.append)
        again = fill(store, study, workers=0, front_only=True)
        assert next(each for each in seen if not each.bounded).counts.total() == 1
        assert done.evaluated + 1 == done.counts.total() < 20
        assert done.dominated > 0
        assert list(done.misfits) == [("DSP slices",)]
        assert done.finished == done.total == 24
        assert (again.evaluated, again.finished) == (0, 24)
        with pytest.raises(InputError, match="holds a front, and this is none"):
            fill(store, study, workers=0)


@pytest.mark.filterwarnings("ignore:there is no bound of speedup")
@pytest.mark.parametrize(
    ("changes", "has_dense"),
    [
        ({}, False),
        ({"baseline": True}, True),
        ({"constraints": ["speedup >= 0"]}, True),
    ],
)
def test_a_front_has_speedups_where_they_are_asked_for(tmp_path, changes, has_dense):
    study = make_study(tmp_path, **({"objectives": ["latency_s"]} | changes))
    for how, dense in (({"front_only": True}, has_dense), ({}, True)):
        rows = sweep(study, workers=0, **how)
        assert rows[rows["status"] == "ok"]["speedup"].notna().all() == dense


def test_one_bar_goes_once_through_bounds_and_designs(tmp_path, monkeypatch):
    told = []
    bar = nullcontext(lambda done, total, words: told.append((done / total, words)))
    monkeypatch.setattr("carsim.cli.sweep.progress_bar", lambda name, *, is_steady: bar)
    monkeypatch.setattr("carsim.explore.sweep.TOLD_S", -1)
    study = make_study(tmp_path, axes=CLOCKS, objectives=["seconds_per_video", "dsp"])
    with Store() as store, sweep_progress("toy", front_only=True) as tell:
        done = fill(store, study, workers=0, front_only=True, tell=tell)
        seconds = [row["seconds"] for _, _, row in store.rows()]
        assert done.processor_s == pytest.approx(math.fsum(seconds))
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert (told[0][1], told[0][0] < 0.1, shares[-1] > 0.8) == ("bounds", True, True)
    assert (0.5, "evaluated 0 of at most 12") in told
    assert told[-1][1].startswith(f"evaluated {done.evaluated} of at most ")


def test_a_result_below_its_bound_is_a_bug_that_is_told(tmp_path, monkeypatch):
    study = make_study(tmp_path, objectives=["latency_s"])
    monkeypatch.setattr("carsim.explore.bounds.MARGIN", -0.5)
    with pytest.raises(SolverError, match="has a bound of"):
        sweep(study, workers=0, front_only=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objectives": []}, "are missing"),
        ({"objectives": ["dsp"], "sampling": {"method": "lhs", "points": 3}}, "draws points"),
        ({"objectives": ["dsp"], "filters": ["machine.cores > 9"]}, "leave no point"),
        ({"objectives": ["dsp"], "axes": {"machine.kv_buffer_kib": [1]}}, "every design that"),
    ],
)
def test_what_has_no_front_is_one_line(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        CertifiedFront(GridStudy(make_study(tmp_path, **changes)))


def test_values_that_go_with_no_other_are_named_before_bounds(tmp_path):
    axes = {"machine.cores": [1, 2], "machine.kv_buffer_kib": [1, 8]}
    (note,) = GridStudy(make_study(tmp_path, axes=axes)).refusals()
    assert note.startswith(
        "machine.kv_buffer_kib: no value tried of others goes with 1: machine.kv"
    )
    how = ["--workers", "0", "--out", str(tmp_path / "out")]
    said = CliRunner().invoke(carsim, ["sweep", str(tmp_path / "study.yaml"), *how]).output
    assert "machine.kv_buffer_kib: no point with 1 is valid: " in said


def test_without_a_bound_all_are_evaluated(tmp_path):
    axes = {"machine.cores": [1, 2], "policy.schedule": ["static", "drs"]}
    goals = {"busy": "max", "latency_s": "min", "dsp": "max", "tokens_per_s": "min"}
    study = make_study(tmp_path, axes=axes, objectives=goals)
    with pytest.warns(UserWarning, match="no bound of busy, tokens_per_s: all designs that fit"):
        assert len(sweep(study, workers=0, front_only=True)) == 4


def test_another_front_of_some_points_is_refused(tmp_path, monkeypatch):
    study = make_study(tmp_path, axes=CLOCKS, objectives=["latency_s"])
    how = ["--front-only", "--workers", "0", "--out", str(tmp_path / "out")]
    said = CliRunner().invoke(carsim, ["sweep", str(tmp_path / "study.yaml"), *how]).output
    assert " s: 4 evaluated or refused, 8 proven dominated, 0 cannot fit" in said
    said = CliRunner().invoke(carsim, ["report", "--front", str(tmp_path / "out")]).output
    assert "4 of 12 points have a result: for all others it is proven that" in said
    stored = read_study(tmp_path / "out")
    assert len(stored.seen(None, ()).front) == 1
    least = stored.front["latency_s"][0]
    assert len(stored.seen(None, [f"latency_s <= {least}"]).front) == 1
    for limit in ("dsp <= 100", "latency_s >= 0", f"0 <= latency_s <= {least}", "latency_s == 1"):
        with pytest.raises(InputError, match="of 12 points, and others may be better there"):
            stored.seen(None, [limit])
    other = ["report", "--front", "--objective", "dsp", str(tmp_path / "out")]
    assert "write them into the study" in str(CliRunner().invoke(carsim, other).exception)
    with pytest.raises(InputError, match="of 12 points, and others may be better there"):
        write_plot([str(tmp_path / "out")], "latency_s:machine.cores", tmp_path / "it.pdf")
    front = ["report", "--json", "--front", str(tmp_path / "out")]
    command = json.loads(CliRunner().invoke(carsim, front).output)["command"]
    _, *run = shlex.split(command.replace("\\\n", ""))
    monkeypatch.chdir(tmp_path)
    again = json.loads(CliRunner().invoke(carsim, [*run, "--json"]).output)
    assert least in [policy["latency_s"] for policy in again["policies"]]
    assert "point 99 has no" in str(CliRunner().invoke(carsim, [*front, "--point", "99"]).exception)
    sweep(study, tmp_path / "all", workers=0)
    assert len(read_study(tmp_path / "all").seen({"dsp": "min"}, ()).front) >= 1
    with Store() as begun:
        begun.claim(study, "sweep", 12)
        assert StoredStudy.of(begun).is_part
        with pytest.raises(InputError, match="has 0 of 12 points"):
            StoredStudy.of(begun).seen(None, ["latency_s <= 1"])
    with Store() as begun:
        begun.claim(study, "front", 12)
        stored = StoredStudy.of(begun)
        assert (stored.so_far, stored.seen(None, ["latency_s <= 1"]).so_far) == (" so far",) * 2
    monkeypatch.setattr("carsim.explore.sweep.CertifiedFront", None)  # no bounds are computed
    with pytest.raises(InputError, match="another study"):
        sweep(make_study(tmp_path, objectives=["dsp"]), tmp_path / "out", front_only=True)


def test_a_baseline_point_is_printed_as_a_command(tmp_path, monkeypatch):
    fields = {"axes": {"replay": [True, False], "policy.tau": [-0.5, 0.2]}, "resample": 3}
    fields |= {"set": {"policy.batch": 8}, "fidelity": "tile", "allow_misfit": True}
    frame = sweep(make_study(tmp_path, **fields), workers=0)
    write_study(tmp_path, **fields)
    how = ["--workers", "0", "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(carsim, ["sweep", str(tmp_path / "study.yaml"), *how]).exit_code == 0
    monkeypatch.chdir(tmp_path)
    for number, replays in enumerate(frame["replay"]):
        asked = ["report", "--json", "--front", str(tmp_path / "out"), "--point", str(number)]
        command = json.loads(CliRunner().invoke(carsim, asked).output)["command"]
        assert ("--no-replay" in command) == (not replays)
        _, *run = shlex.split(command.replace("\\\n", ""))
        again = json.loads(CliRunner().invoke(carsim, [*run, "--json"]).output)
        (own,) = [each for each in again["policies"] if each["is_chosen"]]
        row = frame.iloc[number]
        for name in ("latency_s", "energy_per_video_j", "dsp"):
            assert own[name] == row[name]


def test_a_share_leaves_out_what_is_hardly_better(tmp_path, monkeypatch):
    monkeypatch.setattr("carsim.explore.certified.CHUNK", 1)
    monkeypatch.setattr("carsim.explore.certified.MANY", 5)
    axes = CLOCKS | {"board.fabric_clock_mhz": [100.0 + n for n in range(40)]}
    axes |= {"policy.batch": [2, 4]}
    study = make_study(tmp_path, axes=axes, objectives=["latency_s", "energy_per_video_j", "dsp"])
    out = str(tmp_path / "out")

    def call(*options):
        return CliRunner().invoke(carsim, [*options]).output

    how = ["--front-only", "--workers", "0", "--out", out]
    said = call("sweep", str(tmp_path / "study.yaml"), *how, "--within", "0.3")
    assert " proven dominated or at most 30 % better, " in said
    assert " on the front\n" in said
    few = len(read_study(tmp_path / "out").frame)
    share = "a point of this front is at most 30 % worse in each objective"
    assert f"for all others that fit, it is proven that {share}" in call("report", out, "--front")
    limited = call("report", out, "--front", "--constraint", "latency_s <= 1")
    assert "all others that fit and keep each limit with 30 % to spare, it is proven" in limited
    assert json.loads(call("report", out, "--front", "--json"))["within"] == 0.3
    told = "left: many are nearly equal. Started again with `within`"
    with pytest.warns(UserWarning, match=told):
        whole = sweep(study, out, workers=0, front_only=True)
    assert few < len(whole) < 240
    assert "proven that they are not on the front" in call("report", out, "--front")
    with open_folder(out) as store:
        assert fill(store, study, workers=0, front_only=True).finished == 240
    monkeypatch.undo()
    fewer = make_study(tmp_path, axes=axes, objectives=["dsp"], constraints=["latency_s < 1"])
    sweep(fewer, out, workers=0, front_only=True)
    stored, text = read_study(tmp_path / "out"), (tmp_path / "out" / "study.yaml").read_text()
    own = ({"dsp": "min"}, ("latency_s < 1",), fewer.text)
    assert (stored.objectives, stored.constraints, text) == own
    spoilt(tmp_path / "out", 1 + len(whole))
    assert "on the front so far" in call("report", out, "--front")
    for within, front_only in ((0.1, False), (1.0, True), (-0.1, True), (math.nan, True)):
        with pytest.raises(InputError, match=r"`within`: got .*; give a share of at least 0"):
            sweep(study, workers=0, front_only=front_only, within=within)


def test_a_limit_on_what_a_design_takes_leaves_designs_out_before(tmp_path):
    limits = ["dsp <= 100", "clock_ratio <= 0.5", "latency_s > 0"]
    study = make_study(tmp_path, axes=CLOCKS, objectives=["latency_s"], constraints=limits)
    with Store() as store:
        done = fill(store, study, workers=0, front_only=True)
        some = StoredStudy.of(store)
        assert (some.counted["point"] == some.frame["point"]).all()
    whole = sweep(study, workers=0)
    assert some.front["point"].tolist() == pareto(whole, ["latency_s"], limits)["point"].tolist()
    met = (whole["dsp"] <= 100) & (whole["clock_ratio"] <= 0.5)
    assert 0 < len(some.frame) <= met.sum() < done.misfits.total() + met.sum() == 12
    assert {part for parts in done.misfits for part in parts} == {*limits[:2]}


def test_processes_share_the_work_of_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr("carsim.explore.grid.CHUNK_CELLS", 5)
    axes = {**CLOCKS, "policy.tau": [0.0, 0.5], "policy.schedule": ["static", "drs"]}
    study = make_study(tmp_path, axes=axes, objectives=["latency_s", "energy_per_video_j", "dsp"])
    with closing(Processes(study, 2)) as two:
        together = bounds_of(GridStudy(study, two))
    np.testing.assert_equal(together, bounds_of(GridStudy(study)))


@pytest.mark.parametrize("death", DEATHS)
def test_a_process_that_dies_over_bounds_is_one_line(tmp_path, monkeypatch, death):
    monkeypatch.setattr("carsim.base.pools.POLL_S", 0.1)
    study = make_study(tmp_path, objectives=["latency_s"])
    with closing(Processes(study, 1)) as own:
        own.key = death
        with pytest.raises(InputError, match="a process was killed; memory may have run out"):
            list(own.each(operator.call, [1]))


def test_bounds_end_at_once_when_they_are_stopped(tmp_path):
    study = make_study(tmp_path, objectives=["latency_s"])
    told = []

    def step(done: int, total: int) -> None:
        told.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CertifiedFront(GridStudy(study, step=step))
    assert told[-1][0] == 2 < told[-1][1]


def test_measured_times_of_kernels_have_no_bound_and_do_not_break_the_front(tmp_path):
    axes = {"machine.overheads.kernels": [[], KERNELS], "machine.cores": [1, 2]}
    study = make_study(tmp_path, axes=axes, objectives=["latency_s", "energy_per_video_j"])
    check(study)
    bounds, _ = bounds_of(GridStudy(study))
    assert np.isfinite(bounds).all(axis=1).tolist() == [True, True, False, False]
