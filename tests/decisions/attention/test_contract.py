"""Every kind of attention, the package's own and two from outside, keeps the contract."""

from typing import Any

import numpy as np
import pytest
from decoder_oracle import naive_rows
from policy_maker import make_trace
from toy_policies import TOYS, BestKeys, EverySecondBlock, registered

from carsim.decisions.attention import ATTENTION, Ann, AttentionPolicy, Dense, Draft, Streaming
from carsim.decisions.attention.base import Selection
from carsim.decisions.trace.meta import TraceMeta, parse_meta
from carsim.decoder.structures import DecoderPolicy
from carsim.testing import CONTRACTS
from carsim.testing.attention import decode
from carsim.testing.decoder import decode_rows as run
from carsim.testing.decoder import make_config

KINDS = {**ATTENTION, **TOYS}
EXAMPLES: list[AttentionPolicy] = [
    *(kind.model_validate({}) for kind in KINDS.values()),
    Streaming(sinks=0, window=3),
    Streaming(sinks=2, window=5),
    EverySecondBlock(block=2, last=1),
    EverySecondBlock(block=3, last=4),
    Draft(block_tokens=1, keep=0.1),
    Draft(block_tokens=2, keep=0.5, pooled_bits=3),
    Ann(bits=2, tables=2, sinks=1, window=2),
    Ann(search="quantised", keep=0.4, key_bits=3, sinks=0, window=1),
    BestKeys(k=1),
    BestKeys(k=3, hold=4),
]
every_policy = pytest.mark.parametrize("policy", EXAMPLES, ids=lambda policy: policy.text)


@every_policy
@pytest.mark.parametrize("check", CONTRACTS["attention policy"], ids=lambda check: check.__name__)
def test_every_policy_keeps_the_contract(policy: AttentionPolicy, check: Any) -> None:
    check(policy)


@every_policy
def test_fields_come_back_from_files(policy: AttentionPolicy) -> None:
    with registered():
        meta = make_trace(policy).meta
        assert parse_meta(meta.model_dump_json(), "x") == meta
        assert TraceMeta.model_validate(meta.model_dump()).attention == policy


def test_kinds_that_are_not_registered_are_refused_in_files() -> None:
    text = make_trace(BestKeys()).meta.model_dump_json()
    with pytest.raises(Exception, match=r"meta.*attention.*'best_keys'"):
        parse_meta(text, "meta")


def test_a_bias_on_every_key_changes_nothing() -> None:
    same, plain = decode(BestKeys(k=3, twice=True)), decode(BestKeys(k=3))
    np.testing.assert_array_equal(same.replay, plain.replay)
    np.testing.assert_allclose(same.residual, plain.residual, atol=1e-12)


def test_tokens_that_are_gone_do_not_part_a_run() -> None:
    mask = np.array([[[1, 1, 0, 1, 0, 1]]], bool)
    stored = np.array([[[0, 1, 0, 1, 1, 1]]], bool)
    padding = np.array([0])
    reads = Selection(mask=mask, stored=stored).reads(padding, 6, 1)
    assert (reads.tokens.item(), reads.runs.item()) == (3, 2)
    assert Selection(mask=mask).reads(padding, 6, 1).runs.item() == 3
    window = Selection(4, np.array([[0, 1, 5]]), mask[..., 4:], stored=stored[..., 4:])
    assert window.read(padding, 6, 1).ravel().tolist() == [True, True, False, False, False, True]
    assert window.reads(padding, 6, 1).runs.item() == 2


CHOICES = {
    "second_block": lambda prompt, token, logits: [
        i for i in range(token + 1) if token < prompt or i // 2 % 2 == 0 or i == token
    ],
    "best_keys": lambda prompt, token, logits: (
        list(range(token + 1)) if token < prompt else sorted({*np.argsort(-logits)[:3], token})
    ),
}


@pytest.mark.parametrize("policy", [EverySecondBlock(block=2, last=1), BestKeys(k=3)])
def test_kinds_that_choose_equal_the_naive_decoder(policy: AttentionPolicy) -> None:
    """Closed loop, together with replay; the naive decoder lists visible tokens one by one."""
    config = make_config()
    taken = DecoderPolicy((0.0, 0.0), attention=policy)
    naive = naive_rows(config, taken, chooses=CHOICES[policy.kind])
    kept = run(config, taken)[2]
    np.testing.assert_array_equal(kept.replay, naive.replay)
    np.testing.assert_allclose(kept.residual, naive.residual, atol=1e-10)
    assert not np.allclose(kept.residual, decode(Dense()).residual)
