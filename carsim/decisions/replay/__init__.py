"""Replay of MLP outputs: rules that score, each in one file, and the decisions that follow.

A rule is added by a file with a subclass of :class:`ReplayRule`, whose docstring has the contract,
and a line in :data:`RULES`. From outside of the package, an instance can be given wherever a rule
is expected; for files that name its kind, register it there. ``docs/reference/plugins.md``
has an example.
"""

from typing import TYPE_CHECKING

from carsim.base.registry import Registry, any_kind, field_name
from carsim.decisions.replay.absent import AbsentRule
from carsim.decisions.replay.base import ReplayRule as ReplayRule
from carsim.decisions.replay.base import later as later
from carsim.decisions.replay.decide import FASTCAR as FASTCAR
from carsim.decisions.replay.decide import Pairs as Pairs
from carsim.decisions.replay.decide import Replay as Replay
from carsim.decisions.replay.decide import Scope as Scope
from carsim.decisions.replay.decide import decision_units as decision_units
from carsim.decisions.replay.decide import unanimous as unanimous
from carsim.decisions.replay.input_change import InputChange as InputChange
from carsim.decisions.replay.periodic import Periodic as Periodic
from carsim.decisions.replay.rule_answers import CHECKS
from carsim.decisions.replay.seen import Seen as Seen
from carsim.decisions.replay.shapes import NO_WORK as NO_WORK
from carsim.decisions.replay.shapes import DecoderShape as DecoderShape
from carsim.decisions.replay.shapes import MachineShape as MachineShape
from carsim.decisions.replay.shapes import Point as Point
from carsim.decisions.replay.shapes import RuleWork as RuleWork
from carsim.decisions.replay.tas import Tas as Tas

RULES: Registry[type[ReplayRule]] = Registry(
    "replay rule", field_name, (Tas, InputChange, Periodic), CHECKS
)
"""Rules of replay by the name that YAML and traces give them."""

if TYPE_CHECKING:
    Rule = ReplayRule
    RecordedRule = ReplayRule
else:
    Rule = any_kind(ReplayRule, RULES)
    RecordedRule = any_kind(ReplayRule, RULES, AbsentRule)
"""Fields that hold one rule of any kind; that of a trace may be of a kind that is not installed."""
