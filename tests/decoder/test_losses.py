"""Losses and draws of guidance pairs: of the conditional row, and each pair with its own noise."""

import numpy as np
from study_maker import N_CODES, make_model

from carsim.decoder.decoding import TokenSampling
from carsim.decoder.group import Decoding, RowGroup, embed_prompts
from carsim.decoder.structures import Config, DecoderPolicy

DRAWN = TokenSampling(method="top_k", k=N_CODES, temperature=1.0, guidance_scale=1.0)


def decoding(seeds: tuple[tuple[int, int], ...], given: int) -> Decoding:
    """Two guidance pairs under way; after ``given`` steps, tokens are drawn."""
    model = make_model()
    config = Config(model.geometry, tokens_per_frame=4, n_frames=8, dtype="float64")
    return Decoding(
        RowGroup(
            config=config,
            policy=DecoderPolicy((None, None), pairs=((0, 1), (2, 3))),
            model=model,
            prompts=(b"abc", b"a", b"abc", b"a"),
            prompt_tokens=4,
            tokens=np.zeros((config.n_steps, 2), np.int64),
            given_steps=given,
            sampling=DRAWN,
            seeds=seeds,
        )
    )


def test_the_loss_is_that_of_the_conditional_row_without_guidance() -> None:
    """Twelve codes; one is e times as likely as each other in the conditional row of a pair."""
    logits = np.full((4, N_CODES), 7.0)
    logits[0, 0] = logits[2, 5] = 8.0  # rows 1 and 3, the blank ones, find all alike
    under_way = decoding(((1, 0), (1, 1)), given=32)
    assert under_way.settle(0, logits).tolist() == [0, 0]
    total = np.e + N_CODES - 1
    np.testing.assert_allclose(under_way.decoded.nats[0], [-np.log(np.e / total), np.log(total)])


def test_each_pair_draws_from_its_own_seed() -> None:
    """Under equal chances, pairs of equal seeds draw alike, and those of others do not."""
    equal = np.zeros((4, N_CODES))

    def drawn(*seeds: tuple[int, int]) -> np.ndarray:
        under_way = decoding(seeds, given=0)
        return np.array([under_way.settle(step, equal) for step in range(32)]).T

    one, same = drawn((1, 0), (1, 0))
    assert one.tolist() == same.tolist()
    first, second = drawn((1, 0), (1, 1))
    assert first.tolist() == one.tolist()
    # Of 32 draws from 12 codes, 2.7 are equal by chance.
    assert (first == second).sum() < 12


def test_prompts_end_where_the_video_begins() -> None:
    model = make_model()
    config = Config(model.geometry, tokens_per_frame=4, n_frames=8, dtype="float64")
    embedded, mask = embed_prompts(model, (b"ab", b"c"), 3, config)
    assert mask.tolist() == [[False, True, True], [False, False, True]]
    text = model.arrays["embed_text"].astype(np.float64)
    nothing = np.zeros(text.shape[1])
    np.testing.assert_array_equal(embedded[0], [nothing, text[ord("a")], text[ord("b")]])
    np.testing.assert_array_equal(embedded[1], [nothing, nothing, text[ord("c")]])
