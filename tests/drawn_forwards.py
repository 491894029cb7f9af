"""Strategies of small networks whose tokens pass all layers together, on small machines."""

from typing import Any

from hypothesis import strategies as st

from carsim import load_design
from carsim.design import Design

EIGHT_BITS = {"weights": {"bits": 8}, "kv": {"bits": 8}, "activations": {"bits": 8}}


KINDS = ("cross", "none", "sequence", "streams", "depth", "recurrent")
"""How text enters a diffusion transformer, or the head of a depth encoder. ``alternating``, of
which tests ask by name, is ``cross`` or ``none`` with attention in space and time."""


@st.composite
def small_networks(
    draw: st.DrawFn, kinds: tuple[str, ...] = KINDS, *, regular: bool = False
) -> dict[str, Any]:
    """A small network of one of some kinds, and its sample."""
    heads = draw(st.sampled_from([1, 2, 4]))
    width = draw(st.sampled_from([8, 32])) * heads
    layers = draw(st.integers(1, 3))
    body = {
        **{"n_layers": layers, "hidden_size": width, "n_heads": heads, "n_kv_heads": heads},
        **{"ffn_size": draw(st.sampled_from([16, 40, 384])), "mlp": "plain"},
    }
    kind = draw(st.sampled_from(kinds))
    alternates = kind == "alternating"
    if alternates:
        kind = draw(st.sampled_from(["cross", "none"]))
    if kind in ("depth", "recurrent"):
        network: dict[str, Any] = {
            **{"kind": "depth", "patch_side": 2, "trained_side": 8},
            **{"head_channels": (4, 8, 8, 8), "fusion_channels": 4},
        }
        if kind == "recurrent":
            network |= {
                "registers": draw(st.integers(0, 4)),
                "head_channels": (4, 8, width, width),
                "recurrent": {
                    "iterations": draw(st.integers(1, 3)),
                    "channels": draw(st.sampled_from([4, 6])),
                },
            }
        sample = {"height": 2 * draw(st.integers(1, 5)), "width": 2 * draw(st.integers(1, 5))}
        return {"body": body, "network": network, "sample": sample}
    network = {
        **{"kind": "diffusion", "text": kind, "text_tokens": 0 if kind == "none" else 5},
        **{"text_width": 16, "channels": 2, "stride": (2, 2, 2)},
        "modulation": draw(st.sampled_from(["shared", "block"])),
    }
    if network["modulation"] == "block" and kind != "streams":
        network["modulation_vectors"] = draw(st.sampled_from([2, 6]))
    if kind == "streams":
        network |= {"dual_blocks": draw(st.integers(0, layers)), "vectors": (6,)}
    sample = {
        **{"height": 4 * draw(st.integers(1, 4)), "width": 4 * draw(st.integers(1, 4))},
        **{"frames": 1, "steps": draw(st.integers(1, 3)), "passes": draw(st.integers(1, 3))},
        "text_keys": draw(st.sampled_from(["cached", "recomputed"])),
    }
    if alternates:
        network["attention"] = "alternating"
        sample["frames"] = 1 + 2 * draw(st.integers(0, 3))
    elif kind in ("cross", "none") and draw(st.booleans()):
        chunk = draw(st.integers(1, 3))
        sample |= {"chunk_frames": chunk, "chunks": draw(st.integers(1, 3))}
        if draw(st.booleans()):
            sample["window_frames"] = chunk + draw(st.integers(0, 2))
        if not regular:
            sample |= draw(ways_of_chunks(sample))
    else:
        sample["frames"] = 1 + 2 * draw(st.integers(0, 2))
    return {"body": body, "network": network, "sample": sample}


@st.composite
def ways_of_chunks(draw: st.DrawFn, sample: dict[str, Any]) -> dict[str, Any]:
    """Fields of a sample that say how its chunks follow one another."""
    chunk = sample["chunk_frames"]
    way = draw(st.sampled_from(["one", "one", "moved", "none", "rolling", "pipelined", "prompts"]))
    if way == "moved":
        window = 2 * chunk + draw(st.integers(0, 2))
        sinks = draw(st.integers(0, window - chunk))
        return {"cache": "moved", "window_frames": window, "sink_frames": sinks, "chunks": 4}
    if way == "none":
        return {"cache": "none"}
    if way == "prompts":
        return {"prompts": draw(st.integers(1, sample["chunks"]))}
    if way == "one":
        return {"clean": draw(st.booleans())}
    levels = draw(st.integers(2, 3))
    fields = {way: levels, "steps": levels * draw(st.integers(1, 2)), "clean": draw(st.booleans())}
    if "window_frames" in sample:
        fields["window_frames"] = levels * chunk + draw(st.integers(0, 2))
    if way == "pipelined" and draw(st.booleans()):
        fields["ranges"] = [chunk + draw(st.integers(0, 3)) for _ in range(levels + 1)]
        fields["clean"] = True
    return fields


@st.composite
def designs(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS, *, regular: bool = False) -> Design:
    """A small network of one of some kinds on a small machine.

    Args:
        draw: Draws.
        kinds: Kinds of networks.
        regular: Chunks have forwards alike, so that tokens and forwards may reuse others.
    """
    model = draw(small_networks(kinds, regular=regular))
    base = load_design("zcu102")
    raw = base.model_dump()
    raw["model"] = {
        **{"name": "drawn", "head": {"kind": "none"}, **EIGHT_BITS, "replay": {"bits": 8}},
        **model,
    }
    if model["network"]["kind"] == "depth":
        names = ("qkv", "out", "gate_up", "down", "convolution")
        raw["model"]["polished"] = draw(st.sampled_from([(), names[-2:], names]))
    raw["policy"]["batch"] = model["sample"].get("passes", 1) * draw(st.integers(1, 2))
    mapping = draw(st.sampled_from(["batch", "tensor", "heads"]))
    raw["machine"] |= {
        **{"cores": draw(st.integers(1, 3)), "mapping": mapping, "tile_kib": 1},
        **{"weight_buffer_kib": draw(st.sampled_from([2, 4]))},
        **{"kv_buffer_kib": 2, "activation_buffer_kib": draw(st.sampled_from([1, 2, 64]))},
        **{"loop_order": draw(st.sampled_from(["tokens", "weights", "best"]))},
        **{"query_tile": draw(st.sampled_from([0, 1, 3]))},
    }
    side = draw(st.sampled_from([4, 64]))
    raw["machine"]["array"] |= {"rows": side, "cols": draw(st.sampled_from([side, 6]))}
    raw["machine"]["vector"] |= {
        **{"lanes": draw(st.sampled_from([2, 256]))},
        **{"exponentials_per_cycle": draw(st.sampled_from([0, 1, 64]))},
    }
    return Design.model_validate(raw)
