"""A report as one JSON document: everything that was found, stable keys, units in names."""

import math
from importlib.metadata import version
from typing import Any

from carsim.machine import Report, RowResult
from carsim.machine.frames import limit_records
from carsim.technology.energy import Joules
from carsim.units import GB

SCHEMA_VERSION = 1
"""Version of the keys below; a change that could break a reader raises it."""


def summary(report: Report) -> dict[str, Any]:
    """The document.

    Every number that is no number (nothing to divide by) is null. Equal inputs give an equal
    document: it holds no dates and no paths.
    """
    design, chosen = report.design, report.chosen
    video = chosen.simulation.plan.video
    document = {
        "schema_version": SCHEMA_VERSION,
        "carsim_version": version("carsim"),
        "design": design.name,
        "design_sha256": design.sha256,
        "traces": [{"name": name, "sha256": sha256} for name, sha256 in report.traces],
        "resampling_seed": report.seed,
        "fidelity": chosen.simulation.plan.hw.fidelity,
        "fits": report.fit.fits,
        "misfits": list(report.fit.misfits),
        "warnings": list(report.fit.warnings),
        "notes": list(report.notes),
        "video": {
            "frames": video.n_frames,
            "tokens_per_frame": video.tokens_per_frame,
            "steps": video.n_steps,
            "prompt_tokens": video.prompt_tokens,
        },
        "batches": chosen.n_batches,
        "sequences_per_batch": design.policy.batch,
        "videos_per_batch": chosen.batches.videos_per_batch,
        "rows_left_out": chosen.batches.left_out_rows,
        "chosen": chosen.variant.name,
        "head_included": design.machine.include_head,
        "head_s": report.head_seconds,
        "latency_without_head_s": chosen.body_latency_s,
        "latency_with_head_s": chosen.body_latency_s + report.head_seconds,
        "simulated": {
            "layer_steps": sum(layer_steps(row) for row in report.rows if not row.is_bound),
            "different_phases": sum(
                row.simulation.unique_phases for row in report.rows if not row.is_bound
            ),
        },
        "policies": [_row(row, report) for row in report.rows],
        "limits": limit_records(report),
        "elasticities": [
            {
                "resource": elasticity.resource,
                "simulated": elasticity.simulated,
                "latency_change_per_10_percent": elasticity.change,
            }
            for elasticity in report.elasticities
        ],
        "memories": [
            {
                "name": path.name,
                "peak_gbps": path.peak_gbps,
                "dram_gbps": path.dram_gbps,
                "port_gbps": path.port_gbps,
                "sustained_gbps": path.sustained_gbps,
                "limited_by": path.limited_by,
                "latency_cycles": path.latency_cycles,
            }
            for path in chosen.simulation.plan.hw.paths
        ],
        "fit": [
            {
                "what": row.what,
                "needed": row.needed,
                "available": row.available,
                "unit": row.unit,
                "ok": row.ok,
                "detail": row.detail,
            }
            for row in report.fit.rows
        ],
        "resolved_design": design.model_dump(mode="json"),
    }
    finite: dict[str, Any] = _finite(document)
    return finite


def layer_steps(row: RowResult) -> int:
    """Layer-steps that a row is made of."""
    steps = row.simulation.plan.video.n_steps * row.design.model.body.n_layers
    return row.n_batches * steps


def _row(row: RowResult, report: Report) -> dict[str, Any]:
    per_video = {
        part.component: {
            "value": part.value_j / row.videos,
            "low": part.low_j / row.videos,
            "high": part.high_j / row.videos,
            "idle": part.idle,
        }
        for part in row.energy.parts
    }
    return {
        "policy": row.variant.name,
        "attention": row.variant.attention.model_dump(mode="json"),
        "schedule": row.variant.schedule,
        "replays": row.variant.replays,
        "is_bound": row.is_bound,
        "is_chosen": row is report.chosen,
        "decisions_source": row.batches.source,
        "decisions": row.batches.label,
        "latency_s": row.latency_s,
        "latency_cycles_by_batch": None if row.is_bound else row.simulation.batch_cycles.tolist(),
        "s_per_video": row.seconds_per_video,
        "ms_per_token": row.ms_per_token,
        "speedup_over_dense": report.rows[0].latency_s / row.latency_s,
        "latency_without_head_s": row.body_latency_s,
        "replay_ratio_all_steps": row.replay_all,
        "replay_ratio_eligible_steps": row.replay_eligible,
        "cores_busy": row.busy,
        "macs_done_over_possible": row.mac_utilisation,
        "memory_utilisation_of_peak": row.ddr_utilisation,
        "energy_per_video_j": _joules(row.energy_per_video),
        "energy_above_idle_per_video_j": row.energy.above_idle.value_j / row.videos,
        "energy_parts_per_video_j": per_video,
        "average_power_w": row.average_power_w,
        "memory_gb_per_video": {
            name: nbytes / GB / row.videos for name, nbytes in row.dram_bytes.items()
        },
        "wasted_gb_per_video": row.wasted_bytes / GB / row.videos,
        "breakdown_s": row.seconds_by_category,
    }


def _joules(joules: Joules) -> dict[str, float]:
    return {"value": joules.value_j, "low": joules.low_j, "high": joules.high_j}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
