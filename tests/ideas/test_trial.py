"""``carsim idea``: its steps, its refusals, and that it goes on where it was."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from commands import call

from carsim import load_trace, run
from carsim.base.errors import InputError
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.idea.content import shipped_content
from carsim.idea.loss import Given, permuted, redrawn
from carsim.idea.steps import Size, Threshold, Trial
from carsim.idea.subject import subject_of
from carsim.idea.tuning import CLOSE

TINY = Size(scenes=1, n_frames=3)

SAME_CODE = """
def replays(seen):
    return seen.codes(0) == seen.codes(seen.tokens_per_frame)
"""

ARRAY = """
import numpy as np

DECISIONS = np.zeros((512, 32, 2), bool)
DECISIONS[256:, 8:] = True
"""

RULE = """
from typing import ClassVar, Literal

import numpy as np

from carsim.decisions.replay import RULES, ReplayRule

calls = []


class Mine(ReplayRule):
    label: ClassVar[str] = "mine"
    kind: Literal["mine"] = "mine"

    def score(self, state, layer, place, seen):
        BODY


RULES.register(Mine)
"""


def written(folder: Path, text: str, name: str = "my") -> Path:
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("seen.mlp_inputt > 0", r"replays\(\) fails \(AttributeError: .*mlp_inputt.*\) in line 3"),
        ("0.5", r"replays\(\) gives float64\[\], not bool\[\d+\]: one bool for each row"),
        ("seen.mlp_input > 0", r"replays\(\) gives bool\[\d+, \d+\], not bool\[\d+\]"),
        ("seen.age", r"replays\(\) gives int\d+\[\d+\], not bool\[\d+\]"),
    ],
)
def test_a_function_that_fails_is_refused_in_one_line(
    tmp_path: Path, body: str, problem: str
) -> None:
    file = written(tmp_path, f"\ndef replays(seen):\n    return {body}\n")
    answer = call("idea", file, "--until", "capture", "--out", tmp_path / "out", "--workers", 1)
    assert answer.status == 2
    assert "Traceback" not in answer.err
    (line,) = [line for line in answer.err.splitlines() if line.startswith("carsim: ")]
    assert re.search(rf"my\.py: {problem}.*; return one bool for each row", line)


def test_a_function_goes_from_idea_to_page(tmp_path: Path) -> None:
    file, lines = written(tmp_path, SAME_CODE), list[str]()
    folder = tmp_path / "out"
    results = Trial(file, folder, size=TINY, workers=0, say=lines.append).run()
    assert [line.split()[1] for line in lines[::2]] == [
        "contract", "cost", "capture", "price", "loss", "page",
    ]  # fmt: skip
    ways = {(each["machine"], each["way"]) for each in results["price"]}
    assert len(ways) == 15
    ratios = {
        each["way"]: each["ratio"] for each in results["price"] if each["machine"] == "zcu102"
    }
    assert ratios["random"] == pytest.approx(ratios["idea"], abs=1e-3)
    assert ratios["FastCar"] == pytest.approx(ratios["idea"], abs=0.06)
    loss = results["loss"]
    assert loss["excess"]["nothing"]["mean"] > loss["excess"]["idea"]["mean"]
    assert set(loss["gains"]) == {"permuted", "random", "nothing"}
    page = (folder / "idea.html").read_text(encoding="utf-8")
    for label in ("four layers with one head", "Few scenes: 1", "open loop", "synthetic"):
        assert label in page
    assert (folder / "idea.pdf").read_bytes().startswith(b"%PDF")

    # The same file again takes no step but the page; another file takes all anew.
    (folder / "loss.json").write_text(
        (folder / "loss.json").read_text().replace('"scenes": 1', '"scenes": 7'), encoding="utf-8"
    )
    again = Trial(file, folder, size=TINY, workers=0).run()
    assert again["loss"]["scenes"] == 7
    changed = written(tmp_path, SAME_CODE + "\n# changed\n", "changed")
    until = Trial(changed, folder, size=TINY, workers=0).run("cost")
    assert set(until) == {"contract", "cost"}


def test_rules_are_compared_at_an_equal_ratio(tmp_path: Path) -> None:
    """Of the held-out scenes themselves: half of the layers that may replay."""
    file = written(tmp_path, RULE.replace("BODY", "return -np.abs(seen.mlp_input).sum(axis=1)"))
    threshold = Threshold(ratio=0.375)
    trial = Trial(file, tmp_path / "out", size=TINY, workers=0, threshold=threshold)
    captured = trial.run("capture")["capture"]
    assert captured["ratio"] == pytest.approx(0.375, abs=0.75 * CLOSE + 0.001)
    # The threshold alone gives the same trace, from a step of its own.
    fixed = Threshold(tau=captured["tau"])
    again = Trial(file, tmp_path / "out", size=TINY, workers=0, threshold=fixed).run("capture")
    assert again["capture"]["sha256"] == captured["sha256"]


APART = """
import numpy as np

