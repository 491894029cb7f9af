"""What a study file may say, and what it is told when it says something else."""

import pytest
from explore_study import make_study, write_study

from carsim.base.errors import InputError
from carsim.explore.axis import parse_axis
from carsim.explore.points import make_points
from carsim.explore.study import load_study
from carsim.workload.workload import workload_of


def values(raw):
    return parse_axis("x", raw, "axes.x").values


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ([1, 2, 5], (1, 2, 5)),
        ({"values": ["a", True]}, ("a", True)),
        ({"range": {"from": 1, "to": 4}}, (1, 2, 3, 4)),
        ({"range": [1, 8, 3]}, (1, 4, 7)),
        ({"range": {"from": 0, "to": 0.3, "step": 0.1}}, (0, 0.1, 0.2, 0.3)),
        ({"range": {"from": 0.0, "to": 1.0, "points": 3}}, (0.0, 0.5, 1.0)),
        ({"range": {"from": 0, "to": 1, "points": 2}}, (0, 1)),
        ({"range": {"from": -1, "to": -1}}, (-1,)),
        ({"log2": {"from": 128, "to": 1024}}, (128, 256, 512, 1024)),
        ({"log2": [3, 23]}, (3, 6, 12)),
        ({"log2": [5e-324, 1e-323]}, (5e-324, 1e-323)),
    ],
)
def test_axes_spell_out_their_values(raw, expected):
    assert values(raw) == expected
    assert [type(v) for v in values(raw)] == [type(v) for v in expected] or 0 in expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axes": {"machine.core": [1]}}, "$.axes.machine.core: no field 'core' in 'machine.core'"),
        ({"axes": {"board.memories.hbm.channels": [1]}}, "known here: pl_ddr, ps_ddr"),
        ({"axes": {}}, "$.axes: Dictionary should have at least 1 item after validation"),
        ({"axes": {"machine.cores": []}}, "$.axes.machine.cores: is empty; give at least one"),
        ({"axes": {"machine.cores": [1, 1]}}, "lists 1 twice; keep one"),
        ({"axes": {"machine.cores": [1, 10**20]}}, "holds 100000000000000000000; take a smaller"),
        ({"axes": {"policy.tau": {"range": [0, 1, 1e-320]}}}, "has inf values"),
        ({"name": "a\x1b[31m"}, r"holds '\x1b', which is no text"),
        ({"axes": {"x": {"choice": {"\ud800": {"machine.cores": 1}}}}}, "invalid Unicode"),
        ({"axes": {"machine.cores": 4}}, "got 4; give a list of values, or one of range"),
        ({"axes": {"machine.cores": {"range": [5, 1]}}}, "is empty: from 5 to 1"),
        ({"axes": {"machine.cores": {"range": [1, 5, 0]}}}, "steps by 0; give a step above 0"),
        ({"axes": {"machine.cores": {"log2": [0, 5]}}}, "starts at 0; start above 0"),
        ({"axes": {"policy.tau": {"uniform": [0, 5]}}}, 'got {"uniform": [0, 5]}; give a list'),
        ({"axes": {"x": {"choice": {}}}}, "has no choices"),
        ({"axes": {"limit": {"choice": {"a": {}}}}}, "is the name of a column of results"),
        ({"axes": {"x": {"choice": {"a": {"machine.kores": 1}}}}}, "did you mean 'cores'?"),
        ({"axes": {"machine.mapping": ["batch", "hybird"]}}, "did you mean 'hybrid'? known are"),
        ({"axes": {"x": {"choice": {"a": {"machine.cores": 0}}}}}, ":6: $.axes.x.choice: should"),
        ({"axes": {"policy.tau": [0, "inf", [0.1, "y"]]}}, "policy.tau.1: expected a number, got"),
        ({"axes": {"board.preset": ["zcu12"]}}, "no preset 'zcu12'; did you mean 'zcu102'?"),
        ({"axes": {"workload": ["vido:8"]}}, "$.axes: workload: got 'vido:8'; did you mean"),
        ({"set": {"machine.cores": "2"}, "axes": {"policy.tau": [0]}}, "$.set: should be a valid"),
        ({"set": {"description": 5}}, "$.set: should be a valid string, got 5; write"),
        (
            {"axes": {"trace": ["none.npz"]}},
            "none.npz: cannot be read: No such file or directory; check the path",
        ),
        ({"axes": {"design": ["none"]}}, "none: is neither a YAML file nor a shipped design"),
        ({"set": {"machine.cores": 1}}, "machine.cores is set by set, too; set it in one place"),
        (
            {"axes": {"machine.array.cols": [2, 4], "machine.array": [{"rows": 4, "cols": 2}]}},
            "machine.array holds machine.array.cols, which the axis machine.array.cols sets; set",
        ),
        (
            {"axes": {"machine.array": [{"rows": 4, "cols": 2}], "machine.array.cols": [2, 4]}},
            "machine.array.cols is part of machine.array, which the axis machine.array sets; set",
        ),
        (
            {
                "axes": {
                    "model.weights": [{"bits": 4}],
                    "x": {"choice": {"a": {"model.weights.bits": 8}}},
                }
            },
            "$.axes.x: model.weights.bits is part of model.weights, which the axis model.weights",
        ),
        (
            {"set": {"machine.array.cols": 4}, "axes": {"machine.array": [{"rows": 4, "cols": 2}]}},
            "machine.array holds machine.array.cols, which set sets; set it in one place",
        ),
        (
            {"set": {"machine.array.cols": 4, "machine.array": {"rows": 4, "cols": 2}}},
            "$.set: sets machine.array.cols, and machine.array, which holds it; set it in one",
        ),
        (
            {"axes": {"x": {"choice": {"a": {"policy.tau": 0, "policy": {"batch": 2, "tau": 1}}}}}},
            "$.axes.x.choice: sets policy.tau, and policy, which holds it; set it in one place",
        ),
        (
            {"axes": {"workload": ["video:2"], "trace": ["toy.npz"]}},
            "trace says what is decoded, and so does workload of the axis workload; leave one",
        ),
        ({"filters": ["machine.cores <"]}, "$.filters: 'machine.cores <' is no expression"),
        ({"filters": ["policy.schedule < 3"]}, "has no value: '<' not supported"),
        ({"filters": ["machine.cores > 4", "policy.batch == 4"]}, "no point: machine.cores > 4; p"),
        ({"filters": ["machine.cores.__class__"]}, "no field '__class__'"),
        ({"objectives": ["latencys"]}, "no metric 'latencys'; did you mean 'latency_s'?"),
        (
            {"name": "\ufeff", "objectives": ["\ufeff"]},
            r"no metric '\ufeff'; 'carsim config metrics' lists all",
        ),
        ({"objectives": ["decisions"]}, "is neither better large nor small"),
        ({"objectives": {"latency_s": "least"}}, "should be 'min' or 'max', got 'least'"),
        ({"objectives": ["price_usd"]}, "no metric 'price_usd'; did you mean 'cost_usd'?"),
        ({"traces": "vilau_8f"}, "$.traces: should be a list, got 'vilau_8f'; write a list: ['v"),
        (
            {"traces": "\ufeff"},
            "$.traces: should be a list, got '\\ufeff'; write a list: ['\\ufeff']",
        ),
        ({"objectives": ["fps"]}, "no metric 'fps'; did you mean 'frames_per_s'? 'carsim config"),
        ({"constraints": ["dps < 1"]}, "$.constraints: no metric 'dps'; did you mean 'dsp'?"),
        ({"sampling": {"method": "lhs"}}, "lhs needs a number of points, and a grid has none"),
        ({"sampling": {"points": 3}}, "a grid has none; give both or neither"),
        ({"traces": None}, "$.traces: is missing; give traces, or a workload"),
        ({"traces": None, "workload": "txt:1"}, "$.workload: got 'txt:1'; did you mean 'text'?"),
        ({"fidelity": "exact"}, "$.fidelity: should be 'fluid' or 'tile', got 'exact'; choose one"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(tmp_path, changes, message):
    path = write_study(tmp_path, **changes)
    with pytest.raises(InputError) as caught:
        _ = load_study(path).objectives, make_points(load_study(path))
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


def test_axes_whose_paths_only_begin_alike_are_different(tmp_path):
    axes = {"machine.array.rows": [4], "machine.array.cols": [2], "machine.tile_kib": [1]}
    assert len(make_points(make_study(tmp_path, axes=axes))) == 1


def test_choices_of_one_axis_may_set_a_section_or_a_part_of_it(tmp_path):
    choices = {
        "whole": {"machine.array": {"rows": 4, "cols": 2}},
        "part": {"machine.array.cols": 4},
    }
    assert len(make_points(make_study(tmp_path, axes={"x": {"choice": choices}}))) == 2


def test_a_workload_from_outside_is_not_dropped_for_an_axis(tmp_path):
    path = write_study(tmp_path, axes={"trace": ["toy.npz"]})
    with pytest.raises(InputError, match="so does trace of the axis trace; leave it out, or the"):
        load_study(path, workload_of("video:2"))


def test_one_factor_on_times_holds_only_if_no_axis_sets_the_whole_machine(tmp_path):
    machine = make_study(tmp_path).base.machine.model_dump(mode="json")
    study = make_study(tmp_path, axes={"machine": [machine]})
    assert study.expected is None


def test_a_file_of_a_workload_lies_beside_its_study(tmp_path):
    (tmp_path / "work.yaml").write_text("kind: text\ntokens: 3\n")
    assert make_study(tmp_path, traces=None, workload="work.yaml").workload.text == "text:3"


def test_a_grid_is_every_combination_that_passes(tmp_path):
    study = make_study(
        tmp_path,
        axes={
            "machine.cores": [1, 2, 4],
            "policy.batch": [2, 4],
            "memory": {"choice": {"a": {"machine.tile_kib": 1}, "b": {}}},
        },
        filters=["machine.cores <= policy.batch", "memory == 'a' or policy.batch == 2"],
    )
    points = make_points(study)
    assert [tuple(point.values.values()) for point in points] == [
        *((1, 2, "a"), (1, 2, "b"), (1, 4, "a")),
        *((2, 2, "a"), (2, 2, "b"), (2, 4, "a"), (4, 4, "a")),
    ]
    assert [point.ordinal for point in points] == list(range(7))
    assert len({point.id for point in points}) == 7
    assert dict(points[0].changes) == {"machine.cores": 1, "policy.batch": 2, "machine.tile_kib": 1}


def test_a_latin_hypercube_meets_every_stratum_once(tmp_path):
    range_of_20 = {"range": {"from": 0, "to": 1, "points": 20}}
    axes = {"policy.tau": range_of_20, "machine.cores": [1, 2, 3, 4]}
    study = make_study(tmp_path, axes=axes, sampling={"method": "lhs", "points": 20, "seed": 3})
    points = make_points(study)
    taus = sorted(point.values["policy.tau"] for point in points)
    assert taus == [place / 19 for place in range(20)]
    cores = [point.values["machine.cores"] for point in points]
    assert [cores.count(n) for n in (1, 2, 3, 4)] == [5, 5, 5, 5]
    assert [p.values for p in make_points(study)] == [p.values for p in points]


def test_values_that_rise_or_fall_have_neighbours():
    ordered, others = ([1, 2, 4], [0.5, 0.25, -1]), ([1, 3, 2], ["a", "b"], [1, None])
    assert all(parse_axis("x", values, "x").is_ordered for values in ordered)
    assert not any(parse_axis("x", values, "x").is_ordered for values in others)
