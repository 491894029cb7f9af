"""Hypothesis strategies: small machines, models and decisions on which every property must hold."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from carsim.account.simulation import Simulation, simulate_policy
from carsim.decisions.attention import Dense, Streaming
from carsim.decisions.replay import FASTCAR, InputChange, Periodic, ReplayRule, Tas
from carsim.decisions.trace.precision import PRODUCTS
from carsim.design import Design, build_design, override
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.schedule import SCHEDULES
from carsim.machine.batches import Batches, in_sets
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.workload.geometry import Video

DENSE = Dense()
OVERHEADS = {"kernel_cycles": 7, "broadcast_cycles": 5, "step_us": 2.5, "layer_us": 0.75}
SLOWED = {"bandwidth_share": 0.37, "descriptor_cycles": 30, "layer_us": 1.25}
CONSTANT = {"value": 1.0, "low": 0.5, "high": 2.0, "source": "made up for a test"}
ENERGY = {
    "mac_pj": {"int8": CONSTANT},
    "dram_pj_per_bit": {"DDR4": CONSTANT},
    **dict.fromkeys(("vector_op_pj", "sram_pj_per_byte", "dram_background_w_per_gib"), CONSTANT),
    **{f"clock_uw_per_mhz_{kind}": CONSTANT for kind in ("dsp", "bram", "uram", "klut")},
    "static_relative": CONSTANT,
}


RULES: list[ReplayRule] = [
    FASTCAR,
    Tas(form="paper", head=1),
    Tas(offset=1),
    InputChange(),
    InputChange(bits=None),
    InputChange(bits=3, elements=5),
    Periodic(),
]
"""Rules of replay with fields of every sort; elements fit the narrowest of the drawn models."""

EXPERTS = [
    {"count": 1, "active": 1},
    {"count": 5, "active": 2},
    {"count": 16, "active": 3, "shared_ffn_size": 11},
]
LATENTS = [
    {"rank": 12, "rotary_size": 4, "value_size": 6},
    {"rank": 5, "rotary_size": 2, "value_size": 9, "query_rank": 10},
]
DEPTHS = ([None, 1, 5, 10_000], [None, 10_000])
"""Of queues; cores that share a stream of weights have room for all their instructions."""
DATAFLOWS = ("dot_product", "weight_stationary", "input_stationary", "output_stationary")
GROUPED = {"bits": 4, "group": 8, "scale_bits": 16, "zero_bits": 4}


def raw_design(**machine: Any) -> dict[str, Any]:
    """A small design as nested mappings; keyword arguments replace machine fields."""
    ports = {"count": 1, "bits": 64, "clock_mhz": 200.0}
    memory = {
        "standard": "DDR4-2400",
        "channel_bits": 16,
        "capacity_gib": 1.0,
        "interconnect_ns": 20.0,
        "ports": ports,
    }
    return {
        "name": "small",
        "board": {
            "name": "test board",
            "device": "none",
            "fabric_clock_mhz": 200.0,
            "lut": 200_000,
            "dsp": 2_000,
            "bram36": 500,
            "uram": 0,
            "static_w": 1.0,
            "host_w": 1.0,
            "memories": {"ddr": memory, "second": memory},
        },
        "machine": {
            "cores": 2,
            "array": {"rows": 4, "cols": 4, "pipeline_cycles": 3},
            "vector": {"lanes": 4, "pipeline_cycles": 2},
            "weight_buffer_kib": 4,
            "kv_buffer_kib": 4,
            "activation_buffer_kib": 64,
            "tile_kib": 1,
            "placement": {"weights": "ddr", "kv": "ddr", "replay": "ddr", "head": "ddr"},
            **machine,
        },
        "model": {
            "name": "small",
            "body": {
                "n_layers": 2,
                "hidden_size": 32,
                "n_heads": 4,
                "n_kv_heads": 4,
                "ffn_size": 48,
            },
            "head": {"kind": "linear", "vocabulary": 40},
            "video": {"tokens_per_frame": 256},
            "weights": {"bits": 8},
            "kv": {"bits": 8},
            "activations": {"bits": 16},
            "replay": {"bits": 16},
        },
        "policy": {"batch": 4},
        "energy": ENERGY,
    }


def small_design(*, batch: int = 4, body: Any = (), **machine: Any) -> Design:
    """:func:`raw_design`, validated; ``body`` replaces fields of the model's."""
    raw = raw_design(**machine)
    raw["policy"]["batch"] = batch
    raw["model"]["body"] |= body
    return build_design(raw, "small")


