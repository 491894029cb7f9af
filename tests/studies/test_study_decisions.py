"""Studies of decisions: whole clips decode as step by step, and analyses find what was put in."""

import ast
import doctest
import importlib
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from study_maker import N_CODES, PROMPT, make_model

from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.structures import Config
from studies import content, ranks, record, rules, whole
from studies.chance import benchmark, free, own
from studies.content import Row


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return record.Archive(make_model(), tmp_path_factory.mktemp("out"), n_frames=3, workers=1)


def make_rows(n: int) -> list[Row]:
    codes = np.random.default_rng(5).integers(0, N_CODES, (n, 3 * TOKENS_PER_FRAME))
    return [Row(f"slow_{number}", PROMPT, each) for number, each in enumerate(codes)]


HALF = rules.Threshold(rules.TasScore(), 0.0)


def test_rows_are_decoded_once(archive, monkeypatch):
    asked = [record.Ask(HALF, row) for row in make_rows(2)]
    first = archive.decode(asked)
    with monkeypatch.context() as patch:
        patch.setattr(whole.Decoder, "decode", None)
        again = archive.decode(asked[::-1])
    for one, other in zip(first, again[::-1], strict=True):
        assert np.array_equal(one.replay, other.replay)
        assert np.array_equal(one.score, other.score, equal_nan=True)
    assert 0 < first[0].ratio < 1
    other = archive.decode([record.Ask(rules.Threshold(rules.TasScore(), 0.5), asked[0].row)])[0]
    assert other.ratio < first[0].ratio


def test_losses_are_those_of_the_true_codes(archive):
    row = make_rows(1)[0]
    kept = archive.decode([record.Ask(None, row)])[0]
    decoded = archive.decoder.decode(None, row.prompt, row.codes)
    logits = decoded.hidden[-1].astype(float) @ archive.model.arrays["head"].T
    odds = np.exp(logits) / np.exp(logits).sum()
    assert np.isclose(kept.nats[-1], -np.log(odds[row.codes[-1]]), atol=1e-4)
    assert not kept.replay.any()


@pytest.mark.parametrize(
    "measure", [rules.Chance(3), rules.SameCode(), rules.OutputChange(), rules.ChangeScore()]
)
def test_counted_rules_replay_exactly_as_many_places(archive, measure):
    row = make_rows(1)[0]
    wanted = rules.counts_of(archive.decode([record.Ask(HALF, row)])[0].replay, TOKENS_PER_FRAME)
    rule = rules.Counted(measure, wanted)
    kept = archive.decode([record.Ask(rule, row)])[0]
    assert np.array_equal(rules.counts_of(kept.replay, TOKENS_PER_FRAME), wanted)
    assert repr(rule) != repr(rules.Counted(measure, wanted + 1))


def seen_at(u: np.ndarray, held: np.ndarray, frame: int = 1, layer: int = 0) -> whole.Seen:
    """A layer of which nothing but the MLP's input and cached output matters."""
    codes = np.arange(len(u))
    none = np.zeros((len(u), 1, 1))
    keys = np.zeros((2 * len(u), 1, 1))
    age = np.ones(len(u), np.int64)
    return whole.Seen(frame, layer, codes, codes, none, none, keys, u, u, u, u, held, age, None)


@pytest.mark.parametrize(("gain", "twice"), [(1.0, 1.0), (0.5, 0.25), ((9.0, 0.0), 0.0)])
def test_a_gain_fades_what_is_replayed_and_nothing_else(gain, twice):
    plain = SimpleNamespace(arithmetic=SimpleNamespace(held=lambda made: made))
    seen = replace(seen_at(u=np.eye(4), held=np.ones((4, 4)), layer=1), weights=plain)
    seen.__dict__["fresh"] = np.full((4, 4), 5.0)
    replay = np.zeros((12, 2), bool)
    replay[[5, 7], 1] = True  # places 1 and 3 of frame 1
    rule = rules.Damped(rules.Given(replay), gain)
    for _ in range(2):  # an output that is replayed twice fades twice
        out = whole.outputs(seen, rule, np.zeros(4, bool), np.zeros(4))
    assert out.tolist() == [[5.0] * 4, [twice] * 4] * 2
    assert seen.age.tolist() == [1, 3, 1, 3]
    assert repr(rules.Given(replay)) != repr(rules.Given(~replay))


