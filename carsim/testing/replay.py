"""The contract of a rule of replay, held to a tiny decoder."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.replay import DecoderShape, MachineShape, ReplayRule, Seen, later
from carsim.decoder.structures import DecoderPolicy
from carsim.testing.decoder import HEADS, WIDTH, decode_rows, make_config
from carsim.testing.promise import has_fields, holds

WHOLE = MachineShape(4, 2, 2, WIDTH, Fraction(16))
NEVER = float("inf")


def middle_tau(rule: ReplayRule) -> float:
    """A threshold between the scores of dense decoding, so that some replay."""
    scores = decode_rows(make_config(), DecoderPolicy((NEVER, NEVER), rule)).kept.tas[3:]
    return float(np.median(np.unique(scores)[:-1] if np.ptp(scores) else scores))


def with_tau(rule: ReplayRule, tau: float | None = None) -> DecoderPolicy:
    """The rule at one threshold in both layers; :func:`middle_tau` if left out."""
    tau = middle_tau(rule) if tau is None else tau
    return DecoderPolicy((tau, tau), rule)


def only_looks(rule: ReplayRule) -> None:
    """Without a threshold, decoding is dense to the bit, and scores are numbers."""
    dense = decode_rows(make_config(), DecoderPolicy((None, None)))
    looked_at = decode_rows(make_config(), with_tau(rule, NEVER))
    holds(dense.hidden.tobytes() == looked_at.hidden.tobytes(), "with tau inf, decoding is dense")
    holds(np.isfinite(looked_at.kept.tas[3:]), "scores are finite after the first frame")


def decides_alike(rule: ReplayRule) -> None:
    """Scores repeat, decide strictly, and do not depend on batch-mates."""
    policy = with_tau(rule)
    first, again = (decode_rows(make_config(), policy).kept for _ in range(2))
    holds(first.tas.tobytes() == again.tas.tobytes(), "equal inputs give equal scores")
    decided = policy.decide_all(first.tas, 3)
    holds(first.replay == decided, "rows replay where score > tau, and no place for too long")
    for row in range(4):
        alone = decode_rows(make_config(), policy, [row]).kept
        holds(alone.replay[..., 0] == first.replay[..., row], "a row decides alone as in a batch")
        near = np.isclose(alone.tas[..., 0], first.tas[..., row], atol=1e-10, equal_nan=True)
        holds(near, "a row scores alone as in a batch")


def caps_ages(rule: ReplayRule) -> None:
    """Under max_age, a place that has replayed so often in a row computes, whatever its score."""
    kept = decode_rows(make_config(), with_tau(rule.model_copy(update={"max_age": 1}), -NEVER)).kept
    by_frame = kept.replay.reshape(3, 3, *kept.replay.shape[1:])
    holds(by_frame[1] & ~by_frame[2], "max_age 1 replays a frame and computes the next")


def looks_at_nothing_later(rule: ReplayRule) -> None:
    """A score looks at nothing that comes after ``known_at``, and at one key at most."""
    rng, asked = np.random.default_rng(0), list[int]()
    state = rule.begin(DecoderShape(1, 4, 3, WIDTH, HEADS, 2, np.dtype(float)))
    keys = rng.normal(size=(9, 4, 2, 2))

    def key(ago: int) -> NDArray[np.float64]:
        asked.append(ago)
        return keys[ago]

    queries, inputs = rng.normal(size=(2, 4, HEADS, 2)), rng.normal(size=(4, WIDTH))
    seen = Seen(queries[0], queries[1], key, inputs, 3)
    rule.computed(state, 0, 1, np.ones(4, bool), seen)
    holds(not asked, "computed asks for no key")
    seen = replace(seen, q=queries[0] + 1)
    before = rule.score(state, 0, 1, seen)
    if later(rule.known_at, "attention") == "attention":
        seen = replace(seen, mlp_input=inputs * np.nan)
    holds(rule.score(state, 0, 1, seen) == before, "nothing after known_at changes the score")
    wanted = {rule.key_distance(3)} if rule.work(WHOLE).key_elements else set()
    holds(set(asked) == wanted, "the key of key_distance is read, if work counts one")


def works(rule: ReplayRule) -> None:
    """Shares of cores are at least the whole work; at its own width the rule stays as it is."""
    whole = rule.work(WHOLE)
    for of in range(1, 10):
        for all_of_it, of_core in zip(whole, rule.work(replace(WHOLE, of=of)), strict=True):
            holds(0 <= of_core <= all_of_it <= of * of_core, "cores share the work")
    holds(rule.at_width(96, 96) == rule, "at its own width it stays as it is")


RULE_CHECKS = (only_looks, decides_alike, caps_ages, looks_at_nothing_later, works, has_fields)
