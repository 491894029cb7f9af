"""``carsim trace synthesize``, and its label in everything that is made of such a trace."""

import csv
import json
import shlex

import pytest
from explore_study import write_study
from tiny import write_inputs

from carsim.decisions.trace import SyntheticModel, load_trace, measure
from carsim.decisions.trace.assumed import TWIN
from carsim.decisions.trace.meta import SYNTHETIC

LABEL = "synthetic (published marginals), 50 % of eligible steps, seed 0"
TOY = {"frames": 3, "tokens_per_frame": 16, "pairs": 8, "layers": 4, "prompt_tokens": 5}
OPTIONS = [
    word for name, value in TOY.items() for word in (f"--{name.replace('_', '-')}", str(value))
]


@pytest.fixture
def drawn(call, toy, tmp_path):
    """Paths of the toy design and of a synthetic trace of its video, with 8 pairs."""
    out = str(tmp_path / "drawn.npz")
    assert call("trace", "synthesize", "--ratio", "0.5", *OPTIONS, "--out", out)[0] == 0
    return toy[0], out


def test_it_writes_what_python_draws_and_the_command_that_does_it_again(call, drawn, tmp_path):
    trace, model = load_trace(drawn[1]), SyntheticModel(0.5, **TOY)
    assert trace.meta.content["model"] == {
        "ratio": 0.5,
        **TOY,
        "seed": 0,
        "assumed": TWIN.__dict__,
    }
    assert trace.meta.command == f"{model.command} --out drawn.npz"
    assert trace.replay.shape == model.shape
    _, *arguments, _, _ = shlex.split(trace.meta.command)
    again = tmp_path / "again" / "drawn.npz"
    again.parent.mkdir()
    status, out, err = call(*arguments, "--out", again)
    assert (status, err) == (0, "")
    assert again.read_bytes() == (tmp_path / "drawn.npz").read_bytes()
    assert LABEL in out


def test_like_takes_video_and_correlations_and_options_go_before(call, toy, tmp_path):
    like, out = load_trace(toy[1]), tmp_path / "like.npz"
    options = ["--ratio", "0.3", "--like", toy[1], "--dip", "1.5", "--pairs", "3", "--seed", "7"]
    assert call("trace", "synthesize", *options, "--out", out)[0] == 0
    model = load_trace(out).meta.content["model"]
    assert model["assumed"] == {**measure(like).__dict__, "dip": 1.5}
    assert (model["pairs"], model["seed"], model["layers"]) == (3, 7, like.n_layers)
    assert (model["frames"], model["prompt_tokens"]) == (like.n_frames, like.prompt_tokens)
    assert "--like" not in load_trace(out).meta.command, "its numbers stand there instead"


def page_of(call, folder):
    """The page of a folder, with plain blanks in place of those that hold units to numbers."""
    assert call("report", folder)[0] == 0
    (page,) = folder.glob("*.html")
    return page.read_text(encoding="utf-8").replace("\u00a0", " ").replace("&nbsp;", " ")


BAD = {
    "ratio": (["--ratio", "1.5"], "ratio: expected 0 to 1, got 1.5"),
    "no number": (["--ratio", "x"], "'x' is not a valid float; see 'carsim trace synthesize"),
    "no ratio": ([], "Missing option '--ratio'"),
    "frames": (["--ratio", "0.5", "--frames", "1"], "frames: expected 2 or more, got 1"),
    "lasting": (["--ratio", "0.5", "--lasting", "0.95"], "lasting: expected 0 to 0.934, got 0.95"),
    "like": (["--ratio", "0.5", "--like", "nope.npz"], "nope.npz: cannot be read: No such file"),
    "exists": (["--ratio", "0.5", "--out", "toy.npz"], "toy.npz: exists"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_nothing_is_written(
    call, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    status, out, err = call("trace", "synthesize", "--out", "new.npz", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (tmp_path / "new.npz").exists()


@pytest.mark.parametrize("batch", [2, 8])
def test_a_run_says_so_wherever_a_captured_trace_is_named(call, drawn, tmp_path, batch):
    out = tmp_path / "out"
    more = ["--set", f"policy.batch={batch}", "--out", out, "--timeline", "20:22"]
    status, printed, err = call("run", drawn[0], "--trace", drawn[1], "--full", *more)
    assert (status, err) == (0, "")
    assert f"Decisions: {LABEL}." in printed
    assert f"drawn.npz: {LABEL} (sha256" in printed
    assert f"] {LABEL}\n" in printed
    assert "tau 0.5" not in printed, "it has none"
    assert "captured in" not in printed
    summary = json.loads((out / "summary.json").read_text())
    assert summary["traces"][0]["name"] == f"drawn.npz: {LABEL}"
    own = next(policy for policy in summary["policies"] if policy["is_chosen"])
    assert (own["decisions_source"], own["decisions"]) == (SYNTHETIC, LABEL)
    for name in ("comparison.csv", "timeline.json"):
        assert LABEL in (out / name).read_text(encoding="utf-8"), name
    assert LABEL in page_of(call, out)


def test_a_run_refuses_a_tau(call, drawn):
    status, out, err = call("run", drawn[0], "--trace", drawn[1], "--tau", "0.5")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"drawn.npz: its decisions ({LABEL}) hold no scores" in err


def test_a_comparison_says_so(call, drawn, toy):
    sides = [drawn[0], drawn[0], "--set-b", "machine.cores=1"]
    for more in ([], ["--json"]):
        _, printed, _ = call("compare", *sides, "--trace", drawn[1], *more)
        assert f"Decisions are {LABEL} in both." in printed
        _, printed, _ = call("compare", *sides, "--trace", toy[1], *more)
        assert SYNTHETIC not in printed


def test_a_sweep_says_so(call, drawn, tmp_path):
    study = write_study(
        tmp_path,
        axes={"trace": ["toy.npz", "drawn.npz"], "machine.cores": [1, 2]},
        objectives=["latency_s"],
    )
    out = tmp_path / "swept"
    status, _, err = call("sweep", study, "--out", out, "--workers", "0")
    assert (status, err) == (0, "")
    with (out / "points.csv").open(encoding="utf-8") as points:
        rows = {row["trace"]: row for row in csv.DictReader(points)}
    assert rows["drawn.npz"]["decisions"] == LABEL
    assert (
        call("report", out, "--front")[1].count(f"Decisions are {SYNTHETIC} in 2 of 4 points.") == 1
    )
    assert f"Decisions are {SYNTHETIC} in 2 of 4 points." in page_of(call, out)


def test_info_and_list_say_so(call, drawn, toy):
    _, info, _ = call("trace", "info", drawn[1])
    text = " ".join(info.split())
    for fact in (f"replay {LABEL}, decision scope row", "scores none", "nothing was decoded"):
        assert fact in text
    assert "TAS" not in text
    document = json.loads(call("trace", "info", "--json", drawn[1])[1])
    assert document["meta"]["content"]["synthetic"] == LABEL.removeprefix(f"{SYNTHETIC}, ")
    assert document["decisions"] == LABEL
    _, listed, _ = call("trace", "list", drawn[1], toy[1])
    assert listed.splitlines()[-1] == f"drawn.npz: {LABEL}"
    _, listed, _ = call("trace", "list", "--csv", drawn[1], toy[1])
    first, second = csv.DictReader(listed.splitlines())
    assert (first["tau"], first["weights_sha256"]) == (LABEL, "")
    assert second["tau"] == "tau 0"