@st.composite
def spreads(draw: st.DrawFn) -> tuple[str, str]:
    """A mapping, and a way to share weights that goes with it."""
    mapping = draw(st.sampled_from(sorted(MAPPINGS)))
    sharing = draw(st.sampled_from(["broadcast", "private", "private_per_sequence"]))
    return mapping, "broadcast" if MAPPINGS[mapping].needs_broadcast else sharing


@st.composite
def designs(draw: st.DrawFn, **fixed: Any) -> Design:
    """Designs that differ in everything that sets timing; ``fixed`` machine fields stay."""
    mapping, sharing = draw(spreads())
    sharing = fixed.get("weight_sharing", sharing)
    # Arrays from far slower than memory to far faster.
    most = draw(st.sampled_from([3, 9, 64]))
    machine = {
        "cores": draw(st.integers(1, 5)),
        "array": {
            "rows": draw(st.integers(1, most)),
            "cols": draw(st.integers(1, most)),
            "dataflow": draw(st.sampled_from(DATAFLOWS)),
            "weight_load": draw(st.sampled_from(["none", "rows", "full_fold"])),
            "pipeline_cycles": draw(st.integers(0, 9)),
        },
        "vector": {"lanes": draw(st.integers(1, most)), "pipeline_cycles": draw(st.integers(0, 9))},
        "weight_buffer_kib": draw(st.integers(2, 6)),
        "kv_buffer_kib": draw(st.integers(2, 6)),
        "mapping": mapping,
        "weight_sharing": sharing,
        "decision_at": draw(st.sampled_from(["q", "attention", "residual"])),
        "exchange_bytes_per_cycle": draw(st.integers(1, 64)),
        "kernel_fusion": draw(st.booleans()),
        "drs": {
            "index_register_bits": draw(st.sampled_from([3, 32])),
            "instructions_per_sequence": draw(st.integers(1, 40)),
            "core_queue_instructions": draw(st.sampled_from(DEPTHS[sharing == "broadcast"])),
        },
        "placement": {
            use: draw(st.sampled_from(["ddr", "second"]))
            for use in ("weights", "kv", "replay", "head")
        },
        **fixed,
    }
    raw = raw_design(**machine)
    raw["board"]["memories"]["ddr"] = raw["board"]["memories"]["ddr"] | {
        "channel_bits": draw(st.sampled_from([8, 16, 64])),
        "interconnect_ns": float(draw(st.integers(0, 200))),
        "ports": {"count": 1, "bits": draw(st.sampled_from([8, 64])), "clock_mhz": 200.0},
    }
    heads = draw(st.sampled_from([(2, 2), (4, 2), (4, 1), (3, 3)]))
    n_layers = draw(st.integers(1, 3))
    window = draw(st.sampled_from([None, None, 1, 3, 6]))
    experts = draw(st.sampled_from([None, None, *EXPERTS]))
    dense = draw(st.integers(0, n_layers - 1)) if experts else 0
    latent = draw(st.sampled_from([None, *LATENTS])) if heads[1] == 1 else None
    # What experts do not go with, nor latent attention.
    without = ("gate_up", "down") * bool(experts) + ("qkv", "out") * bool(latent)
    products = tuple(product for product in PRODUCTS if product not in without)
    raw["model"]["body"] |= {
        "n_layers": n_layers,
        "window": window,
        "global_layers": tuple(
            layer for layer in range(n_layers) if window is not None and draw(st.booleans())
        ),
        "biases": draw(st.sampled_from([(), products[:1], products])),
        "qk_norm": draw(st.booleans()) and not latent,
        "post_norms": draw(st.booleans()),
        "experts": experts
        and {**experts, "dense_layers": dense, "dense_ffn_size": 40 * bool(dense)},
        "latent": latent,
        "hidden_size": heads[0] * draw(st.sampled_from([4, 16, 24])),
        "n_heads": heads[0],
        "n_kv_heads": heads[1],
        "ffn_size": draw(st.integers(8, 130)),
    }
    raw["model"]["kv"] = draw(st.sampled_from([{"bits": 8}, {"bits": 3.5}, GROUPED]))
    raw["model"]["polished"] = draw(st.sampled_from([(), products[-1:], products]))
    raw["policy"]["batch"] = draw(st.integers(1, 7))
    return build_design(raw, "drawn")


def hardware(**fixed: Any) -> st.SearchStrategy[Hardware]:
    """Hardware of drawn designs."""
    return designs(**fixed).map(Hardware)


