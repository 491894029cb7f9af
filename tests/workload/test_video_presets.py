"""Models of video as presets: their size, their frames, and runs of a few frames."""

import pytest

from carsim import run
from carsim.base.errors import InputError
from carsim.design import load_design


# Published: 8.49 B (BAAI/Emu3-Gen), 6.91 B of Janus-Pro's language model less its two matrices of
# 102400 tokens, plus one of 16384 codes; 604 M of NOVA's 645 M; 4 B of Cosmos (by hand).
@pytest.mark.parametrize(
    ("name", "parameters", "tokens_per_frame"),
    [
        ("emu3_8b", 8_492_011_520, 64 * 65),
        ("janus_pro_7b", 6_910_365_696 - 2 * 102_400 * 4096 + 16_384 * 4096, 24 * 24),
        ("nova_0.6b", 48 * (12 * 1024**2 + 13 * 1024) + 2 * 1024 + 16 * 1024, 15 * 24),
        ("cosmos_ar_4b", 16 * (218_103_808 + 2 * 4096 + 256) + 4096 + 2 * 64_000 * 4096, 40 * 64),
        ("vila_u_7b", None, 256),
    ],
)
def test_a_preset_has_its_published_size(name, parameters, tokens_per_frame):
    model = load_design("asic_7nm_hbm3", [f"model.preset={name}"]).model
    assert model.makes == "video"
    assert model.tokens_per_frame == tokens_per_frame
    if parameters is not None:
        assert model.parameters == parameters


def test_a_video_of_a_model_with_a_classifier_runs_and_replays() -> None:
    design = load_design("asic_7nm_hbm3", ["model.preset=janus_pro_7b", "policy.batch=2"])
    report = run(design, workload="video:2,replay=0.5")
    video = report.chosen.simulation.plan.video
    assert (video.kind, video.n_frames, video.tokens_per_frame) == ("video", 2, 576)


def test_a_video_of_a_text_model_asks_for_the_tokens_of_a_frame() -> None:
    overrides = ["model.preset=smollm2_360m", "policy.batch=2"]
    with pytest.raises(InputError) as refused:
        run(load_design("asic_7nm_hbm3", overrides), workload="video:2")
    assert "nothing says how many tokens a frame has" in str(refused.value)
    assert "set model.video.tokens_per_frame, say to 256" in str(refused.value)
    # The cure works.
    design = load_design("asic_7nm_hbm3", [*overrides, "model.video.tokens_per_frame=256"])
    video = run(design, workload="video:2").chosen.simulation.plan.video
    assert video.tokens_per_frame == 256
