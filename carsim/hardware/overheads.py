"""Time that matrix products do not show: launches, host, sampling; stated, or fitted to a board."""

from typing import ClassVar, Literal, NamedTuple

from pydantic import Field, model_validator

from carsim.base.section import FieldError, GrownSection
from carsim.base.sizes import ClockMhz, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from carsim.base.text import number, span
from carsim.hardware.kernels import KernelTime, check_kernels

Control = Literal["bare_metal", "hls_host", "firmware", "npu_runtime", "gpu_stream", "gpu_graph"]
"""Starter of the kernels of a step. ``bare_metal``: the step is one program on the device.
``hls_host``: the host starts each HLS kernel through a driver, such as XRT. ``firmware``: a
processor on the card walks a list of commands. ``npu_runtime``: a vendor's runtime on the host.
``gpu_stream``: the host launches each kernel. ``gpu_graph``: the host launches recorded graphs."""

BARE_TIME = "time without runtime overhead"
"""Label of a time in which memories, ports and arrays are simulated, and no runtime is charged."""


NEAR_BITS = 0.1
"""Relative difference up to which bits per weight count as one precision. One quantiser differs by
less between models: Q4_K_M takes 4.83 bits in LLaMA-3-70B and 4.93 in LLaMA-3-8B."""


class Transfer(NamedTuple):
    """Differences between a design and the models that were measured, a line each.

    Attributes:
        precision: Bits of weights or activations that were not measured; empty if there are none.
        family: Family of models that was not measured; empty if it was.
    """

    precision: str = ""
    family: str = ""

    @property
    def kind(self) -> str:
        """``precision``, ``family``, ``both``, or empty.

        >>> Transfer(precision="4 bits").kind, Transfer().kind
        ('precision', '')
        """
        if self.precision and self.family:
            return "both"
        if self.precision:
            return "precision"
        return "family" if self.family else ""


def same_precision(
    weight_bits: float,
    other_weight_bits: float,
    activation_bits: float,
    other_activation_bits: float,
) -> bool:
    """Return whether two models count as of one precision.

    Args:
        weight_bits: Bits per weight of one model, scales included.
        other_weight_bits: Bits per weight of the other model.
        activation_bits: Bits of an activation of the one.
        other_activation_bits: Bits of an activation of the other.
    """
    few, many = sorted((weight_bits, other_weight_bits))
    return many <= (1 + NEAR_BITS) * few and activation_bits == other_activation_bits


