"""The policy: what is skipped, what is attended to, who computes what."""

from math import inf
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, WithJsonSchema, field_serializer, field_validator

from carsim.base.registry import OneOf
from carsim.base.section import FieldError, GrownSection, Section
from carsim.base.sizes import MOST
from carsim.base.yaml_file import shown
from carsim.decisions.attention import Attention as Attention
from carsim.decisions.attention import Dense, Streaming
from carsim.decisions.replay import Scope
from carsim.hardware.schedule import BASELINE, DEFAULT, SCHEDULES
from carsim.program.skips import AnySkip, SkipMlp

Schedule = Annotated[str, OneOf(SCHEDULES)]
_FINITE: dict[str, Any] = {"type": "number", "minimum": -MOST, "maximum": MOST}
_OR_INF = WithJsonSchema({"anyOf": [_FINITE, {"const": "inf"}]})
Threshold = Annotated[float, Field(ge=-MOST), _OR_INF]
"""Of a score; ``inf`` never replays."""

Batch = Annotated[int, Field(gt=0, le=4096)]
SetSize = Annotated[int, Field(gt=0, le=1024)]


class Compared(Section):
    """A row of a comparison."""

    attention: Attention = Field(Dense(), description="attention of the row")
    schedule: Schedule = Field(BASELINE.kind, description="schedule of the row")
    replay: bool = Field(True, description="whether MLPs replay in it")


class Policy(GrownSection):
    """How a batch is decoded."""

    later: ClassVar[frozenset[str]] = frozenset({"tokens_per_step", "skip"})

    batch: Batch = Field(description="sequences in lockstep; guidance pairs count as two")
    tau: Literal["captured"] | Threshold | tuple[Threshold, ...] = Field(
        "captured",
        description="replay threshold: the trace's own, or one (or one per layer) at which its "
        "stored scores are thresholded again (open loop); inf never replays",
    )
    tokens_per_step: SetSize = Field(
        1,
        description="tokens of each sequence that one step decodes together, as models do that "
        "predict sets of tokens; a frame must be a whole number of sets",
    )
    skip: AnySkip = Field(
        SkipMlp(), description="blocks of a layer that a replaying row leaves out"
    )
    schedule: Schedule = Field(DEFAULT.kind, description="who computes what does not replay")
    decision_scope: Scope = Field(
        "row",
        description="who decides together: a row, both rows of a guidance pair, or the batch; a "
        "step replays only where all of them would, so that coarser scopes replay less than the "
        "trace or `replay=` says",
    )
    attention: Attention = Field(
        Dense(),
        description="which cached keys a decoded step reads; the prompt is dense whatever it is",
    )
    sparse_attention: Streaming = Field(
        Streaming(), description="the sparse alternative that a run compares with"
    )
    compare: tuple[Compared, ...] | None = Field(
        None,
        description="rows that a run shows beside the baseline and this policy; what the "
        "registries offer if absent",
    )

    @field_validator("tau", mode="before")
    @classmethod
    def _say_what_tau_may_be(cls, tau: Any) -> Any:
        """One clear line instead of what each of the three alternatives finds wrong."""
        if tau == "captured":
            return tau
        if isinstance(tau, tuple):
            tau = tuple(inf if value == "inf" else value for value in tau)
        elif tau == "inf":
            tau = inf
        for index, value in enumerate(tau if isinstance(tau, tuple) else (tau,)):
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not (-MOST <= value <= MOST or value == inf):
                problem = f"expected a number, got {shown(value)}"
                cure = "write a number, a list of one number per layer, or captured"
                raise FieldError(str(index) if isinstance(tau, tuple) else "", problem, cure)
        return tau

    @field_serializer("tau")
    def _write_inf_as_text(self, tau: Any) -> Any:
        """JSON has no number for it."""
        if isinstance(tau, tuple):
            return tuple("inf" if value == inf else value for value in tau)
        return "inf" if tau == inf else tau
