"""The contract of an attention policy, held to a tiny decoder."""

import inspect

import numpy as np

from carsim.base.errors import InputError
from carsim.decisions.attention import AttentionPolicy, CacheAt, Dense
from carsim.decoder.structures import DecoderPolicy
from carsim.testing.decoder import (
    SETTINGS,
    DecodedLog,
    Setting,
    decode_rows,
    decode_setting,
    make_config,
)
from carsim.testing.forwards import FORWARD_CHECKS
from carsim.testing.promise import has_fields, holds

PAIRS = SETTINGS[3]


def decode(policy: AttentionPolicy, rows: slice | list[int] = slice(None)) -> DecodedLog:
    """A decoding under the policy, with replay at tau 0."""
    return decode_rows(make_config(), DecoderPolicy((0.0, 0.0), attention=policy), rows).kept


def decode_in(setting: Setting, policy: AttentionPolicy, row: int | None = None) -> DecodedLog:
    """A decoding of a setting under the policy, of all rows or of one, with replay at tau 0."""
    rows = slice(None) if row is None else [row]
    return decode_setting(setting, DecoderPolicy((0.0, 0.0), attention=policy), rows)


def is_trivially_dense(policy: AttentionPolicy) -> None:
    """Under ``trivial()``, decoding is dense to the bit."""
    dense = decode(Dense())
    trivial = decode(type(policy).trivial())
    is_equal = dense.residual.tobytes() == trivial.residual.tobytes()
    holds(is_equal, "trivial() gives dense attention to the bit")


def reads_what_it_says(policy: AttentionPolicy) -> None:
    """Reads stay within the context and are those that the machine is told of, of any prompt."""
    for setting in SETTINGS:
        try:
            log = decode_in(setting, policy)
        except InputError as error:
            if "square" in str(error):  # a policy may ask for frames of its shape
                continue
            raise AssertionError(f"{setting.words}: {error}") from error
        try:
            _reads_are_stated(policy, setting, log)
        except AssertionError as error:
            raise AssertionError(f"{setting.words}: {error}") from None


def _reads_are_stated(policy: AttentionPolicy, setting: Setting, log: DecodedLog) -> None:
    """Check that a decoding has read what the policy states of its reads.

    Args:
        policy: The policy.
        setting: Prompts (of B rows) and frames.
        log: What was recorded in S steps.
    """
    per_frame = setting.tokens_per_frame
    n_steps = len(log.replay)
    prompt = np.broadcast_to(np.array(setting.prompts), (n_steps, len(setting.prompts)))
    context = np.arange(n_steps)[:, None] + prompt + 1  # [S, B]
    tokens = log.tokens  # [S, L, KV, B]
    runs = log.runs  # [S, L, KV, B]
    stated = policy.reads_at(CacheAt(context=context, prompt=prompt, tokens_per_frame=per_frame))
    holds(log.newest, "the newest token is read")
    holds((tokens >= 1) & (tokens <= context[:, None, None]), "1 to all of the context is read")
    holds((runs >= 1) & (runs <= tokens), "runs are 1 to as many as keys")
    for name, read, stated_read in (("tokens", tokens, stated.tokens), ("runs", runs, stated.runs)):
        holds(stated_read.dtype.kind in "iu", f"reads_at().{name} is whole numbers")
        of_all_heads = stated_read[:, None, None]
        if policy.records:
            holds(read <= of_all_heads, f"reads_at().{name} is the most that select reads")
        else:
            holds(read == of_all_heads, f"reads_at().{name} is what select reads")
    if policy.heads_alike:
        holds(tokens == tokens[:, :, :1], "all heads read alike, as heads_alike says")
        holds(runs == runs[:, :, :1], "all heads read alike, as heads_alike says")
    upper = policy.reads(context).tokens
    holds(tokens <= upper[:, None, None], "reads() is at least what is read")
    full = policy.full_tokens(context, per_frame)
    holds((full >= 0) & (full <= context), "full_tokens is at most all tokens")
    held_tokens = policy.held(context) + policy.keys_kept(context, per_frame)
    holds(held_tokens <= context, "no more is held than there is")
    if policy.reads_aligned(per_frame):
        holds(log.aligned[per_frame:], "the aligned key is read, as reads_aligned says")
    holds(np.isfinite(log.tas[per_frame:]), "a rule of replay scores in any case")


def decides_by_row(policy: AttentionPolicy) -> None:
    """A row decides alone."""
    together = decode_in(PAIRS, policy)
    for row in range(0, len(PAIRS.prompts), 2):
        alone = decode_in(PAIRS, policy, row)
        holds(
            alone.replay[..., 0] == together.replay[..., row], "a row replays alone as in a batch"
        )
        holds(alone.tokens[..., 0] == together.tokens[..., row], "a row reads alone as in a batch")
        near = np.isclose(alone.residual[:, :, 0], together.residual[:, :, row], atol=1e-12)
        holds(near, "a row computes alone as in a batch")


def names_arguments_as_the_contract(policy: AttentionPolicy) -> None:
    """Methods take as many arguments as those that they replace."""
    for name in ("append", "select", "end_of_frame", "attended", "reads", "reads_at", "held"):
        parameters = inspect.signature(getattr(type(policy), name)).parameters
        of_contract = inspect.signature(getattr(AttentionPolicy, name)).parameters
        names = ", ".join(list(of_contract)[1:])  # without self
        holds(len(parameters) == len(of_contract), f"{name} takes {names}")


ATTENTION_CHECKS = (
    *FORWARD_CHECKS,
    is_trivially_dense,
    reads_what_it_says,
    decides_by_row,
    names_arguments_as_the_contract,
    has_fields,
)
