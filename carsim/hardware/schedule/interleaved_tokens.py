"""Interleaved schedule: every core keeps its own tokens, which are dealt like cards.

Where ranges of tokens decide in a forward, core c of C keeps tokens c, c + C, c + 2 C, ... of the
batch. Under a static schedule a core keeps neighbouring tokens instead, so that a latent frame in
which all tokens compute fills a few cores. Interleaving costs nothing: it is another order of
addresses. It is the fairest baseline of a central schedule.

Sequences of a decoder, and rows of which all tokens decide together, are interleaved in any case:
there this schedule is the static one.
"""

from typing import ClassVar

from carsim.hardware.schedule.static import Static


class InterleavedTokens(Static):
    """Static, with tokens of forwards dealt one by one over the cores."""

    kind = "interleaved_tokens"
    label = "interleaved tokens"
    compared = False
    interleaves_tokens: ClassVar[bool] = True
