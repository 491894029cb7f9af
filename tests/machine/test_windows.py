"""Layers that attend to a window: capacity per layer, by hand."""

from strategies import raw_design, small_design

from carsim.cost.capacity import contents, kv_elements
from carsim.design import Design, build_design
from carsim.workload.geometry import Video

TEXT = Video(n_frames=1000, tokens_per_frame=1, prompt_tokens=0)


def small(**body: object) -> Design:
    """Four layers of width 32; K and V of a token are 32 bytes each in a layer."""
    return small_design(batch=1, body={"n_layers": 4, **body})


def test_of_a_layer_with_a_window_the_cache_holds_the_window() -> None:
    held = {
        content.content: content.nbytes
        for content in contents(small(window=100, global_layers=(1, 3)), TEXT)
    }
    # And of a text, in which the key of the token before is scored, no more.
    assert held["KV cache"] == 64 * (2 * 100 + 2 * 1000)


def test_keys_that_are_scored_are_kept_beyond_the_window() -> None:
    video = Video(n_frames=4, tokens_per_frame=50, prompt_tokens=0)
    design = small(window=10)
    # The key of 50 tokens ago, and of all places since: 51 tokens, of which 10 are in the window.
    assert kv_elements(design, video, window=10) == 2 * 10 * 32 + 41 * 32
    assert kv_elements(design, video, window=51) == 2 * 51 * 32
    assert kv_elements(design, video) == 2 * 200 * 32


def test_biases_and_norms_by_hand() -> None:
    plain, rich = small(), small(biases=("qkv", "out"), qk_norm=True, post_norms=True)
    # Biases of Q, K and V, 96 elements of 2 bytes, and of 32 outputs.
    assert rich.model.body_bytes - plain.model.body_bytes == 4 * (192 + 64)
    # Two norms of 32 more a layer, and one of a head of 8 for Q and K each.
    more = rich.model.body.parameters - plain.model.body.parameters
    assert more == 4 * (96 + 32 + 2 * 32 + 2 * 8)


def test_an_embedding_of_its_own_lies_beside_the_classifier() -> None:
    def held(embedding: str | None) -> dict[str, int]:
        raw = raw_design()
        raw["model"]["head"] |= {"embedding": embedding} if embedding else {}
        return {each.content: each.nbytes for each in contents(build_design(raw, "small"), TEXT)}

    assert held(None) == held("tied")
    assert held("separate") == held(None) | {"embedding": 32 * 40}
