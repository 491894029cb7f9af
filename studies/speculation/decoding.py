"""Speculation: the tokens of the frame before are proposed, and several are judged in one pass.

Semantics. The token at a place is proposed to be the one at the same place one frame before. From
the second frame on, a pass has m rows: the first is fed the newest token, each later one the
proposal that the row before it judges. A machine takes all rows through each layer together, so
that a weight is fetched once for m rows, and through the head, as each row's logits judge a
proposal.

* **Acceptance.** The rule of speculative sampling (Leviathan, Kalman and Matias 2023, arXiv
  2211.17192) for a proposal x that is certain: x is accepted with its chance p(x) under the model,
  else a token is drawn from p without x, renormalised. The same is done here by drawing y from p as
  always: y = x has the chance p(x), and a y that is not x is drawn from what is left. So the first
  row whose draw is not its proposal yields that draw, and the rows behind it are *refused*, as
  they were fed a token that is not there. Under greedy choice y is the likeliest token. A pass
  yields one token at least, and m at most: there is no further token of its own behind the last
  proposal, which would take one more row.
* **Distribution.** A draw uses noise of its step's own, and a refused row uses none. Hence, for any
  seed, the tokens are those of decoding without speculation.
* **Guidance.** Both rows of a pair are fed the same proposals; tokens are drawn from their mixed
  logits, so that a pair accepts as one.
* **Replay and caches.** A row replays at its place by what is held there, as ever; no other row of
  the pass touches that. What refused rows did is undone: their keys and values are overwritten,
  their MLP outputs are not held, and what the rule of replay and the attention policy keep for
  themselves goes back to where it was. A machine holds outputs of a pass beside those of the frame
  before (m places instead of one), until it knows which rows stay.
* **Frames.** A pass ends with its frame. In the first frame there is nothing to propose, and given
  tokens need no proposal: there a pass is one row.

Here rows are decoded one after the other: a row depends on none behind it, so that the result is
that of a pass at once, to the bit that of :func:`~carsim.decoder.group.decode_group`. One pair is
decoded at a time, as each accepts in its own time.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.group import Decoded, Decoding, RowGroup
from carsim.decoder.structures import Array, State
from studies.speculation.passes import Passes, rows_of_pass


@dataclass(frozen=True, eq=False)
class Speculated:
    """Result of speculative decoding.

    Attributes:
        decoded: What stays, as :func:`~carsim.decoder.group.decode_group` has it.
        passes: The passes.
        replay: Decisions of all rows of all passes in their order, those of refused rows among
            them, bool[sum of rows, L, 2].
    """

    decoded: Decoded
    passes: Passes
    replay: NDArray[np.bool_]


def speculate(group: RowGroup, most: int, advance: Callable[[int], None]) -> Speculated:
    """Decode a guidance pair, several proposals a pass.

    Args:
        group: One pair.
        most: m, rows of a pass at most; 1 is decoding without speculation.
        advance: Called after each pass with its tokens times the rows of the pair.

    Raises:
        ValueError: More than one pair, or no row.
    """
    if len(group.prompts) != 2 or most < 1:
        raise ValueError(f"{len(group.prompts)} rows, {most} a pass: give one pair, and 1 or more")
    config, decoding = group.config, Decoding(group)
    found: list[tuple[int, int, int]] = []
    decisions: list[NDArray[np.bool_]] = []
    step, fed = 0, None
    while step < config.n_steps:
        free = step >= group.given_steps
        rows = rows_of_pass(step, config.tokens_per_frame, most) if free else 1
        back: Callable[[], None] | None = None
        emitted = 0
        for at in range(step, step + rows):
            logits = decoding.feed(fed)
            decisions.append(decoding.replay[at].copy())
            if back is None:
                token = decoding.settle(at, logits)
                emitted += 1
            if at + 1 < step + rows:
                fed = decoding.tokens[at - config.tokens_per_frame]  # what this row judged
                if back is None and not np.array_equal(token, fed):
                    back = _way_back(decoding.state, config.tokens_per_frame, step + rows - 1)
        if back is not None:
            back()
        found.append((step, rows, emitted))
        step += emitted
        fed = decoding.tokens[step - 1]
        advance(2 * emitted)
    first, rows_of_each, emitted_by_each = np.array(found, np.int64).T
    passes = Passes(first, rows_of_each, emitted_by_each)
    return Speculated(decoding.decoded, passes, np.array(decisions))


def _way_back(state: State, tokens_per_frame: int, last: int) -> Callable[[], None]:
    """Remember what rows up to step ``last``, of the frame under way, may change of a state.

    Keys and values behind the newest slot are never read; they are kept where the frame ends, as
    a policy may tidy the cache there.

    Returns:
        What puts the state back.
    """
    places = slice(state.step % tokens_per_frame, last % tokens_per_frame + 1)
    ends = (last + 1) % tokens_per_frame == 0
    kept: dict[str, Any] = {
        "step": state.step,
        "attention": deepcopy(state.attention),
        "rule": deepcopy(state.rule),
        "kept": state.kept.copy(),
        "age": state.age.copy(),
        **({"k": state.k.copy(), "v": state.v.copy()} if ends else {}),
    }
    return partial(_put_back, state, kept, places, state.held[:, :, places].copy())


def _put_back(state: State, kept: dict[str, Any], places: slice, held: Array) -> None:
    for name, value in kept.items():
        setattr(state, name, value)
    state.held[:, :, places] = held
