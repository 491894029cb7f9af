"""The premise of replay: baselines are what their names say, and the acceptance refuses."""

import numpy as np
import pandas as pd
import pytest
from random_model import random_model

from carsim.decisions.trace.meta import Geometry
from carsim.decoder.content import load_codebook
from studies import thresholds
from studies.content import CODEBOOK
from studies.proxy import accept, worth
from studies.record import Archive

CLIPS = ("still_0", "fast_0")
SHAPE = Geometry(
    name="tiny", n_layers=3, hidden_size=16, n_heads=2, n_kv_heads=2, head_dim=4, ffn_size=24
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    model = random_model(SHAPE, load_codebook(CODEBOOK), seed=1)
    return Archive(model, tmp_path_factory.mktemp("out"), n_frames=3, workers=1)


@pytest.fixture(scope="module")
def table(archive):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "TUNING", ("tune_0",))
        return worth.losses(archive, CLIPS).set_index("clip")


def test_baselines_replay_at_the_places_that_they_name(table):
    assert list(table.index) == list(CLIPS)
    assert ((table["tas_ratio"] > 0) & (table["tas_ratio"] < 1)).all()
    several = table[["tas_replay", "tas_zero", "permuted", "random_half", "worth"]]
    assert (several.nunique(axis=1) == several.shape[1]).all()


def test_outputs_of_a_still_scene_are_alike(archive):
    still, fast = (worth.likeness(archive, (clip,)) for clip in CLIPS)
    assert (still["cosine"] > fast["cosine"]).all()
    assert (still["error_age_1"] < fast["error_age_1"]).all()
    assert list(still["layer"]) == [0, 1, 2]


GOOD = {"worth": 0.6, "zero_less_replay_low": 0.01, "zero_less_replay_high": 0.1}
GOOD |= {"cosine_0": 0.9, "cosine_1": 0.5}


def curve(*worths: float) -> pd.DataFrame:
    return pd.DataFrame({"step": range(100, 100 * len(worths) + 1, 100), "worth": worths})


def test_a_model_that_meets_all_conditions_passes():
    assert accept.failures(curve(0.9, 0.6, 0.6, 0.61), GOOD, 1.2, plain=True) == []


@pytest.mark.parametrize(
    ("worths", "change", "distance", "plain", "words"),
    [
        ((0.6, 0.6), {"worth": 0.49}, 1.2, True, "worth 0.490 nats, less than 0.5"),
        ((0.9, 0.8, 0.7, 0.6), {}, 1.2, True, "falls: 0.800 at step 200, 0.600 at step 400"),
        ((0.6, 0.6), {"zero_less_replay_low": -0.001}, 1.2, True, "not better than zero"),
        ((0.6, 0.6), {"cosine_1": 0.39}, 1.2, True, "cosine is 0.39"),
        ((0.6, 0.6), {}, 0.1, True, "tied or put in by hand"),
        ((0.6, 0.6), {}, 1.2, False, "tied or put in by hand"),
    ],
)
def test_each_condition_is_refused_alone(worths, change, distance, plain, words):
    (line,) = accept.failures(curve(*worths), GOOD | change, distance, plain=plain)
    assert words in line


def test_tied_keys_are_seen(archive):
    arrays = archive.model.arrays
    tied = type(archive.model)(SHAPE, arrays | {"wk": arrays["wq"]}, "tied")
    assert accept.apart(tied) == 0
    free = arrays | {"wk": np.random.default_rng(0).permuted(arrays["wq"], axis=2)}
    assert accept.apart(type(tied)(SHAPE, free, "free")) > accept.LEAST_DISTANCE
