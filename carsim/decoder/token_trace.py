"""Traces of forwards whose tokens replay where their score is above tau."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention.base import Bools, Ints
from carsim.decisions.replay import ReplayRule
from carsim.decisions.trace.file import Trace, check_trace
from carsim.decisions.trace.meta import (
    TOKEN,
    WIDER_VERSION,
    DecisionMeta,
    RangesMeta,
    TraceMeta,
)
from carsim.workload.workload import ReuseSource

Scores = NDArray[np.floating]

LAYER = ("qkv", "attention", "output", "cross", "mlp")
"""Blocks of a layer, all of which a forward leaves out that takes the output of an earlier one."""


class TokenRule(NamedTuple):
    """The comparison that decides for each token.

    Attributes:
        tau: Tokens of a higher score replay.
        rule: Rule of the score.
        source: Output that a token takes.
    """

    tau: float
    rule: ReplayRule
    source: ReuseSource


class RangeCounts(NamedTuple):
    """Decisions of tokens, summed up by range. S forwards, L layers, B rows, R ranges of a row.

    Attributes:
        reused: Tokens of each range that replay, int[S, L, B, R].
        least: The least score of a row, where a token without a score counts as tau, [S, L, B].
        tokens: Tokens of a row.
    """

    reused: Ints
    least: Scores
    tokens: int


def trace_of_scores(meta: TraceMeta, scores: Scores, decided: TokenRule, name: str) -> Trace:
    """A trace that holds the score of every token; a range is one token.

    A row wholly replays where the least score of its tokens is above tau. Tokens that have no score
    compute, and count as tau.

    Args:
        meta: Metadata of dense forwards.
        scores: [S, L, B, n]; NaN where a token has none.
        decided: What scores are compared with.
        name: Name of the trace, for errors.
    """
    reused = exceeds(scores, decided.tau)
    least = _least_of_rows(scores, decided.tau)
    counts = RangeCounts(reused.astype(np.uint8), least, tokens=scores.shape[3])
    kept = _in_single_precision(scores, decided.tau)
    return _trace(meta, counts, decided, name, scores=kept)


def _least_of_rows(scores: Scores, tau: float) -> NDArray[np.float64]:
    """The least score of each row, [S, L, B], where a token without a score counts as tau."""
    least = np.empty(scores.shape[:3])
    for step, of_step in enumerate(scores):  # step by step, as scores may take a gigabyte
        known = np.where(np.isnan(of_step), tau, of_step.astype(np.float64))
        least[step] = known.min(axis=2)
    return least


def trace_of_counts(meta: TraceMeta, counts: RangeCounts, decided: TokenRule, name: str) -> Trace:
    """A trace that holds how many tokens of each range replay, and no score of a single token.

    Args:
        meta: Metadata of dense forwards.
        counts: Decisions by range.
        decided: What scores were compared with.
        name: Name of the trace, for errors.
    """
    return _trace(meta, counts, decided, name, scores=None)


def trace_of_rows(
    meta: TraceMeta, scores: Scores, tau: float, rule: ReplayRule, name: str
) -> Trace:
    """A trace of whole forwards that take the output of an earlier one.

    Args:
        meta: Metadata of dense forwards.
        scores: [S, L, B].
        tau: Forwards of a higher score do so.
        rule: Rule of the score.
        name: Name of the trace, for errors.
    """
    scores = _in_single_precision(scores, tau)
    scores[0] = np.nan  # the first forward computes
    replays = exceeds(scores, tau)
    decision = DecisionMeta(skip="all_layers", blocks=LAYER, holds=LAYER[-1:])
    changes = {"tau": tau, "rule": rule, "decisions": {TOKEN: decision}}
    meta = meta.model_copy(update={**changes, "schema_version": WIDER_VERSION})
    trace = Trace(replays, scores, meta)
    check_trace(trace, name)
    return trace


def _trace(
    meta: TraceMeta, counts: RangeCounts, decided: TokenRule, name: str, *, scores: Scores | None
) -> Trace:
    """The trace of counts, checked."""
    least = _in_single_precision(counts.least, decided.tau)
    least[0] = np.nan  # the first forward never wholly replays
    ranges = RangesMeta(count=counts.reused.shape[3], tokens=counts.tokens, source=decided.source)
    changes = {"tau": decided.tau, "rule": decided.rule, "ranges": ranges}
    meta = meta.model_copy(update={**changes, "schema_version": WIDER_VERSION})
    trace = Trace(exceeds(least, decided.tau), least, meta, reused=counts.reused, range_tas=scores)
    check_trace(trace, name)
    return trace


def exceeds(scores: Scores, tau: float) -> Bools:
    """Scores above tau, exactly; NaN is not.

    >>> exceeds(np.array([0.1, 0.2], np.float32), 0.1).tolist()
    [True, True]
    """
    threshold: Any = tau
    if scores.dtype == np.float32:
        # A single-precision score is above tau if it is above the last such number up to tau.
        threshold = np.float32(tau)
        if float(threshold) > tau:
            threshold = np.nextafter(threshold, np.float32(-np.inf))
    with np.errstate(invalid="ignore"):
        above: Bools = scores > threshold
    return above


def _in_single_precision(scores: Scores, tau: float) -> NDArray[np.float32]:
    """Scores as single precision has them, each on its own side of tau."""
    if scores.dtype == np.float32:
        return scores.astype(np.float32)
    above = exceeds(scores, tau)
    rounded = scores.astype(np.float32)
    rounded_above = exceeds(rounded, tau)
    next_higher = np.nextafter(rounded, np.float32(np.inf))
    next_lower = np.nextafter(rounded, np.float32(-np.inf))
    raised = np.where(above & ~rounded_above, next_higher, rounded)
    return np.where(~above & rounded_above, next_lower, raised)
