"""The premise of replay: baselines are what their names say."""

import pytest
from random_model import random_model

from carsim.decisions.trace import Geometry
from carsim.decoder.content import load_codebook
from studies import thresholds
from studies.content import CODEBOOK
from studies.proxy import worth
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
