"""What a tab shows: a design, changes to it, what it decodes, and designs pinned beside it.

The state is written in the address of the page, as the arguments of ``carsim run``, and as the
YAML of the design that it means. Changes are dotted paths with values in YAML.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from carsim.base.errors import InputError
from carsim.base.yaml_file import shown
from carsim.workload.workload import Workload, workload_of

OPTIONS = ("trace", "workload")
"""Keys of an address that say what is decoded."""

VIEW = ("store", "step", "layer", "over", "by", "metric")
"""Keys that say what is looked at: a stored sweep, the layer-step of the timeline, a sweep."""

KEYS = ("design", *OPTIONS, *VIEW)


@dataclass(frozen=True)
class TabState:
    """A design point with what is shown around it.

    Attributes:
        design: Name of a shipped design, or a design file.
        changes: Fields that differ from it: dotted path -> value as YAML.
        trace: Name or file of the trace that is decoded; empty where decisions are assumed.
        workload: Another workload as ``carsim run`` takes it; empty for what the model makes.
        pins: States to compare with, as queries of their own.
        store: Folder of a sweep whose points are shown; empty for none.
        step: Step of the timeline; empty for the middle of the video.
        layer: Layer of the timeline; empty for that whose sequences differ most.
        over: Key of the field that is swept in place; empty for none.
        by: Key of a second field, whose values have a line each; empty for none.
        metric: Figure that is drawn over these fields; empty for the headline.
    """

    design: str
    changes: Mapping[str, str] = field(default_factory=dict)
    trace: str = ""
    workload: str = ""
    pins: tuple[str, ...] = ()
    store: str = ""
    step: str = ""
    layer: str = ""
    over: str = ""
    by: str = ""
    metric: str = ""

    @classmethod
    def of_query(cls, query: str, design: str = "") -> "TabState":
        """The state of an address.

        Args:
            query: Its part from the question mark on.
            design: Where the address names none.

        Raises:
            InputError: A key or value that no address of the studio has.

        >>> TabState.of_query("?machine.cores=6&trace=vilau_8f", "kv260").overrides
        ['machine.cores=6']
        """
        options: dict[str, Any] = {"design": design}
        changes = {}
        pins = []
        for key, value in parse_qsl(query.removeprefix("?"), keep_blank_values=True):
            if key in KEYS:
                options[key] = value
            elif "." in key:
                changes[key] = value
            elif key == "pin":
                pins.append(value)
            else:
                problem = f"{shown(key)} is no part of a design"
                raise InputError("address", problem, "take the link of a studio")
        state = cls(options.pop("design"), changes, pins=tuple(pins))
        return replace(state, **options)

    @property
    def query(self) -> str:
        """The address of this state, from the question mark on."""
        pairs = [(key, getattr(self, key)) for key in KEYS]
        pairs += self.changes.items()
        pairs += [("pin", pin) for pin in self.pins]
        with_value = [(key, value) for key, value in pairs if value]
        return "?" + urlencode(with_value, safe="/:[]{},")

    @property
    def point(self) -> "TabState":
        """The design point alone: two states of equal points have equal results."""
        return TabState(self.design, self.changes, **{key: getattr(self, key) for key in OPTIONS})

    @property
    def work(self) -> Workload | None:
        """The workload; None for a trace, and for what the model makes.

        Raises:
            InputError: No such workload.
        """
        return workload_of(self.workload) if self.workload else None

    @property
    def overrides(self) -> list[str]:
        """The changes as the command line takes them: path=value."""
        return [f"{path}={value}" for path, value in self.changes.items()]

    @property
    def title(self) -> str:
        """The design and its changes, short enough for a label."""
        texts = [self.design]
        texts += [f"{key} {getattr(self, key)}" for key in OPTIONS if getattr(self, key)]
        for path, value in self.changes.items():
            field = path.rpartition(".")[2]
            texts.append(f"{field} {value}")
        return ", ".join(texts)

    def with_change(self, path: str, value: str | None) -> "TabState":
        """The state with a field set, or as the design has it if the value is None."""
        changes = {key: text for key, text in self.changes.items() if key != path}
        if value is not None:
            changes[path] = value  # the last change stands last
        return replace(self, changes=changes)

    def with_option(self, key: str, text: str) -> "TabState":
        """The state with another option or view: a trace, a workload, a sweep, a layer."""
        changes: dict[str, Any] = {}
        if key in OPTIONS and text:
            # A trace says what is decoded, and so does a workload: each replaces the other.
            changes = dict.fromkeys(OPTIONS, "")
        changes[key] = text
        return replace(self, **changes)
