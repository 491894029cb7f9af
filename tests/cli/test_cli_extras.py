"""Libraries that a command lacks: refused in one line that cures it, before any work."""

import re
import sys

import pytest
import yaml
from recipe_maker import make_recipe

from carsim.base.environment import LIBRARIES, install_command
from carsim.decoder import capture
from carsim.report import report

VIDEO = [{"video": "film.gif", "caption": "a street"}]


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
        ("torch", ["measure", "--backend", "torch", "--out", "OUT"]),
    ],
)
def test_nothing_is_begun_without_it(refused, tmp_path, missing, arguments):
    study = {"design": "zcu102", "traces": ["vilau_8f"], "axes": {"machine.cores": [1, 2]}}
    study["objectives"] = ["latency_s"]
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    places = {"study.yaml": tmp_path / "study.yaml", "OUT": tmp_path / "out"}
    refused(missing, *(places.get(each, each) for each in arguments))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("more", [[], ["--calibrate", "0.5"]])
def test_no_recipe_is_decoded_if_one_lacks_something(refused, monkeypatch, tmp_path, more):
    """The first needs nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(capture, "prepare", never)
    first = make_recipe(tmp_path).rename(tmp_path / "first.yaml")
    refused("skimage", "capture", first, make_recipe(tmp_path, clips=VIDEO, output="b.npz"), *more)


def test_no_recipe_is_decoded_if_the_next_lacks_a_file(call, monkeypatch, tmp_path):
    monkeypatch.setattr(capture, "prepare", never)
    recipe = make_recipe(tmp_path, weights="gone.safetensors")
    problem = "cannot be read: No such file or directory; check recipe tiny; "
    problem += "carsim ships small.safetensors, codebook_512.npz, scenes.npz"
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
