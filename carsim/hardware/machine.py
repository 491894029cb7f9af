"""The accelerator: cores, buffers, how weights travel, how work is mapped and dispatched."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from carsim.base.registry import OneOf
from carsim.base.section import FieldError, GrownSection, Section
from carsim.base.sizes import NonNegativeInt, PositiveFloat, PositiveInt
from carsim.base.text import count
from carsim.base.units import KIB
from carsim.decisions.replay import Point
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.overheads import Overheads
from carsim.hardware.schedule import Registers, slots_per_core

WeightLoad = Literal["none", "rows", "full_fold"]
Dataflow = Literal["dot_product", "weight_stationary", "output_stationary", "input_stationary"]
Arithmetic = Literal["int4", "int4x8", "int8", "int16", "fp16"]
"""Widths of the operands: ``int4`` is W4A4, ``int4x8`` W4A8. Wider operands are taken as rounded to
them; of attention's products, K and V are the first operand."""
WeightSharing = Literal["broadcast", "private", "private_per_sequence"]
KvLayout = Literal["separate", "interleaved"]
LoopOrder = Literal["tokens", "weights", "best"]
Mapping = Annotated[str, OneOf(MAPPINGS)]
Cores = Annotated[int, Field(gt=0, le=1024)]

MOST_TILES = 1 << 16
"""Tiles of a buffer: each is followed by itself, so that more take minutes and gigabytes."""


class Array(Section):
    """The multiply-accumulate array of one core; :mod:`carsim.machine.array` says what it takes."""

    rows: PositiveInt = Field(
        description="lanes along the reduction dimension; of an output-stationary array, rows of "
        "the result"
    )
    cols: PositiveInt = Field(
        description="outputs computed side by side; of an input-stationary array, rows of "
        "activations"
    )
    dataflow: Dataflow = Field(
        "dot_product",
        description="cols dot products of rows lanes, or a systolic array and what stays in it",
    )
    weight_load: WeightLoad = Field(
        "none", description="what it costs to bring a tile of weights into the array"
    )
    arithmetic: Arithmetic = Field(
        "int8",
        description="widths of the operands: int4 is W4A4, int4x8 W4A8; wider ones are taken as "
        "rounded",
    )
    pipeline_cycles: NonNegativeInt = Field(
        16,
        description="fill and drain of one matrix product on dot products; those of a systolic "
        "array follow from its size",
    )

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates that the array can start in one cycle."""
        return self.rows * self.cols

    @property
    def weight_bits(self) -> int:
        """Bits of a weight that the array multiplies; wider ones are taken as rounded."""
        return int(self.arithmetic.strip("intfp").partition("x")[0])


class Vector(GrownSection):
    """The vector unit of one core: norms, rotary embedding, softmax, SiLU, residual sums."""

    later: ClassVar[frozenset[str]] = frozenset({"exponentials_per_cycle"})

    lanes: PositiveInt = Field(description="element operations per cycle")
    pipeline_cycles: NonNegativeInt = Field(24, description="fill and drain of a vector operation")
    exponentials_per_cycle: NonNegativeInt = Field(
        0,
        description="scores that a softmax unit of its own takes per cycle where many queries "
        "attend at once (diffusion, depth); 0: the lanes do, at 4 operations a score",
    )


class AttentionUnit(Section):
    """Where attention's own products run if not on the whole array: a narrower unit or a part."""

    rows: PositiveInt = Field(description="at most those of the array")
    cols: PositiveInt = Field(description="at most those of the array")


class Placement(GrownSection):
    """Which memory of the board holds what, by name."""

    later: ClassVar[frozenset[str]] = frozenset({"kv_far"})

    weights: str = Field(description="memory of the weights")
    kv: str = Field(description="memory of keys and values")
    replay: str = Field(description="memory of the replay cache")
    head: str = Field(description="memory of the head's weights")
    kv_far: str | None = Field(
        None,
        description="memory of older keys and values, for attention policies that move them there",
    )


