"""Skips: the blocks of a layer that a row leaves out where it replays."""

from typing import TYPE_CHECKING

from carsim.base.registry import Registry, any_kind, field_name
from carsim.program.skips.all_layers import SkipAllLayers
from carsim.program.skips.attention import SkipAttention
from carsim.program.skips.attention_too import SkipAttentionToo
from carsim.program.skips.base import Skip
from carsim.program.skips.by_decision import SkipByDecision
from carsim.program.skips.by_module import SkipByModule
from carsim.program.skips.every_module import SkipEveryModule
from carsim.program.skips.forwards_and_tokens import SkipForwardsAndTokens
from carsim.program.skips.layer import SkipLayer
from carsim.program.skips.mlp import SkipMlp

SKIPS: Registry[type[Skip]] = Registry(
    "skip",
    field_name,
    (
        SkipMlp,
        SkipAttentionToo,
        SkipAttention,
        SkipLayer,
        SkipEveryModule,
        SkipAllLayers,
        SkipByModule,
        SkipByDecision,
        SkipForwardsAndTokens,
    ),
)
"""Every kind by its name in YAML; a kind of the package is added here."""

if TYPE_CHECKING:
    AnySkip = Skip
else:
    AnySkip = any_kind(Skip, SKIPS)
"""A field that holds one skip of any kind."""

__all__ = ["SKIPS", "AnySkip", "Skip", "SkipMlp"]
