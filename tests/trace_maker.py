"""Small traces for tests, consistent by construction."""

from typing import Any

import numpy as np

from carsim.decisions.attention import Dense
from carsim.decisions.replay import decision_units, unanimous
from carsim.decisions.trace import Trace
from carsim.decisions.trace.meta import Geometry, TraceMeta


def make_meta(**changes: Any) -> TraceMeta:
    """Two layers, three frames of four tokens, two guidance pairs; ``changes`` replace fields."""
    fields: dict[str, Any] = {
        "producer": "tests",
        "producer_version": "0",
        "decoded": Geometry(
            name="tiny", n_layers=2, hidden_size=8, n_heads=2, n_kv_heads=1, head_dim=4, ffn_size=16
        ),
        "n_frames": 3,
        "tokens_per_frame": 4,
        "prompt_tokens": 5,
        "prompt_lengths": (5, 2, 4, 2),
        "tau": 0.1,
        "attention": Dense(),
        "seed": 0,
        "guidance_pairs": ((0, 1), (2, 3)),
        "mode": "teacher_forced",
        "weights": "random",
        "content": {"kind": "noise"},
        "command": "none",
    }
    return TraceMeta(**{**fields, **changes})


def make_quality(**changes: Any) -> dict[str, Any]:
    """Quality of both clips of :func:`make_meta`, one frame given; ``changes`` replace fields."""
    losses = {"own": (1.5, 2.5), "dense": (1.25, 2.5)}
    return {"first_frame": 1, "teacher_forced_nats": losses, **changes}


def make_trace(seed: int = 0, **changes: Any) -> Trace:
    """A trace of random scores, with the decisions that follow from them."""
    meta = make_meta(**changes)
    rng = np.random.default_rng(seed)
    tas = rng.normal(size=(meta.n_steps, meta.decoded.n_layers, meta.n_rows)).astype(np.float32)
    tas[~meta.replay.scored(meta.n_steps, meta.tokens_per_frame)] = np.nan
    units = decision_units(meta.decision_scope, meta.guidance_pairs, meta.n_rows)
    return Trace(unanimous(meta.replay.exceeds(tas), units), tas, meta)
