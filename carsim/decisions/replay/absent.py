"""A rule of replay that made a trace and is not installed where the trace is opened."""

from typing import Any, ClassVar

from pydantic import ConfigDict, model_validator

from carsim.base.yaml_file import shown
from carsim.decisions.replay.base import ReplayRule
from carsim.decisions.replay.shapes import NO_WORK, MachineShape, RuleWork


class AbsentRule(ReplayRule):
    """A rule of which nothing is known but its name and its fields, as the trace has them.

    Its decisions and scores are those of the file. The file is checked as any other: ranges, and
    ``score > tau``. That a decoder really scored so is not verified. Simplification: the machine
    counts no work for it, and takes its score for known at the query; every label says so.
    """

    label: ClassVar[str] = "score of a rule that is not installed"
    known_at = "q"

    model_config = ConfigDict(extra="allow")

    kind: str

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, raw: Any) -> Any:
        return raw

    @property
    def text(self) -> str:
        """The name of the rule, and that nothing is known of it."""
        return f"{shown(self.kind)} (not verified: rule not installed, its work not counted)"

    @property
    def method(self) -> str:
        """Name of decoding with this rule, in tables."""
        return f"replay by {shown(self.kind)}, not verified"

    def work(self, shape: MachineShape) -> RuleWork:
        """None that is known."""
        return NO_WORK
