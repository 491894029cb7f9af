"""Small traces for tests, consistent by construction."""

from typing import Any

import numpy as np

from carsim.trace import DenseAttention, Geometry, Trace, TraceMeta
from carsim.trace.file import evaluated, would_replay
from carsim.trace.scope import decision_units, unanimous


def make_meta(**changes: Any) -> TraceMeta:
    """Two layers, three frames of four tokens, two guidance pairs; ``changes`` replace fields."""
    fields: dict[str, Any] = {
        "producer": "tests",
        "producer_version": "0",
        "decoded": Geometry(
            name="tiny",
            n_layers=2,
            hidden_size=8,
            n_heads=2,
            n_kv_heads=1,
            head_dim=4,
            ffn_size=16,
        ),
        "n_frames": 3,
        "tokens_per_frame": 4,
        "prompt_tokens": 5,
        "prompt_lengths": (5, 2, 4, 2),
        "tau": 0.1,
        "attention": DenseAttention(),
        "seed": 0,
        "guidance_pairs": ((0, 1), (2, 3)),
        "mode": "teacher_forced",
        "weights": "random",
        "content": {"kind": "noise"},
        "command": "none",
    }
    return TraceMeta(**{**fields, **changes})


def make_trace(seed: int = 0, **changes: Any) -> Trace:
    """A trace of random scores, with the decisions that follow from them."""
    meta = make_meta(**changes)
    rng = np.random.default_rng(seed)
    tas = rng.normal(size=(meta.n_steps, meta.decoded.n_layers, meta.n_rows)).astype(np.float32)
    tas[~evaluated(meta)] = np.nan
    units = decision_units(meta.decision_scope, meta.guidance_pairs, meta.n_rows)
    return Trace(unanimous(would_replay(tas, meta), units), tas, meta)
