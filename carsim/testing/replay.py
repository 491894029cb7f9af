"""The contract of a rule of replay, held to a tiny decoder."""

import copy
import inspect
from dataclasses import replace
from fractions import Fraction

import numpy as np

from carsim.base.errors import InputError
from carsim.decisions.replay import MachineShape, ReplayRule, later
from carsim.decisions.replay.traced import arrays_of_state, traced_key_distances
from carsim.decoder.structures import DecoderPolicy
from carsim.program.program import TOKEN
from carsim.testing.decoder import (
    SETTINGS,
    WIDTH,
    Setting,
    SettingDecoding,
    decode_rows,
    decode_setting,
    make_config,
)
from carsim.testing.promise import has_fields, holds, in_another_process

WHOLE = MachineShape(4, 2, 2, WIDTH, Fraction(16))
NEVER = float("inf")
PAIRS = SETTINGS[3]
LEAST_SHARE = 0.5
"""Of the traced operations that a kind may state without saying why."""


def frames_of(rule: ReplayRule) -> Setting:
    """Several pairs, with two frames that are scored."""
    return PAIRS._replace(n_frames=max(3, rule.first_frame + 2))


def middle_tau(rule: ReplayRule, setting: Setting | None = None) -> float:
    """A threshold between the scores of dense decoding, so that some replay."""
    setting = setting or frames_of(rule)
    tas = decode_setting(setting, DecoderPolicy((NEVER, NEVER), rule)).tas
    scores = np.unique(tas[np.isfinite(tas)])
    if len(scores) == 1:
        return float(scores[0])
    # The widest gap near the median: a score beside the threshold would decide by its rounding,
    # which depends on the batch.
    central = scores[len(scores) // 4 : 3 * len(scores) // 4 + 2]
    below = int(np.argmax(np.diff(central)))
    return float((central[below] + central[below + 1]) / 2)


def with_tau(rule: ReplayRule, tau: float | None = None) -> DecoderPolicy:
    """The rule at one threshold in both layers; :func:`middle_tau` if left out."""
    tau = middle_tau(rule) if tau is None else tau
    return DecoderPolicy((tau, tau), rule)


def only_looks(rule: ReplayRule) -> None:
    """Without a threshold, decoding is dense to the bit."""
    dense = decode_rows(make_config(), DecoderPolicy((None, None)))
    looked_at = decode_rows(make_config(), with_tau(rule, NEVER))
    holds(dense.hidden.tobytes() == looked_at.hidden.tobytes(), "with tau inf, decoding is dense")


def decodes_anything(rule: ReplayRule) -> None:
    """Prompts and frames may have any size: scores are finite from ``first_frame`` on."""
    for setting in SETTINGS:
        needed = setting._replace(n_frames=max(setting.n_frames, rule.first_frame + 2))
        try:
            tau = middle_tau(rule, needed)
            log = decode_setting(needed, DecoderPolicy((tau, tau), rule))
        except InputError as error:
            raise AssertionError(f"{setting.words}: {error}") from error
        begins = rule.first_frame * needed.tokens_per_frame
        holds(np.isfinite(log.tas[begins:]), f"{setting.words}: scores are finite")
        holds(np.isnan(log.tas[:begins]), f"{setting.words}: no score before first_frame")
        decided = DecoderPolicy((tau, tau), rule).decide_all(log.tas, needed.tokens_per_frame)
        holds(log.replay == decided, "rows replay where score > tau, and no place for too long")


def decides_alike(rule: ReplayRule) -> None:
    """Scores repeat, and do not depend on batch-mates."""
    setting = frames_of(rule)
    policy = with_tau(rule)
    first = decode_setting(setting, policy)
    again = decode_setting(setting, policy)
    holds(first.tas.tobytes() == again.tas.tobytes(), "equal inputs give equal scores")
    for row in range(0, len(setting.prompts), 3):
        alone = decode_setting(setting, policy, [row])
        holds(alone.replay[..., 0] == first.replay[..., row], "a row decides alone as in a batch")
        near = np.isclose(alone.tas[..., 0], first.tas[..., row], atol=1e-10, equal_nan=True)
        holds(near, "a row scores alone as in a batch")


def caps_ages(rule: ReplayRule) -> None:
    """Under max_age, a place that has replayed so often in a row computes, whatever its score."""
    setting = frames_of(rule)
    capped = with_tau(rule.model_copy(update={"max_age": 1}), -NEVER)
    replay = decode_setting(setting, capped).replay  # [S, L, B]
    shape = (setting.n_frames, setting.tokens_per_frame, *replay.shape[1:])
    by_frame = replay.reshape(shape)[rule.first_frame :]
    holds(by_frame[0] & ~by_frame[1], "max_age 1 replays a frame and computes the next")


def looks_at_nothing_later(rule: ReplayRule) -> None:
    """A score looks at nothing that comes after ``known_at``; only score() looks back."""
    traced = rule.traced(WHOLE)
    latest = ", ".join(sorted(traced.used))
    is_known = later(rule.point, traced.point) == rule.point
    promise = f"the score is known at {rule.point!r}, and it looks at {latest}"
    holds(is_known, promise)
    source = inspect.getsource(type(rule).computed)
    holds("seen.key(" not in source, "computed asks for no key")


def keeps_its_state(rule: ReplayRule) -> None:
    """All state is in the arrays of ``begin``: two decodings at a time do not mix."""
    setting = frames_of(rule)
    policy = DecoderPolicy((NEVER, NEVER), rule)
    alone = decode_setting(setting, policy, seed=1)
    first = SettingDecoding(setting, policy, seed=1)
    second = SettingDecoding(setting, policy, seed=2)
    for _ in range(first.config.n_steps):
        for decoding in (first, second):
            # Copies, as hardware has bytes and no objects.
            of_decision = decoding.state.decisions[TOKEN]
            of_decision.rule = arrays_of_state(of_decision.rule, rule.kind).copy()
            decoding.step()
    is_equal = first.kept.tas.tobytes() == alone.tas.tobytes()
    holds(is_equal, "all state is in the arrays that begin() returns")
    arrived = in_another_process(rule)
    again = decode_setting(setting, DecoderPolicy((NEVER, NEVER), arrived), seed=1)
    holds(again.tas.tobytes() == alone.tas.tobytes(), "a rule that travels scores alike")
    holds(vars(copy.copy(rule)) == vars(rule), "a rule does not change")


def counts_its_work(rule: ReplayRule) -> None:
    """Stated keys, held bytes and operations are no less than those that the rule takes."""
    for shape in (WHOLE, MachineShape(8, 4, 16, 128, Fraction(8))):
        traced = rule.traced(shape)
        stated = rule.work(shape)
        promise = (
            f"work() counts {stated.key_elements} key elements, {traced.key_elements} are read"
        )
        holds(stated.key_elements >= traced.key_elements, promise)
        holds(stated.held_bytes > 0 or not traced.held_bits, "work() counts the bytes of its state")
        if traced.output_elements:
            bytes_read = stated.scoring_bytes
            holds(bytes_read > 0, "work() counts the held output that the score reads")
        operations = traced.score_operations + traced.computed_operations
        enough = stated.vector_ops >= LEAST_SHARE * (operations - SCALARS)
        promise = f"work() counts {stated.vector_ops} operations, {operations} are done; say in"
        holds(enough or rule.cheaper, f"{promise} `cheaper` why hardware needs fewer")
    distances = traced_key_distances(rule, PER_FRAME)
    if distances:
        promise = f"key_distance gives the oldest key that is read, {max(distances)} tokens ago"
        holds(rule.key_distance(PER_FRAME) == max(distances), promise)


PER_FRAME = 16
SCALARS = 8
"""Operations that work on one number a row, which kinds need not count."""


def works(rule: ReplayRule) -> None:
    """Shares of cores are at least the whole work; at its own width the rule stays as it is."""
    total_work = rule.work(WHOLE)
    for cores in range(1, 10):
        work_of_core = rule.work(replace(WHOLE, of=cores))
        for total, of_core in zip(total_work, work_of_core, strict=True):
            holds(0 <= of_core <= total <= cores * of_core, "cores share the work")
    holds(rule.at_width(96, 96) == rule, "at its own width it stays as it is")


# The first check follows what the rule does: what cannot be followed is told by its name.
RULE_CHECKS = (
    looks_at_nothing_later,
    only_looks,
    decodes_anything,
    decides_alike,
    caps_ages,
    keeps_its_state,
    counts_its_work,
    works,
    has_fields,
)