def masks(n: int) -> st.SearchStrategy[list[bool]]:
    """Who computes, for ``n`` sequences."""
    return st.lists(st.booleans(), min_size=n, max_size=n)


@st.composite
def videos(draw: st.DrawFn) -> Video:
    """Short videos."""
    return Video(draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 5)))


def draw_replay(draw: st.DrawFn, batches: int, video: Video, design: Design) -> NDArray[np.bool_]:
    """Decisions bool[G, S, L, B] with frame 0 all computed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ratio = draw(st.sampled_from([0.0, 0.3, 0.6, 0.9, 1.0]))
    layers, batch = design.model.body.n_layers, design.policy.batch
    replay = rng.random((batches, video.n_steps, layers, batch)) < ratio
    replay[:, : video.tokens_per_frame] = False
    return replay


@dataclass(frozen=True)
class Case:
    """A run to be made. ``replay``: bool[G, S, L, B]; None where nothing is decided."""

    design: Design
    video: Video
    attention: Any = DENSE
    schedule: str = "static"
    replay: Any = None
    fidelity: str = "fluid"

    @property
    def decided(self) -> NDArray[np.bool_]:
        """Decisions; all false where there are none."""
        if self.replay is not None:
            return np.asarray(self.replay)
        policy, body = self.design.policy, self.design.model.body
        sets = policy.tokens_per_step
        return np.zeros((1, self.video.n_steps // sets, body.n_layers, policy.batch * sets), bool)

    def simulate(self) -> Simulation:
        """The run."""
        hw, steps = Hardware(self.design), range(self.decided.shape[1])
        rule = None if self.replay is None else FASTCAR
        phases = Phases(hw, self.fidelity)
        plan = Plan(phases, self.video, self.attention, self.schedule, rule, steps)
        return simulate_policy(plan, Batches(self.decided, 1, 0, "captured", "drawn", rule=rule))

    def changed(self, changes: dict[str, Any]) -> "Case":
        """The same on another design."""
        return replace(self, design=override(self.design, changes))


ROLES = {
    "attention": {"bits": 8},
    "attention_output": {"bits": 6, "group": 8, "scale_bits": 16},
    "mlp": {"bits": 3, "density": 0.5, "index_bits": 2},
}
"""Precision of single roles of a layer."""


@st.composite
def cases(draw: st.DrawFn, **changes: Any) -> Case:
    private = designs(mapping="batch", weight_sharing="private")
    design, video = draw(designs() | private), draw(videos())
    frame = video.tokens_per_frame
    video = replace(video, prompt_tokens=draw(st.sampled_from([0, 1, 5, 40])))
    sets = [n for n in (1, 2, 3) if frame % n == 0]
    head = {"n_layers": 2, "hidden_size": 12, "n_heads": 3, "ffn_size": 20, "n_codes": 3}
    codes = {"kind": "depth_transformer", "codebook_size": 30} | head
    design = override(
        design,
        {
            "policy.tokens_per_step": draw(st.sampled_from(sets)),
            "model.body.experts": None,
            "model.body.latent": None,
            "model.body.window": draw(st.sampled_from([design.model.body.window, frame])),
            "machine.activation_buffer_kib": draw(st.sampled_from([1, 64])),
            "model.body.mlp": draw(st.sampled_from(["gated", "plain"])),
            "model.head": draw(st.sampled_from([codes, design.model.head.model_dump()])),
            "model.weights": draw(
                st.sampled_from([{"bits": 4.5}, {"bits": 4, "density": 0.3, "index_bits": 2}])
            ),
            "model.weights_by_role": draw(
                st.sampled_from(
                    [
                        {},
                        {"head": {"bits": 16}, "norms": {"bits": 16}},
                        # Experts take the place of the MLP, whose role is then refused.
                        {} if changes.get("model.body.experts") else ROLES,
                    ]
                )
            ),
            "machine.overheads": draw(st.sampled_from([{}, OVERHEADS, SLOWED])),
            **(changes and {"machine.drs.core_queue_instructions": None}),
            **changes,
        },
    )
    sparse = Streaming(sinks=draw(st.integers(0, 2)), window=draw(st.integers(1, 6)))
    replay = draw_replay(draw, draw(st.integers(1, 2)), video, design)
    return Case(
        design,
        video,
        draw(st.sampled_from([Dense(), sparse])),
        draw(st.sampled_from(sorted(SCHEDULES))),
        draw(st.sampled_from([in_sets(replay, design.policy.tokens_per_step)] * 2 + [None])),
        draw(st.sampled_from(["fluid", "tile"])),
    )
