"""Every rule of replay, the package's own and one from outside, keeps the contract."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from decoder_oracle import decode_with
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from policy_maker import meta_of
from strategies import RULES as OWN
from tiny import tiny_design, tiny_trace
from toy_rules import TOYS, Cosine, registered
from trace_maker import make_meta

from carsim.decisions.replay import RULES, InputChange, Periodic, Replay, ReplayRule, Tas
from carsim.decisions.replay.base import MachineShape, RuleWork
from carsim.decisions.trace import Trace, load_trace, save_trace
from carsim.decoder.structures import LayerRecord
from carsim.machine.phases import FIDELITIES
from carsim.runs.pipeline import run as simulate
from carsim.testing import CONTRACTS
from carsim.testing.decoder import MASK, WIDTH, make_config, make_weights
from carsim.testing.decoder import decode_rows as decode
from carsim.testing.replay import with_tau

EXAMPLES: list[ReplayRule] = [
    *(kind.model_validate({}) for kind in {**RULES, **TOYS}.values()),
    *OWN[1:],
    Tas(form="paper"),
    Tas(form="paper", head=3, offset=1),
    InputChange(bits=None, elements=1),
    InputChange(bits=2),
    Periodic(period=3),
    Periodic(gain=0.25),
    Periodic(period=(2, 4), computes=(1, 3)),
    Tas(gain=0.5),
    InputChange(gain=(0.0, 1.0)),
    InputChange(max_age=1),
    Tas(max_age=2),
]
every_rule = pytest.mark.parametrize("rule", EXAMPLES, ids=lambda rule: rule.text)


@every_rule
@pytest.mark.parametrize("check", CONTRACTS["replay rule"], ids=lambda check: check.__name__)
def test_every_rule_keeps_the_contract(rule: ReplayRule, check: Any) -> None:
    check(rule)


@every_rule
def test_some_replay_at_the_middle(rule: ReplayRule) -> None:
    assert 0 < decode(make_config(), with_tau(rule)).kept.replay[3:].mean() < 1


@dataclass
class Slow:
    """Scores by loops over single numbers, from all that a recorder saw before. N = 3."""

    rule: ReplayRule
    seen: dict[tuple[int, int, int], dict[str, NDArray[Any]]] = field(default_factory=dict)
    computed: dict[tuple[int, int, int], bool] = field(default_factory=dict)
    scores: dict[tuple[int, int, int], float] = field(default_factory=dict)

    def __call__(self, shown: LayerRecord) -> None:
        for row in range(len(MASK)):
            at = shown.step, shown.layer, row
            self.seen[at] = {"q": shown.query.q[row].copy(), "u": shown.seen.mlp_input[row].copy()}
            if shown.step >= 3:
                self.scores[at] = self.score(*at)
            self.computed[at] = not shown.replay[row]

    def last(self, step: int, layer: int, row: int) -> dict[str, NDArray[Any]]:
        """What there was to see when the output that is held was computed."""
        before = (at for at in range(step - 3, -1, -3) if self.computed[at, layer, row])
        return self.seen[next(before), layer, row]

    def score(self, step: int, layer: int, row: int) -> float:
        rule, now = self.rule, self.seen[step, layer, row]
        if isinstance(rule, Periodic):
            period, computes = (
                each if isinstance(each, int) else each[layer]
                for each in (rule.period, rule.computes)
            )
            return float((layer + step // 3) % period >= computes)
        held = self.last(step, layer, row)
        if isinstance(rule, Cosine):
            a, b = now["q"][rule.head], held["q"][rule.head]
            return float(a @ b / np.sqrt((a @ a) * (b @ b)))
        assert isinstance(rule, InputChange)
        count = rule.elements or WIDTH
        a, b = (
            self.rounded([x["u"][i * WIDTH // count] for i in range(count)]) for x in (now, held)
        )
        return -sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / sum(y**2 for y in b)

    def rounded(self, numbers: list[float]) -> list[float]:
        assert isinstance(self.rule, InputChange)
        if self.rule.bits is None:
            return numbers
        step = max(abs(x) for x in numbers) / (2 ** (self.rule.bits - 1) - 1)
        return [round(x / step) * step for x in numbers]


@pytest.mark.parametrize(
    "rule", [each for each in EXAMPLES if not isinstance(each, Tas)], ids=lambda rule: rule.text
)
def test_scores_equal_those_of_loops_over_single_numbers(rule: ReplayRule) -> None:
    """Closed loop: what is held is what was there when the row last computed, however long ago.

    Scores of TAS are those of the naive decoder: tests/decoder/test_decoder.py.
    """
    config, policy = make_config(), with_tau(rule)
    slow = Slow(rule)
    kept = decode_with(config, policy, make_weights(config), also=slow).kept
    found = {at: kept.tas[at] for at in slow.scores}
    assert found == pytest.approx(slow.scores, abs=1e-9)
    assert len(found) == 6 * 2 * 4


def test_a_trace_opens_without_the_rule_that_made_it(tmp_path: Any) -> None:
    """Its name and "not verified" stand in every label; ranges are checked, and it is kept."""
    save_trace(tmp_path / "a.npz", tiny_trace(rule=Cosine(head=1)))
    opened = load_trace(tmp_path / "a.npz")
    label = "tau 0 on 'cosine' (not verified: rule not installed, its work not counted)"
    assert opened.meta.tau_text == label
    report = simulate(tiny_design(), [opened])
    assert report.chosen.variant.name == "replay by 'cosine', not verified + DRS"
    assert report.chosen.batches.label == f"captured in a.npz at {label}"
    save_trace(tmp_path / "b.npz", opened)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with registered():
        assert load_trace(tmp_path / "b.npz").meta.rule == Cosine(head=1)
    with pytest.raises(Exception, match="frame 0 cannot replay"):
        save_trace(tmp_path / "c.npz", replace(opened, replay=~opened.replay))


@every_rule
def test_a_decoding_becomes_a_trace_and_a_price(rule: ReplayRule, tmp_path: Any) -> None:
    """From decisions to a row of a comparison, on both rungs."""
    config, policy = make_config(), with_tau(rule)
    kept = decode(config, policy)[2]
    meta = meta_of(config, tau=policy.tau[0], rule=rule)
    save_trace(tmp_path / "a.npz", Trace(kept.replay, kept.tas, meta))
    with registered():
        trace = load_trace(tmp_path / "a.npz")
    assert trace.meta.rule == rule
    np.testing.assert_array_equal(trace.replay, kept.replay)
    design = tiny_design("model.body.n_layers=2")
    for rung in FIDELITIES:
        report = simulate(design, [trace], fidelity=rung, allow_misfit=True)
        own = report.chosen
        assert own.latency_s >= report.rows[-1].latency_s
        assert own.variant.name.startswith(rule.method)
        assert (rule.text in own.batches.label) == (not rule.is_fastcar)
        assert report.rows[0].batches.rule is None


def chains_of(replay: NDArray[np.bool_], tokens_per_frame: int) -> int:
    """The most frames in a row that a place replays, counted one by one."""
    longest = 0
    for place, layer, row in np.ndindex(tokens_per_frame, *replay.shape[1:]):
        age = 0
        for replays in replay[place::tokens_per_frame, layer, row]:
            age = age + 1 if replays else 0
            longest = max(longest, age)
    return longest


@pytest.mark.parametrize("scope", ["row", "pair"])
@given(max_age=st.integers(1, 5), tau=st.floats(-1, 1), seed=st.integers(0, 99))
def test_no_output_grows_older_than_the_cap(scope: Any, max_age: int, tau: float, seed: int):
    """Decisions of whole traces, from scores; until the cap is reached they are as without."""
    scores = np.random.default_rng(seed).normal(size=(7 * 3, 2, 4))
    scores[:3] = np.nan
    pairs = ((0, 1), (2, 3))
    capped, free = (
        Replay((tau, tau), Tas(max_age=age), scope, pairs).decide_all(scores, 3)
        for age in (max_age, None)
    )
    assert chains_of(capped, 3) <= max_age
    assert not (capped & ~free).any()
    until = 3 * (max_age + 1)
    np.testing.assert_array_equal(capped[:until], free[:until])
    if chains_of(free, 3) <= max_age:
        np.testing.assert_array_equal(capped, free)
    else:
        assert chains_of(capped, 3) == max_age


def test_a_cap_is_named_where_decisions_are() -> None:
    rule = Tas(form="paper", max_age=2)
    assert not rule.is_fastcar
    assert rule.text == "TAS (max_age 2, form paper, offset 0)"
    assert "max_age" not in Tas().model_dump()  # files of before stay as they are
    for wrong in (0, -1, 1.5):
        with pytest.raises(ValueError, match="max_age"):
            Tas(max_age=wrong)


def test_damped_outputs_are_scaled_and_written_back() -> None:
    plain, damped = (
        simulate(tiny_design(), [tiny_trace(rule=Tas(gain=gain))]).chosen for gain in (1.0, 0.5)
    )
    first, other = (each.simulation.totals["mlp"] for each in (plain, damped))
    model, replays = tiny_design().model, int(tiny_trace().replay.sum())
    width = model.body.hidden_size
    assert other.vector_ops - first.vector_ops == replays * width
    assert sum(other.dram_bytes) - sum(first.dram_bytes) == replays * model.replay.bytes_of(width)
    assert damped.latency_s >= plain.latency_s
    assert damped.variant.name == "replay by TAS (gain 0.5) + DRS"
    assert damped.batches.label.endswith("TAS (gain 0.5, form released, offset 0)")


def test_one_head_of_32_costs_a_32nd_and_a_key_one_place_later_is_a_token_nearer() -> None:
    shape, grouped = (MachineShape(32, kv_heads, 128, 4096, Fraction(16)) for kv_heads in (32, 8))
    assert Tas().work(shape) == RuleWork(vector_ops=4096, key_elements=4096)
    assert Tas().work(grouped) == RuleWork(vector_ops=4096, key_elements=1024)
    for each in (shape, grouped):
        assert Tas(head=7).work(each) == RuleWork(vector_ops=128, key_elements=128)
    rules = Tas(offset=0), Tas(offset=1), Periodic()  # the last one reads no key
    assert [rule.key_distance(256) for rule in rules] == [256, 255, 0]


def test_gains_and_schedules_that_make_no_sense_are_refused() -> None:
    for wrong in (1.5, -0.1, float("nan"), ()):
        with pytest.raises(ValueError, match="gain"):
            Tas(gain=wrong)
    with pytest.raises(ValueError, match="3 of 3 frames, in which nothing replays; give at most 2"):
        Periodic(period=(4, 3), computes=3)
    with pytest.raises(Exception, match="3 gains for 2 layers, give one number or 2"):
        make_meta(rule=Tas(gain=(1.0, 0.5, 0.5)), decoded=make_config().geometry)
    assert "gain" not in Tas().model_dump()  # files of before stay as they are
    assert Tas().is_fastcar
    assert not Tas(gain=0.5).is_fastcar
    assert Tas(gain=(1.0, 1.0)).is_fastcar
