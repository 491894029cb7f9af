"""Every number of the schema at its limits: a sane answer, or one line that refuses it."""

import copy
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from strategies import raw_design

from carsim.base.errors import InputError
from carsim.decisions.attention import ATTENTION
from carsim.decisions.trace import Trace
from carsim.decisions.trace.stated import stated_trace
from carsim.design import Design, build_design
from carsim.metrics import METRICS
from carsim.report import summary
from carsim.report.stored import stored
from carsim.runs.pipeline import run
from carsim.runs.report import Report
from carsim.workload.workload import Workload

REPLAY = ("machine.drs", "machine.cores", "model.replay", "policy", "model.video")
"""Fields of designs that are run with replays, too."""
HUGE, TINY, LONG = 1e300, 1e-300, 3.3333333333333335
FIELDS_OF_ONE_MODE = {"ann": {"search": "lsh"}}
LINEAR_HEAD = {"kind": "linear", "vocabulary": 40}
EXPERTS = {"count": 4, "active": 2, "shared_ffn_size": 8}


def document() -> dict[str, Any]:
    """A small design that says all that a video on an FPGA can have said of it."""
    raw = raw_design(
        attention_unit={"rows": 2, "cols": 2}, overheads={"step_us": 1.0}, drs={}, tile_kib=1
    )
    memory = raw["board"]["memories"]["ddr"]
    memory |= {"density_gbit": 8, "timings": {}, "interleave_bytes": 4096}
    memory["ports"] = memory["ports"] | {"controller_gbps": 9}
    model = raw["model"]
    model["body"] |= {"n_layers": 3, "head_size": 8, "window": 6, "global_layers": [1]}
    model["video"] = {"frames": 2, "tokens_per_frame": 4, "prompt_tokens": 3}
    model["head"] = {"kind": "depth_transformer", "n_layers": 1, "hidden_size": 16, "n_heads": 2}
    model["head"] |= {"ffn_size": 32, "n_codes": 2, "codebook_size": 40}
    for precision in ("weights", "kv", "activations", "replay"):
        model[precision] |= {"group": 8, "scale_bits": 16, "zero_bits": 4}
    raw["policy"] |= {"compare": [], "schedule": "drs"}
    return raw


