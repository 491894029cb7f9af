"""Attention policies, each in one file.

A kind of attention is added by a file with a subclass of :class:`AttentionPolicy`, whose docstring
has the contract, and a line in :data:`ATTENTION`. From outside of the package, an instance can be
given wherever a policy is expected; for files that name its kind, register it there. A policy that
reads the newest half of the context, and says so to the machine:

>>> from typing import ClassVar, Literal
>>> import numpy as np
>>> class NewestHalf(AttentionPolicy):
...     label: ClassVar[str] = "newest half"
...     kind: Literal["newest_half"] = "newest_half"
...
...     def select(self, state, layer, query):
...         place = np.arange(query.end) - query.padding[:, None]  # [B, end]
...         context = query.end - query.padding[:, None]  # [B, 1]
...         return Selection(mask=(2 * place + 1 >= context)[:, None])
...
...     def reads(self, context):
...         return KvReads(context - context // 2, np.ones_like(context))
...
...     def reads_aligned(self, distance):
...         return False
>>> NewestHalf().reads(np.array([5, 6])).tokens.tolist()
[3, 3]

``tests/toy_policies.py`` has two more, one of which depends on data.
"""

from typing import TYPE_CHECKING

from carsim.base.registry import Registry, any_kind, field_name
from carsim.decisions.attention.ann import Ann as Ann
from carsim.decisions.attention.ann_ca import AnnCa as AnnCa
from carsim.decisions.attention.attention_answers import CHECKS
from carsim.decisions.attention.base import AttentionPolicy as AttentionPolicy
from carsim.decisions.attention.base import CacheAt as CacheAt
from carsim.decisions.attention.base import CacheShape as CacheShape
from carsim.decisions.attention.base import ForwardShape as ForwardShape
from carsim.decisions.attention.base import KvReads as KvReads
from carsim.decisions.attention.base import Query as Query
from carsim.decisions.attention.base import Selection as Selection
from carsim.decisions.attention.base import SelectionUnit as SelectionUnit
from carsim.decisions.attention.base import SideWork as SideWork
from carsim.decisions.attention.dense import Dense as Dense
from carsim.decisions.attention.draft import Draft as Draft
from carsim.decisions.attention.evicting import Evicting as Evicting
from carsim.decisions.attention.evicting import Kept as Kept
from carsim.decisions.attention.stack import Stack as Stack
from carsim.decisions.attention.streaming import Streaming as Streaming
from carsim.decisions.attention.temp_cache import TempCache as TempCache

ATTENTION: Registry[type[AttentionPolicy]] = Registry(
    "attention policy", field_name, (Dense, Streaming, TempCache, AnnCa, Draft, Ann, Stack), CHECKS
)
"""Kinds of attention by the name that YAML and traces give them."""


PLAIN = Dense()
"""Attention of the baseline, which every other kind is compared with."""

if TYPE_CHECKING:
    Attention = AttentionPolicy
else:
    Attention = any_kind(AttentionPolicy, ATTENTION)
"""A field that holds one policy of any kind."""