class Machine(GrownSection):
    """A multi-core accelerator as FastCar section 5 describes it, and its design choices."""

    later: ClassVar[frozenset[str]] = frozenset(
        {"kernel_fusion", "kv_layout", "query_tile", "loop_order", "core_gbps"}
    )

    obsolete: ClassVar = {"prefetch": "fetching ahead across phases is bounded, not modelled"}

    cores: Cores = Field(description="cores, all alike")
    array: Array
    vector: Vector
    weight_buffer_kib: PositiveInt = Field(description="per core, at least two of `tile_kib`")
    kv_buffer_kib: PositiveInt = Field(description="per core, at least two of `tile_kib`")
    activation_buffer_kib: PositiveInt = Field(
        description="per core; must be larger if a core has more sequences, or if the batch is "
        "larger and the mapping splits matrices"
    )
    tile_kib: PositiveInt = Field(64, description="unit in which weights and KV enter a buffer")
    weight_sharing: WeightSharing = Field(
        "broadcast",
        description="one fetch feeds all cores, or each core streams the weights of its own work: "
        "once for all its sequences (private) or once for each (private_per_sequence)",
    )
    mapping: Mapping = Field(
        "batch",
        description="a sequence per core; every matrix split by columns over the cores (tensor); "
        "attention and its projections split by heads, all else a sequence per core (heads); or a "
        "sequence per core whose remainder after whole rounds is split (hybrid)",
    )
    decision_at: Point = Field(
        "attention",
        description="when the replay decision of a layer is known; later where the rule of replay "
        "is known later",
    )
    include_head: bool = Field(True, description="run the head; leaving it out is reported")
    exchange_bytes_per_cycle: PositiveInt = Field(
        64, description="core-to-core network that carries activations"
    )
    attention_unit: AttentionUnit | None = Field(
        None, description="part of the array that attention's scores and sums use; all if absent"
    )
    kernel_fusion: bool = Field(
        True,
        description="element operations take the results of a product as they leave the array; if "
        "false, results go through the activation buffer, and element operations begin when the "
        "product is over",
    )
    core_gbps: PositiveFloat | None = Field(
        None,
        description="most bandwidth that a single core takes in, GB/s, where memory and ports have "
        "more: a CPU core, an HBM port of each core, an SM; null: a lone core may take all of it",
    )
    kv_layout: KvLayout = Field(
        "separate",
        description="K and V of a layer in two places, or side by side block by block, so that "
        "runs of keys that a policy gathers are twice as long",
    )
    query_tile: NonNegativeInt = Field(
        0,
        description="queries of one head that stay in a core while keys and values stream past, "
        "where many queries attend at once (diffusion, depth); 0: as many as fit",
    )
    loop_order: LoopOrder = Field(
        "best",
        description="what stays in a core where many tokens pass a layer (diffusion, depth): "
        "tokens while weights stream past, weights while tokens do, or what moves fewer bytes in "
        "each block",
    )
    overheads: Overheads = Overheads()
    drs: Registers = Registers()
    placement: Placement

    @model_validator(mode="after")
    def _attention_unit_is_part_of_the_array(self) -> "Machine":
        """Refuse a unit for attention with more rows or columns than the array."""
        for field, wanted in self.attention_unit or ():
            there = getattr(self.array, field)
            if wanted > there:
                problem = f"{wanted} are more than the {there} of the array"
                raise FieldError(f"attention_unit.{field}", problem, f"give at most {there}")
        return self

    @model_validator(mode="after")
    def _tiles_can_be_followed(self) -> "Machine":
        """Refuse buffers of more tiles than a simulation follows."""
        for field in ("weight_buffer_kib", "kv_buffer_kib"):
            tiles = getattr(self, field) // self.tile_kib
            if tiles > MOST_TILES:
                problem = f"holds {tiles:,} tiles of {self.tile_kib} KiB, {MOST_TILES:,} at most"
                raise FieldError(field, problem, "enlarge 'tile_kib' or shrink the buffer")
        return self

    @property
    def text(self) -> str:
        """Cores and their arrays, as a phrase."""
        array = self.array
        size = f"{array.rows} x {array.cols} MACs ({array.arithmetic})"
        return f"{count(self.cores, 'core')} of {size}"

    @property
    def attention_array(self) -> Array:
        """The array that attention's own products run on."""
        if self.attention_unit is None:
            return self.array
        return self.array.model_copy(update=dict(self.attention_unit))

    @property
    def memories_in_use(self) -> tuple[str, ...]:
        """Names of the memories that hold something, sorted."""
        roles = [role for role, _ in self.placement if self.include_head or role != "head"]
        names = [getattr(self.placement, role) for role in roles]
        return tuple(sorted({name for name in names if name is not None}))

    @property
    def splits_attention(self) -> bool:
        """Attention and its projections are split over the cores, all of which read all rows."""
        return MAPPINGS[self.mapping].splits_attention

    @property
    def splits_mlp(self) -> bool:
        """MLPs, the head and the prompt are split over the cores, all of which read all rows."""
        return MAPPINGS[self.mapping].splits_mlp

    def sharing(self, *, split: bool) -> int:
        """Cores among which a matrix is divided: all where it is split, else one."""
        return self.cores if split else 1

    def sequences_per_core(self, sequences: Any, *, split: bool = False) -> Any:
        """Sequences of the fullest core: all where matrices are split, else an even share."""
        return sequences if split else slots_per_core(sequences, self.cores)

    @property
    def tile_bytes(self) -> int:
        """Bytes of one tile."""
        return self.tile_kib * KIB

    @property
    def weight_buffer_bytes(self) -> int:
        """Bytes of one core's weight buffer."""
        return self.weight_buffer_kib * KIB

    @property
    def kv_buffer_bytes(self) -> int:
        """Bytes of one core's KV buffer."""
        return self.kv_buffer_kib * KIB

    @property
    def activation_buffer_bytes(self) -> int:
        """Bytes of one core's activation buffer."""
        return self.activation_buffer_kib * KIB

    @property
    def bulk(self) -> int:
        """Multipliers, lanes and KiB of buffers of all cores together, to order machines by."""
        buffers_kib = self.weight_buffer_kib + self.kv_buffer_kib + self.activation_buffer_kib
        return self.cores * (self.array.macs_per_cycle + self.vector.lanes + buffers_kib)

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates per cycle of all cores."""
        return self.cores * self.array.macs_per_cycle
