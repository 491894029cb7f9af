"""Time that matrix products do not show: launches, host, sampling; stated, or fitted to a board."""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from carsim.base.section import FieldError, GrownSection, Section
from carsim.base.sizes import ClockMhz, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from carsim.base.text import number, span

Control = Literal["bare_metal", "hls_host", "firmware", "npu_runtime", "gpu_stream", "gpu_graph"]
"""Starter of the kernels of a step. ``bare_metal``: the step is one program on the device.
``hls_host``: the host starts each HLS kernel through a driver, such as XRT. ``firmware``: a
processor on the card walks a list of commands. ``npu_runtime``: a vendor's runtime on the host.
``gpu_stream``: the host launches each kernel. ``gpu_graph``: the host launches recorded graphs."""


class CalibrationRecord(Section):
    """Provenance of overheads that ``carsim calibrate`` fitted, and what they are bound to."""

    board: str = Field(description="name of the board that was measured")
    fabric_clock_mhz: ClockMhz = Field(description="clock while it was measured")
    weight_bits: tuple[PositiveFloat, ...] = Field(
        min_length=1, description="bits per weight that were measured, scales included"
    )
    runtime: str = Field("", description="software that ran on the board, with its version")
    contexts: tuple[PositiveInt, PositiveInt] = Field(
        description="fewest and most tokens that a measured step attended to"
    )
    layers: tuple[PositiveInt, PositiveInt] = Field(
        description="fewest and most layers of the models that were measured"
    )
    batches: tuple[PositiveInt, PositiveInt] = Field(
        description="smallest and largest batch that was measured"
    )
    points: PositiveInt = Field(description="measured points")
    error: NonNegativeFloat | None = Field(
        None, description="mean relative error of points left out of the fit; of one: none"
    )

    def problem(self, board: str, clock_mhz: float, weight_bits: float) -> tuple[str, str] | None:
        """Field and text of the first thing that is not what was measured; None if nothing."""
        known = ", ".join(map(number, self.weight_bits))
        measured, clock = number(self.fabric_clock_mhz), number(clock_mhz)
        is_known = any(abs(weight_bits / each - 1) <= 1e-3 for each in self.weight_bits)
        for field, same, was, has in (
            ("board", board == self.board, self.board, board),
            ("fabric_clock_mhz", clock_mhz == self.fabric_clock_mhz, measured, clock),
            ("weight_bits", is_known, known, number(weight_bits)),
        ):
            if not same:
                return field, f"{was} was measured, and the design has {has}"
        return None

    def outside(self, batch: int, layers: int, contexts: tuple[int, int]) -> str | None:
        """One line where a result leaves the measured range; None inside.

        Args:
            batch: Sequences of the batch.
            layers: Layers of the model.
            contexts: Fewest and most tokens that a step attends to.
        """
        beyond = [
            f"{name} {_ends(asked)} (measured: {_ends(known)})"
            for name, known, asked in (
                ("contexts", self.contexts, contexts),
                ("batch", self.batches, (batch, batch)),
                ("layers", self.layers, (layers, layers)),
            )
            if asked[0] < known[0] or asked[1] > known[1]
        ]
        return f"the calibration is extrapolated: {', '.join(beyond)}" if beyond else None


def _ends(of: tuple[int, int]) -> str:
    return span(number(of[0]), number(of[1]), " to ")


class Overheads(GrownSection):
    """Time that products do not show. Zero only where a source says so; no default is measured."""

    later: ClassVar[frozenset[str]] = frozenset(
        {"layer_us", "control", "calibration", "bandwidth_share", "descriptor_cycles"}
    )

    kernel_cycles: NonNegativeInt = Field(
        0, description="launch, descriptor and drain of every matrix product on the array"
    )
    descriptor_cycles: NonNegativeInt = Field(
        0,
        description="cycles per tile in which a DMA waits for its descriptor: 30 to 60 if it "
        "fetches one at a time; 0: they are prefetched, as by AMD's AXI CDMA (PG034)",
    )
    broadcast_cycles: NonNegativeInt = Field(
        0,
        description="registers on the way of broadcast weights, such as those between dies; they "
        "add to the latency of the memory that holds the weights",
    )
    layer_us: NonNegativeFloat = Field(
        0.0,
        le=1e6,
        description="launches and waits of one layer in a token step of the batch, which hide "
        "behind nothing; not charged while the prompt is read",
    )
    step_us: NonNegativeFloat = Field(
        0.0, description="host, sampling and embedding look-up of one token step of the batch"
    )
    bandwidth_share: float = Field(
        1.0,
        ge=0.01,
        le=1,
        description="share of what memories and ports sustain that the kernels of a runtime reach",
    )
    control: Control | None = Field(
        None, description="what starts the kernels of a step; it chooses the interval of latencies"
    )
    calibration: CalibrationRecord | None = Field(
        None,
        description="written by carsim calibrate: what layer_us and bandwidth_share were fitted to",
    )

    def of_step_us(self, n_layers: int) -> float:
        """Microseconds of layers and host in one token step."""
        return self.step_us + self.layer_us * n_layers

    @property
    def stated(self) -> tuple[str, ...]:
        """Fields that charge time for control."""
        charged = tuple(
            each
            for each in ("kernel_cycles", "descriptor_cycles", "layer_us", "step_us")
            if getattr(self, each)
        )
        return (*charged, "bandwidth_share") if self.bandwidth_share < 1 else charged

    @property
    def label(self) -> str:
        """The kind of figure that a latency of such a machine is.

        >>> Overheads().label, Overheads(step_us=1.0).label
        ('hardware bound', 'hardware bound plus the overheads of the design')
        """
        if self.calibration is not None:
            on = self.calibration.runtime or "runtime not named"
            return f"calibrated ({self.calibration.board}, {on})"
        return "hardware bound" + " plus the overheads of the design" * bool(self.stated)

    @model_validator(mode="after")
    def _nothing_counts_twice(self) -> "Overheads":
        for field in ("kernel_cycles", "descriptor_cycles"):
            if self.calibration is not None and getattr(self, field):
                problem = f"{getattr(self, field)} counts twice: the calibration includes it"
                raise FieldError(field, problem, f"leave out {field} or the calibration")
        return self
