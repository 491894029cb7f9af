"""Libraries that a command lacks: refused in one line that cures it, before any work."""

import re
import sys
from pathlib import Path

import pytest
import yaml

from carsim.base.environment import LIBRARIES, install_command
from carsim.decoder import capture
from carsim.report import report

TRACES = Path(__file__).parents[2] / "traces"
RECIPE = {
    "name": "mine",
    "output": "mine.npz",
    "decoded": {
        **{"name": "two", "n_layers": 1, "hidden_size": 8, "n_heads": 1, "n_kv_heads": 1},
        **{"head_dim": 8, "ffn_size": 8},
    },
    "weights": "random",
    "codebook": str(TRACES / "codebook_512.npz"),
    "scenes": str(TRACES / "scenes.npz"),
    "clips": [{"scene": "lively_0", "caption": "a walk"}],
    "n_frames": 2,
    "given_frames": 1,
    "prompt_tokens": 60,
    "tau": 1.0,
    "attention": {"kind": "dense"},
    "sampling": {"method": "greedy"},
    "quality": {"clips": 1, "samplings": ["greedy"]},
    "seed": 1,
}
PHOTO = {"clips": [{"photo": "coffee", "motion": "pan", "speed": 1.0}], "quality": None}


def never(*_, **__):
    raise AssertionError("work has begun")


@pytest.fixture
def refused(call, monkeypatch):
    """Hold that a command says which library it lacks, and does nothing before."""

    def check(missing, *arguments):
        for module in {missing, *(each for each in sys.modules if each.startswith(f"{missing}."))}:
            monkeypatch.setitem(sys.modules, module, None)
        status, out, err = call(*arguments)
        name, extra = LIBRARIES[missing]
        assert (status, out) == (2, "")
        cure = re.escape(install_command(extra))
        assert re.fullmatch(rf"carsim: .*needs {name}, which .*; install it with: {cure}\n", err)

    return check


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [
        ("optuna", ["search", "study.yaml", "--out", "OUT", "--points", "3"]),
        ("distributed", ["sweep", "study.yaml", "--out", "OUT", "--scheduler", "tcp://nowhere:1"]),
        ("dash", ["studio", "--no-browser"]),
    ],
)
def test_nothing_is_begun_without_it(refused, tmp_path, missing, arguments):
    study = {"design": "zcu102", "traces": ["vilau_8f"], "axes": {"machine.cores": [1, 2]}}
    study["objectives"] = ["latency_s"]
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    places = {"study.yaml": tmp_path / "study.yaml", "OUT": tmp_path / "out"}
    refused(missing, *(places.get(each, each) for each in arguments))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("missing", "changes", "more"),
    [
        ("skimage", {}, []),
        ("skimage", PHOTO, []),
        ("skimage", PHOTO, ["--calibrate", "0.5"]),
    ],
)
def test_no_recipe_is_decoded_if_one_lacks_something(
    refused, monkeypatch, tmp_path, missing, changes, more
):
    """The first needs nothing."""
    monkeypatch.setattr(capture, "prepare", never)
    recipes = [tmp_path / "first.yaml", tmp_path / "second.yaml"]
    for recipe, own in zip(recipes, ({"quality": None}, changes), strict=True):
        contents = {**RECIPE, **own, "output": f"{recipe.stem}.npz"}
        kept = {key: value for key, value in contents.items() if value is not None}
        recipe.write_text(yaml.safe_dump(kept), encoding="utf-8")
    refused(missing, "capture", *recipes, *more)


def test_no_recipe_is_decoded_if_the_next_lacks_a_file(call, monkeypatch, tmp_path):
    monkeypatch.setattr(capture, "prepare", never)
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(yaml.safe_dump(RECIPE | {"weights": "gone.safetensors"}), encoding="utf-8")
    problem = "cannot be read: No such file or directory; check recipe mine"
    line = f"carsim: {tmp_path / 'gone.safetensors'}: {problem}\n"
    assert call("capture", recipe) == (2, "", line)


def test_pages_need_plotly_and_figures_do_not(refused, call, toy, monkeypatch, tmp_path):
    folder, figure = tmp_path / "results", tmp_path / "time.pdf"
    assert call("run", toy[0], "--trace", toy[1], "--out", folder)[0] == 0
    with monkeypatch.context() as lacking:
        lacking.setattr(report, "results", never)
        refused("plotly", "report", folder)
    assert call("report", folder, "--plot", "seconds_per_video", "--out", figure)[0] == 0
    assert figure.read_bytes().startswith(b"%PDF")