class CalibrationRecord(GrownSection):
    """Provenance of overheads that ``carsim calibrate`` fitted, and what they are bound to."""

    later: ClassVar[frozenset[str]] = frozenset(
        {"log_sd", "activation_bits", "families", "machines"}
    )

    board: str = Field(description="name of the board that was measured")
    fabric_clock_mhz: ClockMhz = Field(description="clock while it was measured")
    weight_bits: tuple[PositiveFloat, ...] = Field(
        min_length=1, description="bits per weight that were measured, scales included"
    )
    activation_bits: tuple[PositiveFloat, ...] = Field(
        (), description="bits of the activations; as many as weight_bits, in their order"
    )
    families: tuple[str, ...] = Field(
        (), description="families of models that were measured: head, MLP, norms and attention"
    )
    machines: tuple[str, ...] = Field(
        (), description="cores and arrays of the machines that were measured"
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
    log_sd: NonNegativeFloat | None = Field(
        None,
        description="standard deviation of the logarithm of measured over calibrated time, of "
        "points left out of the fit; it gives the interval of the expected time",
    )

    def problem(self, board: str, clock_mhz: float) -> tuple[str, str] | None:
        """Field and text of the first thing that is not what was measured; None if nothing."""
        if board != self.board:
            return "board", f"{self.board} was measured, and the design has {board}"
        if clock_mhz != self.fabric_clock_mhz:
            measured_mhz = number(self.fabric_clock_mhz)
            text = f"{measured_mhz} was measured, and the design has {number(clock_mhz)}"
            return "fabric_clock_mhz", text
        return None

    def transfer(self, weight_bits: float, activation_bits: float, family: str) -> Transfer:
        """Differences between a model and the measured ones, which widen the expected interval.

        Args:
            weight_bits: Bits per weight, scales included.
            activation_bits: Bits of an activation.
            family: Family of the model (:attr:`carsim.workload.model.Model.family`).
        """
        # Records of earlier versions state neither activations nor families: they widen nothing.
        activations = self.activation_bits or (activation_bits,) * len(self.weight_bits)
        pairs = list(zip(self.weight_bits, activations, strict=True))
        is_measured = any(
            same_precision(bits, weight_bits, of_activations, activation_bits)
            for bits, of_activations in pairs
        )
        precision = family_line = ""
        if not is_measured:
            measured = ", ".join(_precision_text(*pair) for pair in pairs)
            precision = f"{_precision_text(weight_bits, activation_bits)} (measured: {measured})"
        if self.families and family not in self.families:
            family_line = f"{family} (measured: {'; '.join(self.families)})"
        return Transfer(precision, family_line)

    def machine_line(self, machine: str) -> str | None:
        """One line where the machine is none of those that were measured; None if it is one.

        Records of earlier versions name no machine.

        Args:
            machine: Cores and arrays of the design (:attr:`carsim.hardware.machine.Machine.text`).
        """
        if not self.machines or machine in self.machines:
            return None
        measured = " and ".join(self.machines)
        is_of = f"the calibration is of another machine: measured were {measured}"
        return f"{is_of}, and the design has {machine}; calibrate again"

    def outside(self, batch: int, layers: int, contexts: tuple[int, int]) -> str | None:
        """One line where a result leaves the measured range; None inside.

        Args:
            batch: Sequences of the batch.
            layers: Layers of the model.
            contexts: Fewest and most tokens that a step attends to.
        """
        beyond = []
        for name, measured, of_result in (
            ("contexts", self.contexts, contexts),
            ("batch", self.batches, (batch, batch)),
            ("layers", self.layers, (layers, layers)),
        ):
            if of_result[0] < measured[0] or of_result[1] > measured[1]:
                beyond.append(f"{name} {_ends(of_result)} (measured: {_ends(measured)})")
        return f"the calibration is extrapolated: {', '.join(beyond)}" if beyond else None

    @model_validator(mode="after")
    def _precisions_are_pairs(self) -> "CalibrationRecord":
        """Refuse other numbers of activation bits than of weight bits."""
        if self.activation_bits and len(self.activation_bits) != len(self.weight_bits):
            problem = f"{len(self.activation_bits)} values for {len(self.weight_bits)} weight_bits"
            raise FieldError("activation_bits", problem, "give one for each of weight_bits")
        return self


def _precision_text(weight_bits: float, activation_bits: float) -> str:
    """Bits as the field writes them.

    >>> _precision_text(4.9, 16.0)
    'W4.9A16'
    """
    return f"W{weight_bits:.3g}A{activation_bits:.3g}"


def _ends(interval: tuple[int, int]) -> str:
    """Both ends of an interval in words; one number where they are equal."""
    low, high = interval
    return span(number(low), number(high), " to ")


class Overheads(GrownSection):
    """Time that products do not show. Zero only where a source says so; no default is measured."""

    later: ClassVar[frozenset[str]] = frozenset(
        {"layer_us", "control", "calibration", "bandwidth_share", "descriptor_cycles", "kernels"}
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
        "behind nothing; the MLP's share of the layer's products (3 of 7 if it is gated) is saved "
        "where no sequence computes it; not charged while the prompt is read",
    )
    step_us: NonNegativeFloat = Field(
        0.0, description="host, sampling and embedding look-up of one token step of the batch"
    )
    bandwidth_share: float = Field(
        1.0,
        ge=0.01,
        le=100,
        description="share of what memories and ports sustain that the kernels of a runtime reach; "
        "above 1 if the board is faster than modelled, at most up to the peak of its memory",
    )
    kernels: tuple[KernelTime, ...] = Field(
        (),
        description="measured times of blocks by rows; where a block has one, it takes the place "
        "of what its memories, ports and arrays would take",
    )
    control: Control | None = Field(
        None, description="what starts the kernels of a step; expected times are from such systems"
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
        fields = ("kernel_cycles", "descriptor_cycles", "layer_us", "step_us", "kernels")
        charged = [field for field in fields if getattr(self, field)]
        if self.bandwidth_share != 1:
            charged.append("bandwidth_share")
        return tuple(charged)

    @property
    def label(self) -> str:
        """The kind of time that the simulation of such a machine gives.

        >>> Overheads().label, Overheads(step_us=1.0).label
        ('time without runtime overhead', 'time with the overheads of the design')
        """
        if self.calibration is not None:
            on = self.calibration.runtime or "runtime not named"
            return f"time with calibrated overheads ({self.calibration.board}, {on})"
        return "time with the overheads of the design" if self.stated else BARE_TIME

    @model_validator(mode="after")
    def _kernels_are_a_table(self) -> "Overheads":
        """Refuse times of kernels that are no table, or beside launches that they include."""
        check_kernels(self.kernels)
        if self.kernels and self.layer_us:
            problem = f"{self.layer_us:g} counts twice: the times of kernels include launches"
            raise FieldError("layer_us", problem, "leave out layer_us or kernels")
        return self

    @model_validator(mode="after")
    def _nothing_counts_twice(self) -> "Overheads":
        """Refuse overheads that the calibration includes."""
        for field in ("kernel_cycles", "descriptor_cycles"):
            if self.calibration is not None and getattr(self, field):
                problem = f"{getattr(self, field)} counts twice: the calibration includes it"
                raise FieldError(field, problem, f"leave out {field} or the calibration")
        return self
