"""Traces of forwards whose tokens replay where their score is above tau."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention.base import Ints
from carsim.decisions.replay import ReplayRule
from carsim.decisions.trace.file import Trace, check_trace
from carsim.decisions.trace.meta import WIDER_VERSION, RangesMeta, TraceMeta
from carsim.workload.workload import ReuseSource

Scores = NDArray[np.floating]


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
    with np.errstate(invalid="ignore"):
        reused = scores > decided.tau
    scores = _in_single_precision(scores, decided.tau)
    least = np.where(np.isnan(scores), decided.tau, scores).min(axis=3)
    counts = RangeCounts(reused.astype(np.uint8), least, tokens=scores.shape[3])
    return _trace(meta, counts, decided, name, scores=scores.astype(np.float32))


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
    scores = _in_single_precision(scores, tau).astype(np.float32)
    scores[0] = np.nan  # the first forward computes
    with np.errstate(invalid="ignore"):
        replays = scores.astype(np.float64) > tau
    trace = Trace(replays, scores, meta.model_copy(update={"tau": tau, "rule": rule}))
    check_trace(trace, name)
    return trace


def _trace(
    meta: TraceMeta, counts: RangeCounts, decided: TokenRule, name: str, *, scores: Scores | None
) -> Trace:
    """The trace of counts, checked."""
    least = _in_single_precision(counts.least, decided.tau).astype(np.float32)
    least[0] = np.nan  # the first forward never wholly replays
    ranges = RangesMeta(count=counts.reused.shape[3], tokens=counts.tokens, source=decided.source)
    changes = {"tau": decided.tau, "rule": decided.rule, "ranges": ranges}
    meta = meta.model_copy(update={**changes, "schema_version": WIDER_VERSION})
    with np.errstate(invalid="ignore"):
        whole = least.astype(np.float64) > decided.tau
    trace = Trace(whole, least, meta, reused=counts.reused, range_tas=scores)
    check_trace(trace, name)
    return trace


def _in_single_precision(scores: Scores, tau: float) -> NDArray[np.float64]:
    """Scores as single precision has them, each on its own side of tau."""
    rounded = scores.astype(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore"):
        lost = (scores > tau) & ~(rounded > tau)
        gained = ~(scores > tau) & (rounded > tau)
    above = np.nextafter(rounded.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    below = np.nextafter(rounded.astype(np.float32), np.float32(-np.inf)).astype(np.float64)
    return np.where(lost, above, np.where(gained, below, rounded))