def test_permuted_decisions_have_the_counts_and_ages_of_their_own():
    replay = np.random.default_rng(0).random((5 * 16, 3)) < 0.5
    frames, moved = replay.reshape(5, 16, 3), rules.permuted(replay, 16, seed=1).reshape(5, 16, 3)
    for layer in range(3):  # a place keeps its history: each column of frames occurs again
        assert sorted(map(tuple, frames[..., layer].T)) == sorted(map(tuple, moved[..., layer].T))
    assert not np.array_equal(frames, moved)
    together = rules.permuted(replay, 16, seed=1, per_layer=False).reshape(5, 16 * 3)
    assert sorted(map(tuple, frames.transpose(1, 0, 2).reshape(16, -1))) == sorted(
        map(tuple, together.reshape(5, 16, 3).transpose(1, 0, 2).reshape(16, -1))
    )


@pytest.mark.parametrize(
    ("share", "first"), [(0.5, "0101010"), (0.75, "1101110"), (0.25, "0100010")]
)
def test_schedules_are_those_of_periodic_rules(share, first):
    """Layer 1; that of one half and three quarters is ``Periodic`` with 2 and 4 frames."""
    plan = rules.schedule(Config(make_model().geometry, tokens_per_frame=2, n_frames=8), share)
    assert not plan[:, 0].any()
    assert "".join(str(int(each)) for each in plan[2::2, 1]) == first
    assert np.array_equal(plan[::2], plan[1::2])


def test_our_own_rules_are_made_on_the_tuning_scenes(archive, monkeypatch):
    monkeypatch.setattr(own, "rows_of", lambda clips, n_frames: make_rows(2))
    score, plan = own.learned(archive), own.by_layer(archive)
    exempt, free_layer = score.weights
    assert exempt == (0, 0, 0, 0)
    assert free_layer[3] < 0  # where the same code is fed, less is lost
    assert rules.counts_of(plan, TOKENS_PER_FRAME).tolist() == [[0, 0], [0, 0], [0, 256]]


def test_planned_places_replay_while_the_model_generates(archive):
    drawn = free.drawn(archive, 0)
    assert rules.counts_of(drawn, TOKENS_PER_FRAME).tolist() == [[0, 0], [0, 128], [0, 128]]
    rule = free.Planned(plan=drawn)
    seen = SimpleNamespace(frame=2, tokens_per_frame=TOKENS_PER_FRAME, q=np.zeros((3, 1, 1)))
    for place in range(4):
        expected = drawn[2 * TOKENS_PER_FRAME + place, 1]
        assert rule.score(None, 1, place, seen).tolist() == [expected] * 3


@pytest.mark.parametrize("module", [ranks, content])
def test_doctests_of_studies(module):
    failed, tried = doctest.testmod(module)
    assert tried
    assert not failed


OWN = ("carsim", "studies")


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
    """Module and name of everything that a file imports from carsim and studies."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OWN:
            yield from ((node.module, alias.name) for alias in node.names)


def resolves(module: str, name: str) -> bool:
    """True if a module has a name, or cannot be imported because a library is absent."""
    try:
        return hasattr(importlib.import_module(module), name) or bool(find_spec(f"{module}.{name}"))
    except ModuleNotFoundError as error:
        return (error.name or "").split(".")[0] not in OWN


def test_studies_import_only_what_there_is() -> None:
    files = sorted((content.ROOT / "studies").rglob("*.py"))
    taken = {
        (str(path.relative_to(content.ROOT)), *each) for path in files for each in imports_of(path)
    }
    assert len(taken) > len(files)
    assert [each for each in sorted(taken) if not resolves(*each[1:])] == []


def test_the_age_of_a_replay_counts_frames_since_it_was_computed() -> None:
    n = TOKENS_PER_FRAME
    free = np.zeros((4 * n, 2), bool)
    free[n : 3 * n, 0] = free[3 * n :, 1] = True  # ages 1 and 2 in one layer, 1 in the other
    assert benchmark._age(free) == pytest.approx(4 / 3)


def test_a_place_that_replayed_is_left_out_if_another_can_replay() -> None:
    seen = SimpleNamespace(age=np.array([1, 2, 1, 3]))  # the second and fourth replayed
    scores = SimpleNamespace(score=lambda _: np.array([1.0, 9.0, 2.0, 8.0]))
    assert np.argsort(-benchmark.Fresh(scores).score(seen)).tolist() == [2, 0, 1, 3]


def test_the_benchmark_holds_each_rule_against_its_own_baselines() -> None:
    rows = [
        ("a", "replay", 2),
        ("a", "nothing", 3),
        ("random", "replay", 1),
        ("random", "nothing", 1),
    ]
    columns = ["rule", "baseline", "loss"]
    table = pd.concat(
        pd.DataFrame(rows, columns=columns).assign(
            clip=clip, model="m", share=0.5, ratio=0.5, age=1
        )
        for clip in ("x", "y")
    )
    found = benchmark.summary(table).set_index("rule").loc["a"]
    assert (found["replay"], found["nothing_less_replay"], found["random_less_replay"]) == (
        2,
        1,
        -1,
    )