def changed(raw: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    raw = copy.deepcopy(raw)
    *parents, last = path.split(".")
    section: Any = raw
    for parent in parents:
        section = section[int(parent)] if parent.isdigit() else section.setdefault(parent, {})
    section[last] = value
    return raw


CHANGES: dict[str, dict[str, Any]] = {
    "": {},
    "text": {"model.head": LINEAR_HEAD, "model.body.experts": EXPERTS},
    "latent": {
        **{"model.body.n_kv_heads": 1, "model.body.qk_norm": False, "model.body.biases": []},
        "model.body.latent": {"rank": 9, "rotary_size": 4, "value_size": 6, "query_rank": 10},
        "model.polished": [],
    },
    "private": {"machine.weight_sharing": "private", "machine.cores": 3},
    "measured": {
        "board.memories.ddr.efficiency_low": 0.5,
        "board.memories.ddr.efficiency_high": 0.9,
        "board.memories.ddr.published_efficiency_low": 0.5,
        "board.memories.ddr.published_efficiency_high": 0.9,
        "board.price": {
            **{"value": 200.0, "low": 100.0, "high": 300.0, "source": "a shop of ours"},
            **{"date": "2026", "memory_gbps": 1e6, "memory_gib": 1e6},
        },
    },
    "fitted": {
        "machine.overheads.calibration": {
            **{"board": "test board", "fabric_clock_mhz": 200.0, "weight_bits": [10.5]},
            **{"contexts": [1, 8], "layers": [3, 3], "batches": [1, 2], "points": 1, "error": 0.1},
        }
    },
    "kernels": {
        "machine.overheads.kernels": [
            {"block": "attention", "rows": 1, "at_work": 1, "us": 9.0, "us_per_token": 0.5},
            {"block": "mlp", "rows": 2, "at_work": 2, "us": 9.0},
            {"block": "gather", "rows": 1, "us": 1.0},
            {"block": "replay", "rows": 1, "us": 1.0},
        ]
    },
    "asic": {"board.technology": {"kind": "asic", "area_mm2": 50.0}},
    "versal": {"board.technology": {"kind": "versal", "ai_engines": 4}},
}

BODY_OF_NETWORKS = {
    **{"model.body.window": None, "model.body.global_layers": [], "model.body.mlp": "plain"},
    **{"model.body.biases": [], "model.head": {"kind": "none"}},
    "machine.vector.exponentials_per_cycle": 1,
}
NETWORK = {
    **{"kind": "diffusion", "text": "cross", "text_tokens": 5, "text_width": 16, "channels": 2},
    **{"stride": (2, 2, 2), "modulation_width": 8, "out_channels": 2},
}
WIDTH = 32
"""Of the layers, which a recurrent head keeps in its last two features."""
VIDEO = {"height": 8, "width": 8, "frames": 3, "steps": 2, "passes": 1}
CHUNKS = {"frames": 1, "chunk_frames": 2, "chunks": 2, "window_frames": 3}

NETWORKS: dict[str, dict[str, Any]] = {
    "cross": {"model.network": NETWORK, "model.sample": VIDEO},
    "chunks": {"model.network": NETWORK, "model.sample": {**VIDEO, **CHUNKS}},
    "streams": {
        "model.network": {
            **{**NETWORK, "text": "streams", "modulation": "block", "dual_blocks": 1},
            **{"vectors": (6,), "refiner_blocks": 1},
        },
        "model.sample": VIDEO,
    },
    "depth": {
        "model.network": {
            **{"kind": "depth", "patch_side": 2, "trained_side": 8},
            **{"head_channels": (4, 8, 8, 8), "fusion_channels": 4},
        },
        "model.sample": {"height": 8, "width": 6},
    },
    "recurrent": {
        "model.network": {
            **{"kind": "depth", "patch_side": 2, "trained_side": 8},
            **{"head_channels": (4, 8, WIDTH, WIDTH), "fusion_channels": 4},
            "recurrent": {"iterations": 1, "channels": 4},
        },
        "model.sample": {"height": 8, "width": 6},
    },
}
"""Sections of networks, whose tokens pass each layer together."""
"""Of the design, to have what it cannot have beside the rest."""


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """The design, and others that have what it cannot have beside the rest."""
    yield from ((label, with_all(changes)) for label, changes in CHANGES.items())
    for kind in ATTENTION:
        own = {"kind": kind, **FIELDS_OF_ONE_MODE.get(kind, {})}
        whole = {"model.body.window": None, "model.body.global_layers": []}
        yield kind, with_all({**whole, "policy.attention": own})
    for label, changes in NETWORKS.items():
        raw = with_all({**BODY_OF_NETWORKS, **changes, "policy.schedule": "static"})
        del raw["model"]["video"]
        yield label, raw


def with_all(changes: dict[str, Any]) -> dict[str, Any]:
    raw = document()
    for path, value in changes.items():
        raw = changed(raw, path, value)
    return raw


SCHEMA = Design.model_json_schema()


def resolved(schema: dict[str, Any], value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The definitions behind a field that a value may be of, with their names."""
    inner = (each for of in ("anyOf", "oneOf", "allOf") for each in schema.get(of, ()))
    for each in (schema, *inner):
        if "$ref" in each:
            name = each["$ref"].rpartition("/")[2]
            found = SCHEMA["$defs"][name]
            kind = found["properties"].get("kind", {}).get("const")
            if isinstance(value, dict) and (kind is None or value.get("kind") == kind):
                yield name, found
        elif each is not schema:
            yield from resolved(each, value)


def numbers(name: str, schema: dict[str, Any], value: dict[str, Any], path: str = "") -> Any:
    """(Definition and field, dotted path, its type and limits) of all numbers of a section."""
    for key, field in schema.get("properties", {}).items():
        here = f"{path}.{key}" if path else key
        for alternative in field.get("anyOf", [field]):
            if alternative.get("type") in ("integer", "number"):
                yield f"{name}.{key}", here, alternative
        inner = field.get("additionalProperties")
        if isinstance(inner, dict) and value.get(key):
            first, body = next(iter(value[key].items()))
            for of, found in resolved(inner, body):
                yield from numbers(of, found, body, f"{here}.{first}")
        listed = value.get(key)
        if isinstance(listed, list) and listed and "items" in field:
            for of, found in resolved(field["items"], listed[0]):
                yield from numbers(of, found, listed[0], f"{here}.0")
        for of, found in resolved(field, value.get(key)):
            yield from numbers(of, found, value[key], here)


def cases() -> dict[str, tuple[dict[str, Any], str, dict[str, Any]]]:
    found = {}
    for label, raw in documents():
        for name, path, limits in numbers("Design", SCHEMA, raw):
            if name.startswith("Constant.") and "vector_op_pj" not in path:
                continue  # all constants are alike
            if name.startswith("Memory.efficiency") and label != "measured":
                continue
            if label == "private" and path.startswith("machine."):
                found[f"{name} private"] = raw, path, limits
            found.setdefault(f"{name} {path}", (raw, path, limits))
    return found


CASES = cases()


def values(limits: dict[str, Any]) -> list[float]:
    """Both limits, a step to either side of each, and numbers that are no numbers of people."""
    low = limits.get("minimum", limits.get("exclusiveMinimum"))
    high = limits.get("maximum", limits.get("exclusiveMaximum"))
    if "enum" in limits:
        ends = [step + value for value in limits["enum"] for step in (-1, 0, 1)]
    elif limits["type"] == "integer":
        ends = [int(end) + step for end in (low, high) for step in (-1, 0, 1)]
    else:
        ends = [
            math.nextafter(end, towards) if towards is not None else float(end)
            for end in (low, high)
            for towards in (-math.inf, None, math.inf)
        ]
    return [*ends, TINY, HUGE, LONG]


def recorded(trace: Trace, design: Design) -> Trace:
    """What a policy reads at most, as if captured."""
    meta = trace.meta.model_copy(update={"attention": design.policy.attention})
    if not meta.attention.records:
        return replace(trace, meta=meta)
    contexts = meta.prompt_tokens + 1 + np.arange(meta.n_steps)
    shape = (meta.n_steps, meta.decoded.n_layers, meta.decoded.n_kv_heads, meta.n_rows)
    reads = meta.attention.reads(contexts)
    tokens, runs = (
        np.broadcast_to(each[:, None, None, None], shape) for each in (reads.tokens, reads.runs)
    )
    ends = meta.attention.held(contexts[meta.tokens_per_frame - 1 :: meta.tokens_per_frame])
    held = np.broadcast_to(ends[:, None, None], (meta.n_frames, shape[1], shape[3]))
    return replace(trace, meta=meta, kv_tokens=tokens, kv_runs=runs, kv_held=held)


@cache
def stated(video: str, batch: int, layers: int, kv_heads: int, replay: float | None) -> Trace:
    design = build_design(document(), "design")
    model = build_design(changed(document(), "model.video", json.loads(video)), "design").model
    body = design.model.body.model_copy(update={"n_layers": layers, "n_kv_heads": kv_heads})
    model = model.model_copy(update={"body": body})
    return stated_trace(Workload("video", replay=replay), model, batch)


def check(raw: dict[str, Any], path: str = "") -> str:
    """Why the design is refused, in one line; empty if its answer is sane."""
    try:
        report = simulated(raw, path)
    except InputError as refused:
        error = refused
    else:
        check_answer(report)
        return ""
    assert str(error).isprintable()
    assert error.cure
    assert "is too large" not in error.problem or error.place == path
    return str(error)


def simulated(raw: dict[str, Any], path: str) -> Report:
    design = build_design(raw, "design")
    if design.model.network is not None:
        return run(design, workload=Workload("sample"), allow_misfit=True, what_if=False)
    body, video = design.model.body, design.model.video
    replays = path.startswith(REPLAY) and video.tokens_per_frame < 1000
    text, share = video.model_dump_json(), 0.5 if replays else None
    trace = stated(text, design.policy.batch, body.n_layers, body.n_kv_heads, share)
    if design.policy.attention.kind != "dense":
        trace = recorded(trace, design)
    return run(design, [trace], allow_misfit=True, what_if=False)


def check_answer(report: Report) -> None:
    json.dumps(summary(report), allow_nan=False)
    assert stored(report).design
    for row in report.rows:
        for metric in METRICS.values():
            value = metric.value(row, report)
            if isinstance(value, int | float):
                assert math.isfinite(value), metric.name
                assert value >= 0 or metric.name.endswith("_relative"), (metric.name, value)
                if metric.unit == "share" and metric.name != "fill":  # misfits are allowed
                    assert value <= 1 + 1e-9, (metric.name, value)
        assert row.latency_s > 0
        assert row.energy_per_video.value_j >= 0
        assert sum(row.dram_bytes.values()) > 0
        for share in row.ddr_utilisation.values():
            assert 0 <= share <= 1 + 1e-9


@pytest.mark.parametrize("name", CASES)
def test_a_number_at_its_limits(name: str) -> None:
    raw, path, limits = CASES[name]
    for value in values(limits):
        check(changed(raw, path, value), path)


def test_the_walk_meets_every_number_of_the_schema() -> None:
    named = [("Design", SCHEMA), *SCHEMA["$defs"].items()]
    every = {
        f"{name}.{key}"
        for name, schema in named
        for key, field in schema.get("properties", {}).items()
        for each in field.get("anyOf", [field])
        if each.get("type") in ("integer", "number")
    }
    assert every == {name.partition(" ")[0] for name in CASES}


@pytest.mark.parametrize("label", [label for label, _ in documents()])
def test_the_designs_of_the_walk_run(label: str) -> None:
    assert check(dict(documents())[label]) == ""