from carsim.decisions.replay import Tas

DECISIONS = {"token": Tas(form="paper"), "attention": Tas(form="paper", offset=1)}
"""


def test_attention_and_mlp_by_rules_of_their_own_go_from_idea_to_page(tmp_path: Path) -> None:
    file, lines = written(tmp_path, APART), list[str]()
    folder = tmp_path / "out"
    threshold = Threshold(ratio=0.375)
    results = Trial(file, folder, size=TINY, workers=0, say=lines.append, threshold=threshold).run()
    captured = results["capture"]
    of_attention = captured["further"]["attention"]
    for ratio in (captured["ratio"], of_attention["ratio"]):
        assert ratio == pytest.approx(0.375, abs=0.75 * CLOSE + 0.001)
    assert any(f"attention: tau {of_attention['tau']:.5g}" in line for line in lines)
    assert results["cost"]["further"]["attention"]["point"] == "q"
    trace = load_trace(folder / "idea.npz")
    assert (trace.replay != trace.further["attention"].replay).any()
    prices = {each["way"]: each for each in results["price"] if each["machine"] == "zcu102"}
    assert {"idea", "FastCar", "random", "periodic replay", "dense"} == set(prices)
    for way, price in prices.items():
        assert "without the decisions" not in price["label"], way
    # Skipping attention, too, gains more than the MLPs of the same trace alone.
    mlps_alone = run("zcu102", [trace], resample_seed=0, allow_misfit=True).chosen
    assert prices["idea"]["seconds"] < mlps_alone.seconds_per_video
    loss = results["loss"]
    assert loss["further"]["attention"] == of_attention["ratio"]
    assert set(loss["gains"]) == {"permuted", "random", "nothing"}
    assert loss["excess"]["nothing"]["mean"] > loss["excess"]["idea"]["mean"]
    page = (folder / "idea.html").read_text(encoding="utf-8")
    assert "Attention follows a decision of its own" in page


TWO_FUNCTIONS = (
    SAME_CODE
    + """

def replays_attention(seen):
    return seen.codes(0) == seen.codes(1)
"""
)

TWO_ARRAYS = """
import numpy as np

