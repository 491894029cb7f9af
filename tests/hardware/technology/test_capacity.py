"""Capacity: the hand check of a stock ZCU102, and what streaming attention keeps."""

import pytest

from carsim.cost.capacity import capacity, contents, kv_elements
from carsim.decisions.replay import FASTCAR, InputChange, ReplayRule, Tas
from carsim.design import Design, load_design, override
from carsim.workload.geometry import Video

VILA_U = Video(n_frames=8, tokens_per_frame=256, prompt_tokens=62)
ZCU102, ZCU102_16GB = load_design("zcu102"), load_design("zcu102_16gb")


def held(design: Design, video: Video = VILA_U) -> dict[str, int]:
    return {content.content: content.nbytes for content in contents(design, video)}


def test_contents_by_hand() -> None:
    # 32 layers of 4 x 4096^2 + 3 x 4096 x 11008 = 6.476e9 weights, 4 + (16 + 4) / 128 bits each.
    assert held(ZCU102)["weights"] == 6_476_005_376 * 4.15625 / 8
    # 4096 x 2560 + 6 x (4 x 2560^2 + 2 x 2560 x 10240) + 2560 x 16384 = 0.525e9 weights.
    head = 4096 * 2560 + 6 * (4 * 2560**2 + 2 * 2560 * 10240) + 2560 * 16384
    assert held(ZCU102_16GB)["head"] == head * 4.15625 / 8
    # K and V of 4096 elements in 32 layers for 62 + 8 x 256 = 2110 tokens.
    elements = 2 * 4096 * 32 * 2110
    assert held(ZCU102_16GB)["KV cache"] == 8 * elements
    assert held(ZCU102)["KV cache"] == 2 * elements * 4.25 / 8
    # 256 outputs of 4096 elements in 32 layers: 67 MB at 16 bit, 34 MB at 8.
    assert held(ZCU102_16GB)["replay cache"] / 8 == 67_108_864
    assert held(ZCU102)["replay cache"] / 2 == 33_554_432


def test_one_guidance_pair_fits_a_stock_zcu102_only_without_the_head() -> None:
    # 3.364 + 2 x (0.294 + 0.034) = 4.02e9 of 4.295e9 B; the head's 0.27e9 more leave nothing.
    (ps,) = [use for use in capacity(ZCU102, VILA_U) if use.memory == "ps_ddr"]
    assert ps.used_bytes == pytest.approx(4.02e9, rel=1e-3)
    assert ps.free_bytes > 0
    with_head = override(ZCU102, {"machine.include_head": True})
    (ps,) = [use for use in capacity(with_head, VILA_U) if use.memory == "ps_ddr"]
    assert ps.free_bytes < 0


def test_contents_are_booked_where_placement_puts_them() -> None:
    design = load_design("u280")
    by_memory = {
        use.memory: {content.content for content in use.contents}
        for use in capacity(design, VILA_U)
    }
    assert by_memory == {"hbm": {"weights", "KV cache", "head"}, "ddr": {"replay cache"}}
    assert design.machine.memories_in_use == ("ddr", "hbm")


def test_a_memory_that_only_an_absent_head_would_use_is_not_in_use() -> None:
    changes = {"machine.placement.head": "pl_ddr"}
    assert override(ZCU102, changes).machine.memories_in_use == ("ps_ddr",)


@pytest.mark.parametrize(
    ("window", "tokens_of_k_and_v", "keys_beyond"),
    [
        # The window has the current token and the W - 1 before it. The aligned key is N = 256 back:
        # W = 16 leaves the keys 16 to 256 tokens back, 241 of them; W = 256 leaves one; 257 none.
        (16, 4 + 16, 241),
        (256, 4 + 256, 1),
        (257, 4 + 257, 0),
        (4000, 2110, 0),
    ],
)
def test_streaming_keeps_sinks_window_and_aligned_keys(window, tokens_of_k_and_v, keys_beyond):
    changes = {"policy.attention": {"kind": "streaming", "sinks": 4, "window": window}}
    design = override(ZCU102, changes)
    assert kv_elements(design, VILA_U) == (2 * tokens_of_k_and_v + keys_beyond) * 4096


SPARSE_16 = {"policy.attention": {"kind": "streaming", "sinks": 4, "window": 16}}


@pytest.mark.parametrize(
    ("rule", "elements"),
    [
        # As above: 241 keys of 4096 elements; of one head 128 of them; a token nearer one key less.
        (FASTCAR, 241 * 4096),
        (Tas(head=3), 241 * 128),
        (Tas(offset=1), 240 * 4096),
        (InputChange(), 0),
    ],
)
def test_streaming_keeps_the_keys_that_the_rule_scores(rule: ReplayRule, elements: int) -> None:
    assert kv_elements(override(ZCU102, SPARSE_16), VILA_U, rule) == 2 * 20 * 4096 + elements


@pytest.mark.parametrize(
    ("rule", "vector_bytes"),
    [
        (InputChange(), 4096 + 2),  # a byte an element, and a scale of 16 bits
        (InputChange(bits=4, elements=512), 256 + 2),
        (InputChange(bits=None), 8192),  # activations of 16 bits
    ],
)
def test_inputs_are_held_beside_the_outputs(rule: ReplayRule, vector_bytes: int) -> None:
    # 2 rows x 32 layers x 256 places.
    found = {content.content: content for content in contents(ZCU102, VILA_U, rule)}
    assert found["data of the rule"].nbytes == 2 * 32 * 256 * vector_bytes
    assert found["data of the rule"].memory == found["replay cache"].memory
    assert "data of the rule" not in held(ZCU102)
