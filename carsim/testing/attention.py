"""The contract of an attention policy, held to a tiny decoder."""

import numpy as np

from carsim.decisions.attention import AttentionPolicy, Dense
from carsim.decoder.structures import DecoderPolicy
from carsim.testing.decoder import MASK, DecodedLog, decode_rows, make_config
from carsim.testing.promise import has_fields, holds


def decode(policy: AttentionPolicy, rows: slice | list[int] = slice(None)) -> DecodedLog:
    """A decoding under the policy, with replay at tau 0."""
    return decode_rows(make_config(), DecoderPolicy((0.0, 0.0), attention=policy), rows).kept


def is_trivially_dense(policy: AttentionPolicy) -> None:
    """Under ``trivial()``, decoding is dense to the bit."""
    dense, trivial = decode(Dense()), decode(type(policy).trivial())
    same = dense.residual.tobytes() == trivial.residual.tobytes()
    holds(same, "trivial() gives dense attention to the bit")


def reads_what_it_says(policy: AttentionPolicy) -> None:
    """Reads stay within the context and are those that the machine is told of."""
    kept = decode(policy)
    context = np.arange(len(kept.replay))[:, None] + MASK.sum(axis=1) + 1  # [S, B]
    tokens, runs = kept.tokens, kept.runs  # [S, L, KV, B]
    most = policy.reads(context)
    holds(kept.newest, "the newest token is read")
    holds((tokens >= 1) & (tokens <= context[:, None, None]), "1 to all of the context is read")
    holds((runs >= 1) & (runs <= tokens), "runs are 1 to as many as keys")
    for name, read, told in (("tokens", tokens, most.tokens), ("runs", runs, most.runs)):
        holds(told.dtype.kind in "iu", f"reads().{name} is whole numbers")
        told = told[:, None, None]
        if policy.records:
            holds(read <= told, f"reads().{name} is the most that select reads")
        else:
            holds(read == told, f"reads().{name} is what select reads")
    held = policy.held(context)
    holds(held + policy.keys_kept(context, 3) <= context, "no more is held than there is")
    if policy.reads_aligned(3):
        holds(kept.aligned[3:], "the aligned key is read, as reads_aligned says")
    holds(np.isfinite(kept.tas[3:]), "a rule of replay scores in any case")


def decides_by_row(policy: AttentionPolicy) -> None:
    """A row decides alone."""
    together = decode(policy)
    for row in range(4):
        alone = decode(policy, [row])
        holds(
            alone.replay[..., 0] == together.replay[..., row], "a row replays alone as in a batch"
        )
        holds(alone.tokens[..., 0] == together.tokens[..., row], "a row reads alone as in a batch")
        near = np.isclose(alone.residual[:, :, 0], together.residual[:, :, row], atol=1e-12)
        holds(near, "a row computes alone as in a batch")


ATTENTION_CHECKS = (is_trivially_dense, reads_what_it_says, decides_by_row, has_fields)
