"""What the ledger of claims looks at: maps, vectors, MLPs and prompts of the proxy model."""

import numpy as np
import pytest
from study_maker import LAYERS, N_CODES, make_model

from carsim.base.statistics import Interval
from carsim.decisions.attention import AnnCa, Draft
from carsim.decoder.structures import Config
from studies import whole
from studies.claims.draft_map import (
    KEEP,
    PATCH,
    MaskError,
    drawn_maps,
    mask_error,
    patch_order,
    summary,
)
from studies.claims.evolving import Evolving, same_and_other, same_code_and_other, unit
from studies.claims.operators import Stretching
from studies.claims.pooling import OfPooledQueries
from studies.claims.prompting import LookingAnnCa
from studies.claims.tables import decide, detectable
from studies.frames import OfAnnCa, OfDraft

PROMPT = b"abcdefgh"


def decoded(reader, look=None, n_frames=4):
    """A small model's decoding of drawn codes, attention by a reader of its config."""
    model = make_model(4)
    config = Config(model.geometry, 8, n_frames, dtype="float64")
    codes = np.random.default_rng(0).integers(0, N_CODES, config.n_steps)
    attend = None if reader is None else reader(config)
    found = whole.Decoder(model, config).decode(None, PROMPT, codes, attention=attend, look=look)
    return found, attend, config


# --------------------------------------------------------------------------- the draft's bound


def test_blocks_of_a_frame_are_patches_of_it() -> None:
    order = patch_order()
    assert sorted(order) == list(range(256))
    rows, columns = np.divmod(order[: PATCH * PATCH], 16)
    assert {*rows} == {*columns} == {0, 1, 2, 3}


@pytest.mark.parametrize("smooth", [False, True])
def test_no_error_of_a_mask_is_beyond_its_bound(smooth: bool) -> None:
    maps = drawn_maps(smooth, seed=1)
    assert all(0 < each.error <= each.bound for each in maps)
    assert all(each.draft_error <= each.draft_bound for each in maps)
    assert all(each.error <= each.norm for each in maps)
    found = summary(maps)
    assert found["map_violated"] == 0
    # The draft finds the blocks where those of a block are alike, and hardly where they are not.
    assert (found["map_error"] < 0.6 * found["map_by_chance"]) == smooth


def test_a_bound_that_is_exceeded_is_counted() -> None:
    good = MaskError(error=1, bound=2, norm=3, by_chance=2, draft_error=1, draft_bound=1)
    beyond = MaskError(error=3, bound=2, norm=3, by_chance=2, draft_error=1, draft_bound=1)
    loose = MaskError(error=1, bound=2, norm=3, by_chance=2, draft_error=2, draft_bound=1)
    assert summary([good, beyond])["map_violated"] == 0.5
    assert summary([good, loose])["map_violated"] == 0.5
    assert summary([good, good])["map_useless"] == 0


def test_a_mask_keeps_the_blocks_with_all_of_the_mass() -> None:
    """Queries of block i look at keys of block i alone, which a quarter of the blocks holds."""
    vectors = 40 * np.eye(16).repeat(PATCH * PATCH, axis=0)
    found = mask_error(vectors, vectors, np.random.default_rng(0))
    assert found.error < 1e-6 * found.norm
    assert found.by_chance > 0.5 * (1 - KEEP) * found.norm


# --------------------------------------------------------------------------- queries and keys


def test_similarity_tells_places_and_codes_apart() -> None:
    places = unit(np.random.default_rng(0).normal(size=(50, 3, 20)))
    same, other = same_and_other(places, places)
    assert same == pytest.approx(1)
    assert abs(other) < 0.1
    codes = np.arange(50) // 10
    shown = np.eye(5)[codes]
    assert same_code_and_other(shown @ shown.T, codes) == (1.0, 0.0)


def test_vectors_of_a_decoding_are_compared_before_they_are_rotated() -> None:
    """A frame whose codes are those of the frame before has its keys in the first layer."""
    model = make_model(4)
    config = Config(model.geometry, 8, 6, dtype="float64")
    looker = Evolving(config, len(PROMPT))
    codes = np.tile([0, 1, 2, 0, 1, 2, 3, 0], 6)
    whole.Decoder(model, config).decode(None, PROMPT, codes, look=looker.look)
    for name in ("q", "k"):
        first = looker.earlier[name, 0, 3]
        assert np.allclose(first, looker.earlier[name, 0, 2], atol=1e-9)
    figures = looker.figures()
    assert figures["k_same_1"] > figures["k_other_1"]


def test_quotients_of_a_linear_mlp_would_be_its_norm() -> None:
    looker = Stretching()
    found, _, _ = decoded(None, look=looker.look)
    figures = looker.figures()
    assert 0 < figures["mlp_median"] <= figures["mlp_largest"]
    n_pairs = sum(map(len, looker.quotients))
    assert n_pairs <= 2 * LAYERS * 8  # frames 2 and 3
    assert figures["mlp_above_1"] == np.mean(np.concatenate(looker.quotients) > 1)
    assert found.hidden.shape[0] == 32


# --------------------------------------------------------------------------- readers


def test_pooled_queries_of_one_place_choose_as_queries_do_and_of_more_places_alike() -> None:
    def of(kind, size):
        policy = Draft(block_tokens=size, keep=0.4)
        return decoded(lambda config: kind(policy, config, len(PROMPT)))

    alone, _, _ = of(OfDraft, 1)
    pooled, _, _ = of(OfPooledQueries, 1)
    assert np.array_equal(alone.hidden, pooled.hidden)
    alone, reads_alone, _ = of(OfDraft, 4)
    pooled, reads, _ = of(OfPooledQueries, 4)
    assert not np.array_equal(alone.hidden, pooled.hidden)
    assert np.array_equal(reads_alone.tokens, reads.tokens)  # as many keys, other ones


def test_the_prompts_mass_adds_up_and_changes_nothing() -> None:
    policy = AnnCa(bits=4, tables=1, sinks=1)
    plain, _, _ = decoded(lambda config: OfAnnCa(policy, config, len(PROMPT)))
    looked, reader, _ = decoded(lambda config: LookingAnnCa(policy, config, len(PROMPT)))
    assert np.array_equal(plain.hidden, looked.hidden)
    assert np.allclose(reader.prompt_mass[1:].sum(axis=-1), 1, atol=1e-5)
    assert not reader.chosen[0].any()
    assert 0 < reader.chosen[1:].mean() < 1
    assert reader.chosen[1:, ..., 0].all()  # the sink


# --------------------------------------------------------------------------- power


def test_an_undecided_test_says_what_it_would_have_found() -> None:
    found = Interval(0.0, -0.0196, 0.0196)
    assert decide(found, 0.0, None) is None
    assert detectable(found, None, " nats") == "; detectable 0.028 nats"
    assert detectable(found, True) == ""
    # A shift of the detectable size is decided in four of five drawn experiments.
    rng = np.random.default_rng(0)
    means = rng.normal(loc=0.028, scale=0.01, size=4000)
    share = np.mean(means - 1.96 * 0.01 > 0)
    assert 0.77 < share < 0.83
