"""Small networks whose tokens pass all layers together: what contracts are held to beside decoders.

A whole sample and one in chunks, whose text enters by cross-attention, and a whole sample of a
network whose text tokens attend jointly with those of the image (``streams``).
"""

from functools import cache
from typing import Any

import numpy as np

from carsim.decisions.attention import AttentionPolicy
from carsim.design import Design, load_design
from carsim.hardware.schedule import BASELINE
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.workload.geometry import Video
from carsim.workload.sample import Sample

EIGHT_BITS = {"bits": 8}

BODY: dict[str, Any] = {
    "n_layers": 3,
    "hidden_size": 16,
    "n_heads": 2,
    "n_kv_heads": 2,
    "ffn_size": 40,
    "mlp": "plain",
}

CROSS: dict[str, Any] = {
    "kind": "diffusion",
    "text": "cross",
    "text_tokens": 6,
    "text_width": 8,
    "channels": 2,
    "stride": (2, 2, 2),
}

STREAMS: dict[str, Any] = {
    **CROSS,
    "text": "streams",
    "dual_blocks": 1,
    "single_stream": "apart",
    "modulation": "block",
}

WHOLE: dict[str, Any] = {"height": 16, "width": 16, "frames": 3, "steps": 5}

CHUNKS: dict[str, Any] = {
    "height": 16,
    "width": 16,
    "steps": 2,
    "chunk_frames": 2,
    "chunks": 3,
    "window_frames": 4,
}

CORES = 2
"""Cores of the small machine."""

NETWORKS = {
    "a video": (CROSS, WHOLE),
    "a video in chunks": (CROSS, CHUNKS),
    "an image with text in its sequence": (STREAMS, {**WHOLE, "frames": 1}),
}
"""What is made, in words -> network and sample."""


@cache
def network_design(made: str) -> Design:
    """A small network on a small machine.

    Args:
        made: A key of :data:`NETWORKS`.
    """
    network, sample = NETWORKS[made]
    raw = load_design("zcu102").model_dump()
    raw["model"] = {
        "name": "small",
        "head": {"kind": "none"},
        "body": BODY,
        "network": network,
        "sample": sample,
        "weights": EIGHT_BITS,
        "kv": EIGHT_BITS,
        "activations": EIGHT_BITS,
        "replay": EIGHT_BITS,
    }
    raw["policy"]["batch"] = 4
    raw["machine"] |= {"cores": CORES, "tile_kib": 1, "weight_buffer_kib": 4, "kv_buffer_kib": 4}
    return Design.model_validate(raw)


def sample_of(design: Design) -> Sample:
    """The sample of a design whose model is a network."""
    sample = design.model.sample
    assert sample is not None
    return sample


def video_of(design: Design) -> Video:
    """The forwards of a network as steps of one token."""
    return Video(sample_of(design).forwards, tokens_per_frame=1, prompt_tokens=0)


def dense_batches(design: Design) -> Batches:
    """Forwards that all compute."""
    shape = (1, sample_of(design).forwards, design.model.body.n_layers, design.policy.batch)
    return Batches(np.zeros(shape, np.bool_), 1, 0, "dense", "dense")


def dense_plan(design: Design, attention: AttentionPolicy, fidelity: str) -> Plan:
    """All forwards of a network, of which none reuses another.

    Args:
        design: The network on its machine.
        attention: Policy of attention.
        fidelity: Fidelity level.
    """
    return Plan.of_video(
        Phases(Hardware(design), fidelity),
        video_of(design),
        attention=attention,
        schedule=BASELINE.kind,
        rule=None,
    )