mlps = np.zeros((512, 32, 2), bool)
mlps[256:, 8:] = True
attention = np.zeros_like(mlps)
attention[256:, ::2] = True
DECISIONS = {"token": mlps, "attention": attention}
"""


def test_two_functions_and_two_arrays_decide_apart(tmp_path: Path) -> None:
    functions = Trial(written(tmp_path, TWO_FUNCTIONS), tmp_path / "a", size=TINY, workers=0)
    captured = functions.run("capture")["capture"]
    trace = load_trace(tmp_path / "a/idea.npz")
    codes_repeat = trace.replay[TOKENS_PER_FRAME:, 1:]
    attention = trace.further["attention"].replay[TOKENS_PER_FRAME:, 1:]
    assert 0 < attention.mean() != codes_repeat.mean() > 0
    assert captured["further"]["attention"]["ratio"] == pytest.approx(0.75 * attention.mean())
    arrays = Trial(written(tmp_path, TWO_ARRAYS, "b"), tmp_path / "b", size=TINY, workers=0)
    results = arrays.run("price")
    assert results["capture"]["ratio"] == 24 / 32
    assert results["capture"]["further"]["attention"]["ratio"] == 16 / 32


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"token"', '"mlp"', "decides about mlp, attention; give 'token', which decides about"),
        ('Tas(form="paper", offset=1)', "InputChange()", "is known at 'residual', behind"),
        ('Tas(form="paper", offset=1)', "np.zeros((512, 32, 2), bool)", "holds a rule and an"),
    ],
)
def test_decisions_that_do_not_go_together_are_refused(
    old: str, new: str, words: str, tmp_path: Path
) -> None:
    text = APART.replace(old, new).replace("import Tas", "import InputChange, Tas")
    with pytest.raises(InputError, match=words):
        Trial(written(tmp_path, text), tmp_path / "out", workers=0).run("contract")
    apart = written(tmp_path, APART, "apart")
    done = call("idea", apart, "--tau", "0", "--out", tmp_path / "b")
    assert done.status == 2
    assert "makes the decisions token, attention, each at its threshold; give ratio" in done.err


def test_a_threshold_that_cannot_be_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, SAME_CODE)
    with pytest.raises(InputError, match=r"1 of 4 layers never replays; take more than 0, and"):
        Threshold(ratio=0.75)
    with pytest.raises(InputError, match="is given, and so is tau; give one of them"):
        Threshold(ratio=0.5, tau=0.0)
    with pytest.raises(InputError, match="decides by itself: no threshold changes its ratio"):
        Trial(file, tmp_path / "a", size=TINY, workers=0, threshold=Threshold(ratio=0.3)).run(
            "capture"
        )
    done = call("idea", written(tmp_path, ARRAY, "array"), "--tau", "0", "--out", tmp_path / "b")
    assert done.status == 2
    assert "has no threshold, as it is no rule of replay; leave out tau and ratio" in done.err


def test_an_array_is_priced_and_has_no_loss(tmp_path: Path) -> None:
    results = Trial(written(tmp_path, ARRAY), tmp_path / "out", size=TINY, workers=0).run()
    assert "loss" not in results
    assert {each["way"] for each in results["price"]} == {
        "dense",
        "idea",
        "periodic replay",
        "random",
    }
    assert results["capture"]["ratio"] == pytest.approx(24 / 32)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("1 / 0", "score() fails (ZeroDivisionError: division by zero) in line 16"),
        ("return seen.residual.sum(axis=1) * np.nan", "gives a score that is no finite number"),
        ("return np.random.default_rng().random(seen.n_rows)", "equal inputs give equal scores"),
        ("return np.full(seen.n_rows, float(seen.q[0, 0, 0] > 0))", "converts a value to a Python"),
        ("return np.asarray(seen.q).mean(axis=(1, 2))", "converts a tracked array to a plain one"),
        ("return np.array(seen.q.sum(axis=(1, 2)).tolist())", "converts a tracked array to a list"),
        ("return 1.0 * seen.q.mean(axis=(1, 2)) if seen.q.mean() > 0 else seen.q.min(axis=(1, 2))",
         "branches on a value"),
        ("return seen.q[seen.q > 0].sum() + seen.q.sum(axis=(1, 2))", "chooses elements by their"),
        ("calls.append(1); return seen.q.mean(axis=(1, 2)) * len(calls)", "scores"),
        ("return seen.key(2 * seen.tokens_per_frame).sum(axis=(1, 2))", "declare frames_back = 2"),
        ("return seen.key(seen.tokens_per_frame + 1).sum(axis=(1, 2))", "declares frames_back = 1"),
    ],
)  # fmt: skip
def test_an_idea_that_cheats_or_fails_is_refused_by_name(
    tmp_path: Path, body: str, words: str
) -> None:
    file = written(tmp_path, RULE.replace("BODY", body))
    with pytest.raises(
        InputError, match=r"replay rule 'mine' of my\.py: breaks its contract"
    ) as told:
        Trial(file, tmp_path / "out", workers=0).run("contract")
    assert words in str(told.value)
    assert "\n" not in str(told.value)


def test_what_is_no_idea_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"registers 0 rules or attention policies \(none\)"):
        subject_of(written(tmp_path, "x = 1\n"))
    done = call(
        "idea", written(tmp_path, ARRAY.replace("512", "500"), "array"), "--out", tmp_path / "out"
    )
    assert done.status == 2
    assert "give bool[steps, layers, rows]" in done.err


def test_the_command_does_a_step_alone(tmp_path: Path) -> None:
    file = written(tmp_path, RULE.replace("BODY", "return seen.q.mean(axis=(1, 2))"))
    done = call("idea", file, "--out", tmp_path / "out", "--until", "cost")
    assert done.status == 0, done.err
    assert "keeps its contract" in done.out
    stored = json.loads((tmp_path / "out/cost.json").read_text())
    # 32 heads of 128 are added up: an operation an element, and a division.
    assert stored["result"]["work"]["vector_ops"] == 32 * 128 + 1


def test_baselines_replay_as_often(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    replay = rng.random((3 * TOKENS_PER_FRAME, 2, 2)) < 0.4
    replay[:TOKENS_PER_FRAME] = False
    for other in (permuted(replay, rng), redrawn(replay, rng)):
        by_frame = [each.reshape(3, TOKENS_PER_FRAME, 2, 2).sum(axis=1) for each in (replay, other)]
        np.testing.assert_array_equal(*by_frame)
        assert (other != replay).any()
    rows_together = permuted(replay, rng).reshape(3, TOKENS_PER_FRAME, 2, 2).sum(axis=0)
    ages = replay.reshape(3, TOKENS_PER_FRAME, 2, 2).sum(axis=0)
    np.testing.assert_array_equal(np.sort(rows_together, axis=0), np.sort(ages, axis=0))
    np.testing.assert_array_equal(Given.of(replay).replay, replay)


def test_what_ships_is_small() -> None:
    content = shipped_content()
    files = (content.weights, content.codebook, content.scenes)
    assert sum(path.stat().st_size for path in files) <= 5_000_000
