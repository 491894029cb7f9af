"""The idea in a file: a rule, a policy, a function that chooses, or an array of decisions.

A rule decides about the MLP. A file may decide about attention by itself as well: with a second
function, or with a rule or an array for each decision.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from carsim.base.answers import checked, file_of
from carsim.base.errors import InputError
from carsim.base.plugins import load_plugin
from carsim.base.registry import Registry, outside_kinds
from carsim.decisions.attention import AttentionPolicy
from carsim.decisions.attention.base import Array
from carsim.decisions.replay import RULES, ReplayRule, Seen
from carsim.decisions.replay.tracked import Tracked
from carsim.program.program import TOKEN

FUNCTION = "replays"
"""Name of a function in a file: ``replays(seen)`` gives bool[B], the rows that replay."""

FUNCTION_CURE = (
    "return one bool for each row, as in seen.age < 2; "
    "docs/reference/plugins.md lists what seen has"
)
"""What to do about a function that fails, or gives something else."""

DECISIONS = "DECISIONS"
"""Name in a file of an array, bool[steps, layers, rows]; or of a mapping from names of decisions to
rules or arrays."""

ATTENTION_DECISION = "attention"
"""The decision about attention, beside the one about the MLP."""

ATTENTION_FUNCTION = f"{FUNCTION}_{ATTENTION_DECISION}"
"""Name of a function in a file that decides about attention."""


class FunctionRule(ReplayRule):
    """Replays where a function of a file, such as ``replays(seen)``, says so."""

    label: ClassVar[str] = "own function"

    kind: Literal["own_function"] = "own_function"
    module: str
    function: str = FUNCTION

    def score(self, state: None, layer: int, place: int, seen: Seen) -> Array:
        """1 where the row replays, else 0, [B].

        Raises:
            PluginError: The function raises an exception, or gives no bool for each row.
        """
        chosen = _checked_function(self.module, self.function)(seen)
        scores: Array = np.where(chosen, 1.0, 0.0)
        return scores


@cache
def _checked_function(module: str, name: str) -> Callable[[Seen], Any]:
    """A function of a file, whose answers are checked; kept, as every layer of a step asks it."""
    function = getattr(sys.modules[module], name)
    file = file_of(function).removeprefix(" of ")
    return checked(function, file, check=_one_bool_per_row, cure=FUNCTION_CURE)


def _one_bool_per_row(answer: object, seen: Seen) -> str:
    """Problem of what the function of a file gives; empty if there is none."""
    # A tracked array, as a rule is traced with, has a type and a shape but no plain numbers.
    chosen = answer if isinstance(answer, Tracked) else np.asarray(answer)
    if chosen.dtype == bool and chosen.shape == (seen.n_rows,):
        return ""
    shape = ", ".join(str(length) for length in chosen.shape)
    return f"gives {chosen.dtype}[{shape}], not bool[{seen.n_rows}]: one bool for each row"


@dataclass(frozen=True, eq=False)
class Subject:
    """An idea.

    Attributes:
        file: The file.
        sha256: Of its bytes.
        name: Name of the kind.
        rule: Rule of replay, if it is one; it decides about the MLP.
        policy: Attention policy, if it is one.
        decisions: bool[S, L, B], if it is an array.
        attention_rule: Rule that decides about attention, if the idea has one.
        attention_decisions: bool[S, L, B], if attention has an array of its own.
    """

    file: Path
    sha256: str
    name: str
    rule: ReplayRule | None = None
    policy: AttentionPolicy | None = None
    decisions: NDArray[np.bool_] | None = None
    attention_rule: ReplayRule | None = None
    attention_decisions: NDArray[np.bool_] | None = None

    @property
    def rules(self) -> dict[str, ReplayRule]:
        """Rules by the name of their decision, ``token`` first; empty for other ideas."""
        rules = {TOKEN: self.rule, ATTENTION_DECISION: self.attention_rule}
        return {name: rule for name, rule in rules.items() if rule is not None}

    @property
    def text(self) -> str:
        """The idea as a phrase."""
        kind = self.rule or self.policy
        text = "own decisions" if kind is None else kind.text
        if self.attention_rule is not None:
            text = f"{text}; attention by {self.attention_rule.text}"
        return text

    @property
    def role(self) -> str:
        """Role of the registry that the kind belongs to."""
        return "replay rule" if self.rule is not None else "attention policy"


def subject_of(file: Path, wanted: str | None = None) -> Subject:
    """The idea in a file.

    Args:
        file: The file.
        wanted: Name of the kind, where the file registers several.

    Raises:
        InputError: The file cannot be loaded, or has no idea, or several.
    """
    before = set(outside_kinds())
    sha256 = load_plugin(file.absolute())
    module = f"carsim_plugin_{sha256[:16]}"
    loaded = sys.modules[module]
    if hasattr(loaded, DECISIONS):
        return _of_decisions(file, sha256, getattr(loaded, DECISIONS))
    if hasattr(loaded, FUNCTION):
        if "own_function" not in RULES:
            RULES.register(FunctionRule)
        about_attention = None
        if hasattr(loaded, ATTENTION_FUNCTION):
            about_attention = FunctionRule(module=module, function=ATTENTION_FUNCTION)
        rule = FunctionRule(module=module)
        return Subject(file, sha256, FUNCTION, rule=rule, attention_rule=about_attention)
    kinds = [
        (role, name)
        for role, name in sorted({*outside_kinds()} - before or {*outside_kinds()})
        if role in ("replay rule", "attention policy") and wanted in (None, name)
    ]
    if len(kinds) != 1:
        names = ", ".join(name for _, name in kinds) or "none"
        problem = f"registers {len(kinds)} rules or attention policies ({names})"
        cure = (
            "name one with `kind`"
            if kinds
            else f"register a rule or a policy, or define {FUNCTION}(seen) or {DECISIONS}"
        )
        raise InputError(str(file), problem, cure)
    ((role, name),) = kinds
    kind = Registry.roles[role][name]
    examples = [example for example in getattr(loaded, "EXAMPLES", ()) if type(example) is kind]
    instance = examples[0] if examples else kind.model_validate({})
    if role == "replay rule":
        return Subject(file, sha256, name, rule=instance)
    return Subject(file, sha256, name, policy=instance)


def _of_decisions(file: Path, sha256: str, decisions: Any) -> Subject:
    """The idea of a file that defines :data:`DECISIONS`.

    Args:
        file: The file.
        sha256: Of its bytes.
        decisions: An array, or a mapping.

    Raises:
        InputError: A mapping that has other names, or values of several sorts.
    """
    if not isinstance(decisions, Mapping):
        return Subject(file, sha256, "decisions", decisions=np.asarray(decisions))
    place = f"{file}: {DECISIONS}"
    if decisions.keys() != {TOKEN, ATTENTION_DECISION}:
        problem = f"decides about {', '.join(map(str, decisions)) or 'nothing'}"
        cure = f"give {TOKEN!r}, which decides about the MLP, and {ATTENTION_DECISION!r}"
        raise InputError(place, problem, cure)
    about_mlps = decisions[TOKEN]
    about_attention = decisions[ATTENTION_DECISION]
    are_rules = [isinstance(value, ReplayRule) for value in (about_mlps, about_attention)]
    if all(are_rules):
        name = f"{about_mlps.kind}, {about_attention.kind}"
        return Subject(file, sha256, name, rule=about_mlps, attention_rule=about_attention)
    if any(are_rules):
        raise InputError(place, "holds a rule and an array", "give two rules, or two arrays")
    return Subject(
        file,
        sha256,
        "decisions",
        decisions=np.asarray(about_mlps),
        attention_decisions=np.asarray(about_attention),
    )
