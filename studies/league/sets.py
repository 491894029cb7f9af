"""Decode a clip in sets: the tokens of a set are predicted together, and see earlier sets only.

Model. Two rows stand at each place of a later frame, the first frame is decoded token by token:

* the row that **predicts** token s. It is fed token s - 1 where that belongs to an earlier set,
  else a guess, the token at the place of s - 1 one frame before. It attends to the keys of all
  earlier sets, and to itself;
* once the set is known, the row that is **fed** token s - 1 for its key and value, as in decoding
  token by token (:mod:`studies.whole`).

A model that was trained for sets needs one row a token: it is fed the tokens of the set before and
predicts those of the next (PAR, arXiv 2412.15119). The proxy model was not, and so its loss in sets
is no measure of such models; what replay adds to it is what is asked. Both kinds of rows replay by
the same rule, each by what it holds itself; decisions are those of the rows that predict. With sets
of one token both are the same row. Simplifications: those of :mod:`studies.whole`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.layers import rms_norm
from carsim.decoder.structures import Array, rotary_table
from studies.rules import Threshold
from studies.whole import Bools, Decoded, Decoder, Memory, Rule, Seen, outputs


@dataclass(frozen=True)
class OfSets:
    """Decisions for whole sets: by the mean of their scores.

    Attributes:
        rule: Threshold and score.
        size: Tokens of a set.
    """

    rule: Threshold
    size: int

    def decide(self, seen: Seen, memory: Memory) -> tuple[Bools, Array | None]:
        """As :class:`~studies.whole.Rule` has it; the scores are the tokens' own."""
        scores = self.rule.measure.score(seen)
        mean = scores.reshape(-1, self.size).mean(axis=1)
        return np.repeat(mean.astype(np.float64) > self.rule.tau_of(seen.layer), self.size), scores


class SetDecoder(Decoder):
    """A model made ready for one shape of video, decoded in sets."""

    def decode_in_sets(
        self, rule: Rule | None, prompt: bytes, codes: NDArray[np.int64], size: int
    ) -> Decoded:
        """Decode one row.

        Args:
            rule: What replays; None replays nothing.
            prompt: At least one byte.
            codes: int64[S], the tokens of the clip.
            size: Tokens of a set, a divisor of those of a frame.

        Returns:
            Of the rows that predict; of frame 0, as it is decoded token by token.
        """
        config, weights, shape = self.config, self._weights, self.config.geometry
        n, first, dtype = config.tokens_per_frame, len(prompt), np.dtype(config.dtype)
        held, u_held, u_before = np.zeros((3, shape.n_layers, n, shape.hidden_size), dtype)

        def look(seen: Seen) -> None:
            if seen.frame == 1:  # what frame 0 has left
                held[seen.layer], u_held[seen.layer] = seen.held, seen.u_held
                u_before[seen.layer] = seen.u_before

        fed_rows = self.decode(rule, prompt, codes, look=look)
        hidden, score, replay = (
            each.copy() for each in (fed_rows.hidden, fed_rows.score, fed_rows.replay)
        )
        positions = first + config.n_steps
        cos, sin = rotary_table(max(positions, 2), shape.head_dim, config.rope_theta, dtype)
        fed = guessed(codes, n, size)
        memory: Memory = {}
        for frame in range(1, config.n_frames):
            steps = slice(frame * n, (frame + 1) * n)
            begin, end = first + steps.start, first + steps.stop
            x = self._arrays["embed_visual"][fed[steps]]
            turn = cos[begin:end, None], sin[begin:end, None]
            for layer in range(shape.n_layers):
                before = x
                q, q_rotated, own_k, own_v = self.project(x, layer, turn)
                keys, values = fed_rows.keys[layer, :end], fed_rows.values[layer, :end]
                x = x + attend(q_rotated, (own_k, own_v), keys, values, size) @ weights.w_out[layer]
                u = rms_norm(x, weights.ln_mlp[layer], config.rms_eps)
                seen = Seen(
                    frame,
                    layer,
                    fed[steps],
                    fed[steps.start - n : steps.start],
                    q,
                    q_rotated,
                    keys[begin - n :],
                    before,
                    x,
                    u,
                    u_before[layer],
                    u_held[layer],
                    held[layer],
                    weights,
                )
                out = outputs(seen, rule, memory, replay[steps, layer], score[steps, layer])
                u_before[layer] = u
                x = x + out
            hidden[steps] = rms_norm(x, weights.ln_final, config.rms_eps)
        return Decoded(hidden, score, replay, fed_rows.keys, fed_rows.values)


def guessed(codes: NDArray[np.int64], tokens_per_frame: int, size: int) -> NDArray[np.int64]:
    """Codes that the predicting rows are fed, int64[S]; -1 is the begin symbol.

    >>> guessed(np.arange(8), 4, 2).tolist()
    [-1, 0, 1, 2, 3, 0, 5, 2]
    """
    steps = np.arange(len(codes))
    unknown = (steps % size > 0) & (steps >= tokens_per_frame)
    source = steps - 1 - tokens_per_frame * unknown
    return np.where(source < 0, -1, codes[source])


def attend(q: Array, own: tuple[Array, Array], keys: Array, values: Array, size: int) -> Array:
    """Attention of the rows of a frame to earlier sets and themselves.

    Args:
        q: Rotated queries of the frame, [N, H, hd].
        own: Their own rotated keys and values, [N, KV, hd] each.
        keys: Rotated keys of all tokens up to the frame's last, [P, KV, hd].
        values: Their values.
        size: Tokens of a set.

    Returns:
        [N, H * hd].
    """
    n, n_heads, head_dim = q.shape
    group, earlier = n_heads // keys.shape[1], len(keys) - n
    k, v, own_k, own_v = (
        np.ascontiguousarray(each.swapaxes(0, 1)).repeat(group, axis=0)
        for each in (keys, values, *own)
    )  # [H, P, hd], [H, N, hd]
    q = np.ascontiguousarray(q.swapaxes(0, 1)) * q.dtype.type(head_dim**-0.5)
    out = np.empty_like(q)
    to_itself = np.einsum("hnd,hnd->hn", q, own_k)[..., None]  # [H, N, 1]
    for begin in range(0, n, size):
        rows, seen = slice(begin, begin + size), earlier + begin
        scores = np.concatenate([q[:, rows] @ k[:, :seen].swapaxes(1, 2), to_itself[:, rows]], -1)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        weighted = scores[..., :-1] @ v[:, :seen] + scores[..., -1:] * own_v[:, rows]
        out[:, rows] = weighted / scores.sum(axis=-1, keepdims=True)
    attended: Array = out.swapaxes(0, 1).reshape(n, -1)
    return attended
