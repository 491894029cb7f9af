"""Certified fronts and searches of networks, whose tokens pass each layer together."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from carsim import load_design
from carsim.base.errors import InputError
from carsim.explore.bench import Bench
from carsim.explore.bounds import bounds_of
from carsim.explore.certificate import verify
from carsim.explore.grid import GridStudy
from carsim.explore.pareto import directions, pareto
from carsim.explore.points import make_points
from carsim.explore.space import spaces_of
from carsim.explore.store import open_folder
from carsim.explore.study import Study, load_study
from carsim.explore.sweep import fill, sweep
from carsim.explore.target import Wanted, all_of, search_target
from carsim.workload.workload import workload_of

EIGHT_BITS = {name: {"bits": 8} for name in ("weights", "kv", "activations", "replay")}

VIDEO = {
    "body": {
        **{"n_layers": 2, "hidden_size": 32, "n_heads": 2, "n_kv_heads": 2},
        **{"ffn_size": 64, "mlp": "plain"},
    },
    "network": {
        **{"kind": "diffusion", "text": "cross", "text_tokens": 5, "text_width": 16},
        **{"channels": 2, "stride": (2, 2, 2)},
    },
    "sample": {
        **{"height": 16, "width": 16, "frames": 5, "steps": 4, "passes": 2},
        **{"encoder_s": 1e-4, "decoder_s": 2e-4},
    },
}

CHUNKS = {
    **VIDEO,
    "sample": {
        **{"height": 16, "width": 16, "frames": 1, "steps": 3, "passes": 1},
        **{"chunk_frames": 2, "chunks": 3, "window_frames": 4},
    },
}

STREAMS = {
    **VIDEO,
    "network": {
        **{"kind": "diffusion", "text": "streams", "text_tokens": 5, "text_width": 16},
        **{"channels": 2, "stride": (2, 2, 2), "modulation": "block", "dual_blocks": 1},
        "vectors": (6,),
    },
}

DEPTH = {
    "body": VIDEO["body"],
    "network": {
        **{"kind": "depth", "patch_side": 2, "trained_side": 8},
        **{"head_channels": (4, 8, 8, 8), "fusion_channels": 4},
    },
    "sample": {"height": 10, "width": 6},
}

AXES: dict[str, list[Any]] = {
    "machine.cores": [1, 3],
    "machine.mapping": ["batch", "tensor", "heads"],
    "machine.weight_sharing": ["broadcast", "private"],
    "machine.array.rows": [2, 32],
    "machine.vector.lanes": [2, 64],
    "machine.vector.exponentials_per_cycle": [0, 1, 64],
    "machine.query_tile": [0, 1],
    "machine.loop_order": ["tokens", "weights", "best"],
    "machine.activation_buffer_kib": [1, 64],
    "machine.weight_buffer_kib": [2, 8],
    "machine.kv_buffer_kib": [2, 8],
    "machine.tile_kib": [1, 2],
    "board.fabric_clock_mhz": [100.0, 300.0],
    "policy.schedule": ["static", "drs"],
    "policy.skip.kind": ["mlp", "every_module", "all_layers", "by_module"],
    "policy.attention": [
        {"kind": "dense"},
        {"kind": "draft", "block_tokens": 4, "keep": 0.5},
    ],
    "replay": [True, False],
}
OBJECTIVES = [
    *("latency_s", "seconds_per_video", "energy_per_video_j", "dsp", "frames_per_s"),
    *("energy_per_token_j", "expected_seconds_per_video", "fill", "memory_used_gb"),
    *("average_power_w", "energy_above_idle_per_video_j", "memory_gb_per_video", "prefill_s"),
]


def study_of(folder: Path, model: dict[str, Any], axes: dict[str, Any], **more: Any) -> Study:
    """A study of a small network on a small machine."""
    raw = load_design("zcu102").model_dump(mode="json")
    raw["model"] = {"name": "small", "head": {"kind": "none"}, **EIGHT_BITS, **model}
    skip = {"kind": "all_layers"}
    raw["policy"] = {"batch": model["sample"].get("passes", 1), "skip": skip}
    raw["machine"] |= {
        **{"cores": 2, "tile_kib": 1, "weight_buffer_kib": 4, "kv_buffer_kib": 4},
        "activation_buffer_kib": 4,
    }
    (folder / "small.yaml").write_text(yaml.safe_dump(yaml_ready(raw)), encoding="utf-8")
    study = {"name": "small", "design": "small.yaml", "axes": axes, "baseline": False}
    study |= {"workload": {"kind": "sample"}, **more}
    (folder / "study.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    return load_study(folder / "study.yaml")


def yaml_ready(value: Any) -> Any:
    """Lists in place of tuples."""
    if isinstance(value, dict):
        return {key: yaml_ready(inner) for key, inner in value.items()}
    return [yaml_ready(inner) for inner in value] if isinstance(value, list | tuple) else value


def check_bounds(study: Study) -> float:
    """No exact value is below its bound. Returns the least share of a latency in its bound."""
    signs = directions(study.objectives)
    bounds, lacks = bounds_of(GridStudy(study))
    misfits = np.any([np.zeros(len(bounds), np.bool_), *lacks.values()], axis=0)
    whole = sweep(study, workers=0)
    shares = [1.0]
    for point, bound, is_misfit in zip(make_points(study), bounds, misfits, strict=True):
        row = whole.iloc[point.ordinal]
        if row["status"] != "ok":
            continue
        assert not is_misfit
        exact = np.array([sign * row[name] for name, sign in signs.items()])
        assert (exact >= bound).all(), (point.values, exact, bound)
        assert np.isfinite(bound).all()
        if exact[0]:  # a network has no prompt: prefill_s is 0
            shares.append(bound[0] / exact[0])
    few = sweep(study, workers=0, front_only=True)
    if (whole["status"] == "ok").any():
        on_front = [pareto(frame, study.objectives)["point"].tolist() for frame in (few, whole)]
        assert on_front[0] == on_front[1]
    return min(shares)


@given(data=st.data())
@settings(max_examples=4, phases=[Phase.generate])
def test_bounds_of_drawn_networks_hold(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    model = data.draw(st.sampled_from([VIDEO, CHUNKS, STREAMS, DEPTH]))
    names = st.sampled_from(list(AXES))
    chosen = data.draw(st.lists(names, min_size=1, max_size=3, unique=True))
    axes = {name: AXES[name] for name in chosen}
    wanted = data.draw(st.lists(st.sampled_from(OBJECTIVES), min_size=1, max_size=3, unique=True))
    reuses: list[dict[str, Any]] = [{}]
    if model is not DEPTH:
        reuses.append({"every": 2, "dense": 1})
    if model in (VIDEO, CHUNKS):  # which have an MLP in each layer
        reuses.append({"replay": 0.5, "range_tokens": 4})
    work = {"kind": "sample", **data.draw(st.sampled_from(reuses))}
    if "replay" in work:
        axes["policy.skip.kind"] = ["mlp"]
    folder = tmp_path_factory.mktemp("study")
    check_bounds(study_of(folder, model, axes, objectives=wanted, workload=work))


@pytest.mark.parametrize("model", [VIDEO, CHUNKS, STREAMS, DEPTH])
def test_bounds_of_power_and_traffic_hold(tmp_path: Path, model: dict[str, Any]) -> None:
    axes = {
        "machine.cores": [1, 3],
        "machine.array.rows": [2, 32],
        "machine.activation_buffer_kib": [1, 64],
        "board.fabric_clock_mhz": [100.0, 300.0],
        "policy.skip.kind": ["all_layers"],
    }
    goals = ["average_power_w", "energy_above_idle_per_video_j", "memory_gb_per_video", "prefill_s"]
    work = {"kind": "sample"} | ({} if model is DEPTH else {"every": 2})
    check_bounds(study_of(tmp_path, model, axes, objectives=goals, workload=work))


@pytest.mark.parametrize("metric", ["expected_seconds_per_video", "expected_frames_per_s_low"])
@pytest.mark.parametrize("field", ["encoder_s", "decoder_s"])
def test_bounds_of_expected_figures_hold_with_stated_seconds(
    tmp_path: Path, metric: str, field: str
) -> None:
    # Stated seconds are most of the time; a bound that multiplies them by the factor is too high.
    sample = {**CHUNKS["sample"], field: 1.0}
    axes = {"machine.array.rows": [2, 32], "machine.cores": [1, 3]}
    study = study_of(tmp_path, {**CHUNKS, "sample": sample}, axes, objectives=[metric])
    assert check_bounds(study) > 0.99


def test_a_small_grid_equals_its_enumeration_and_bounds_are_near(tmp_path: Path) -> None:
    axes = {
        "machine.array.rows": [4, 32],
        "machine.vector.exponentials_per_cycle": [1, 16],
        "machine.activation_buffer_kib": [4, 64],
        "machine.cores": [1],
    }
    study = study_of(tmp_path, VIDEO, axes, objectives=["latency_s", "dsp"])
    assert check_bounds(study) > 0.85
    front = sweep(study, workers=0, front_only=True)
    assert len(front) < 8  # bounds leave designs out


def test_a_front_of_a_network_has_a_certificate(tmp_path: Path) -> None:
    axes = {"machine.cores": [1, 2], "machine.query_tile": [0, 2]}
    study = study_of(tmp_path, CHUNKS, axes, objectives=["frames_per_s", "dsp"])
    with open_folder(tmp_path / "front") as store:
        fill(store, study, workers=0, front_only=True)
    found = verify(tmp_path / "front", tmp_path / "study.yaml")
    assert found.designs == 4
    assert found.front >= 1


FEW: dict[str, tuple[Any, ...]] = {
    "policy.batch": (1,),
    "machine.cores": (1, 2),
    "machine.mapping": ("batch",),
    "machine.array.rows": (16, 32),
    "machine.array.cols": (16,),
    "machine.vector.lanes": (32,),
    "machine.weight_buffer_kib": (256,),
    "machine.kv_buffer_kib": (128,),
    "machine.activation_buffer_kib": (64, 512),
    "machine.tile_kib": (32,),
    "machine.vector.exponentials_per_cycle": (8, 16),
    "board.fabric_clock_mhz": (1200.0,),
}
"""A space of few machines."""


def test_a_search_for_a_network_finds_the_cheapest_machine_of_all() -> None:
    work = workload_of("image:depth_anything_v2_small,70x98")
    wanted = Wanted(
        work,
        all_of(["frames_per_s >= 480"]),
        model="depth_anything_v2_small",
        boards=("asic_7nm_lpddr5x",),
        axes=FEW,
    )
    answer = search_target(wanted)
    assert answer.is_closed
    assert answer.best is not None
    (space,) = answer.spaces
    bench = Bench(work)
    choices = space.axes["memory"].values[:3]
    values = [axis.values for name, axis in space.axes.items() if name != "memory"]
    names = [name for name in space.axes if name != "memory"]
    machines = [
        {"memory": choice, **dict(zip(names, machine, strict=True))}
        for choice in choices
        for machine in product(*values)
    ]
    measured = bench.measure([bench.fitted(space.design(each)) for each in machines])
    reaching = [each.figures["cost_usd"] for each in measured if each.meets(wanted.target)]
    missing = [each for each in measured if not each.meets(wanted.target)]
    assert reaching
    assert missing
    assert answer.best.value("cost_usd") <= min(reaching)


def test_exponentials_are_an_axis_of_networks_alone() -> None:
    axis = "machine.vector.exponentials_per_cycle"
    with pytest.raises(InputError, match="is an axis of networks"):
        spaces_of(["zcu102"], "tiny", axes={axis: (8,)})
