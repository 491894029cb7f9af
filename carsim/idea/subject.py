"""The idea in a file: a rule, a policy, a function that chooses, or an array of decisions."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from carsim.base.answers import checked, file_of
from carsim.base.errors import InputError
from carsim.base.plugins import load_plugin
from carsim.base.registry import Registry, outside_kinds
from carsim.decisions.attention import AttentionPolicy
from carsim.decisions.attention.base import Array
from carsim.decisions.replay import RULES, ReplayRule, Seen

FUNCTION = "replays"
"""Name of a function in a file: ``replays(seen)`` gives bool[B], the rows that replay."""

FUNCTION_CURE = (
    "return one bool for each row, as in seen.age < 2; "
    "docs/reference/plugins.md lists what seen has"
)
"""What to do about a function that fails, or gives something else."""

DECISIONS = "DECISIONS"
"""Name of an array in a file: bool[steps, layers, rows]."""


class FunctionRule(ReplayRule):
    """Replays where the function ``replays(seen)`` of a file says so."""

    label: ClassVar[str] = "own function"

    kind: Literal["own_function"] = "own_function"
    module: str

    def score(self, state: None, layer: int, place: int, seen: Seen) -> Array:
        """1 where the row replays, else 0, [B].

        Raises:
            PluginError: The function raises an exception, or gives no bool for each row.
        """
        function = getattr(sys.modules[self.module], FUNCTION)
        file = file_of(function).removeprefix(" of ")
        chosen = checked(function, file, check=_one_bool_per_row, cure=FUNCTION_CURE)(seen)
        scores: Array = np.where(chosen, 1.0, 0.0)
        return scores


def _one_bool_per_row(answer: object, seen: Seen) -> str:
    """Problem of what the function of a file gives; empty if there is none."""
    chosen = np.asarray(answer)
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
        rule: Rule of replay, if it is one.
        policy: Attention policy, if it is one.
        decisions: bool[S, L, B], if it is an array.
    """

    file: Path
    sha256: str
    name: str
    rule: ReplayRule | None = None
    policy: AttentionPolicy | None = None
    decisions: NDArray[np.bool_] | None = None

    @property
    def text(self) -> str:
        """The idea as a phrase."""
        kind = self.rule or self.policy
        return "own decisions" if kind is None else kind.text

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
        array = np.asarray(getattr(loaded, DECISIONS))
        return Subject(file, sha256, "decisions", decisions=array)
    if hasattr(loaded, FUNCTION):
        if "own_function" not in RULES:
            RULES.register(FunctionRule)
        return Subject(file, sha256, FUNCTION, rule=FunctionRule(module=module))
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
