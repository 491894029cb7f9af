"""Fit: whether a design fits its board, and by how much it misses.

Model: three kinds of rows have to fit.

* Resources of the technology, such as DSP slices or area, against those of the board.
* Contents of each external memory against its usable bytes.
* Buffers of one core against their least contents:

  - Weight and KV buffer: two tiles, so that one fills while the other is read.
  - Activation buffer: the widest activations of one token of every sequence that the core executes,
    since one pass over the weights serves all of them. These are ceil(B / C) sequences if sequences
    are dealt to cores, or all B sequences and a share of the columns if matrices are split.
  - Activation buffer, if the head is a classifier over a vocabulary: its input, two blocks of
    logits as the array makes them, and the best logits of every sequence, each with its token. The
    logits of the whole vocabulary are never held.
  - KV buffer, if the head is a depth transformer: its keys and values of one position, which never
    leave the chip. The body's attention is over by then.

The board must have room. It is not promised that place and route succeeds. Warnings are: what the
technology warns of (a clock beyond what is plausible), and a batch larger than the Index Register.

Simplifications: prefill works in blocks that fit the activation buffer. Scores are held for one
attention head at a time. A schedule that packs sequences finds no more room in a core than
ceil(B / C).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple

from carsim.base.text import count, number
from carsim.base.units import KIB
from carsim.cost.capacity import MemoryUse, capacity
from carsim.decisions.attention.base import Ints
from carsim.decisions.replay import FASTCAR, ReplayRule
from carsim.design import Design
from carsim.hardware.machine import Machine
from carsim.hardware.technology.base import Count, FitRow, Resources, amount
from carsim.hardware.technology.price import Price
from carsim.workload.geometry import Video
from carsim.workload.head import CANDIDATES
from carsim.workload.model import DepthTransformer, LinearHead, Model
from carsim.workload.precision import Precision, WeightPrecision, WeightsByRole
from carsim.workload.tiled import query_bytes
from carsim.workload.workload import TokenReuse

__all__ = ["FitReport", "FitRow", "activation_bytes_per_token", "check_fit", "head_kv_bytes"]

CANDIDATE_BYTES = 8
"""Bytes of a logit that is kept: 32 bits, and 32 bits for its token."""


@dataclass(frozen=True)
class FitReport:
    """The rows of a fit, with the resources and memory contents behind them.

    Attributes:
        design: The design.
        rows: One for each resource, memory and buffer.
        resources: Resources of the design, by component.
        memories: Contents of each external memory.
    """

    design: Design
    rows: tuple[FitRow, ...]
    resources: Resources
    memories: tuple[MemoryUse, ...] = ()

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings, one line each, which do not make a misfit."""
        policy = self.design.policy
        slots = self.design.machine.drs.index_register_bits
        warnings = [*self.design.board.technology.warnings(self.design, self.resources)]
        batch = policy.batch * policy.tokens_per_step
        if batch > slots:
            unit = "sequences" if policy.tokens_per_step == 1 else "tokens"
            groups = f"{-(-batch // slots)} groups, as the Index Register holds {slots}"
            warnings.append(f"DRS: {batch} {unit} are scheduled in {groups}")
        warnings += _rounded_roles(self.design)
        return tuple(warnings)

    @cached_property
    def counts(self) -> Mapping[str, Count]:
        """(used, available) of each resource of the technology, by its name."""
        return self.design.board.technology.counts(self.design.board, self.resources)

    @cached_property
    def intervals(self) -> Mapping[str, tuple[float, float]]:
        """Ends of resources that are known within an interval, by name."""
        return self.design.board.technology.intervals(self.design)

    @cached_property
    def prices(self) -> tuple[Price, ...]:
        """US dollars by part; empty where no price is known."""
        return tuple(self.design.board.technology.prices(self.design))

    @property
    def fits(self) -> bool:
        """Every row is satisfied."""
        return all(row.ok for row in self.rows)

    @cached_property
    def misfits(self) -> tuple[str, ...]:
        """One line for each row that is not satisfied, saying how much is missing."""
        return tuple(row.misfit for row in self.rows if not row.ok)

    @property
    def cures(self) -> tuple[str, ...]:
        """Cures of the misfits, each once; if a memory is too small, the precision that fits."""
        cures = [row.cure for row in self.rows if not row.ok]
        if any(use.free_bytes < 0 for use in self.memories):
            cures.insert(0, _narrower(self.design.model, self.memories))
        return tuple(dict.fromkeys(cures))


NARROWER: tuple[WeightPrecision, ...] = (
    WeightPrecision(bits=16),
    WeightPrecision(bits=8),
    WeightPrecision(bits=4, group=128, scale_bits=16),
)
"""Usual precisions of weights, the widest first."""


def _narrower(model: Model, memories: Iterable[MemoryUse]) -> str:
    """The widest precision of :data:`NARROWER` in which a model fits its memories, as a cure.

    Keys and values take no more bits than weights do. Roles lose a precision of their own.
    """
    for weights in NARROWER:
        if weights.bits_per_element >= model.mean_stored_bits:
            continue
        texts = [f"model.weights={_flow(weights)}"]
        fields: dict[str, Any] = {"weights": weights}
        if model.weights_by_role != WeightsByRole():
            texts.append("model.weights_by_role={}")
            fields["weights_by_role"] = WeightsByRole()
        if model.weights_by_layer:
            texts.append("model.weights_by_layer=[]")
            fields["weights_by_layer"] = ()
        kv_bits = max(8, weights.bits)
        if model.kv.bits > kv_bits:
            fields["kv"] = Precision(bits=kv_bits)
            texts.append(f"model.kv={_flow(fields['kv'])}")
        narrower = model.model_copy(update=fields)
        if all(_holds(use, model, narrower=narrower) for use in memories):
            options = " ".join(f"--set '{text}'" for text in texts)
            return f"store weights in {weights.bits:g} bits, the widest that fit: {options}"
    return "take a larger board or a smaller model: weights of 4 bits do not fit either"


def _holds(use: MemoryUse, model: Model, *, narrower: Model) -> bool:
    """A memory has room for its contents if the model is stored in a narrower precision."""
    kv_share = narrower.kv.bits_per_element / model.kv.bits_per_element
    weight_bytes = {
        "weights": narrower.body_bytes,
        "head": narrower.head_bytes,
        "embedding": narrower.embedding_bytes,
    }
    needed = 0
    for content in use.contents:
        nbytes = weight_bytes.get(content.content, content.nbytes)
        if content.content == "KV cache":
            nbytes = ceil(content.nbytes * kv_share)
        needed += nbytes
    return needed <= use.usable_bytes


def _flow(precision: Precision) -> str:
    """A precision in one line of YAML, without what is 0 or absent."""
    fields = precision.model_dump(exclude_defaults=True)
    return "{" + ", ".join(f"{key}: {value:g}" for key, value in fields.items()) + "}"


def _rounded_roles(design: Design) -> Iterator[str]:
    """A warning for each role with a precision of its own that is wider than the array's."""
    array = design.machine.array
    model = design.model
    for role in model.weights_of_roles:
        if role == "head" and not design.machine.include_head:
            continue
        of_groups = [by_role.of(role) for by_role in model.layer_groups]
        bits = [precision.bits for precision in of_groups if precision is not None]
        if max(bits, default=0) > array.weight_bits:
            yield (
                f"{role} of {number(max(bits))} bits is rounded to the {array.weight_bits} "
                f"of the array ({array.arithmetic})"
            )


def check_fit(
    design: Design,
    video: Video,
    rule: ReplayRule | None = FASTCAR,
    kv_held: Ints | None = None,
    *,
    reuse: TokenReuse | None = None,
) -> FitReport:
    """Check a design against its board.

    Args:
        design: The design.
        video: Frames, tokens per frame and prompt, which set the longest context.
        rule: Rule of replay, which may hold data of its own; None where nothing ever replays.
        kv_held: Tokens that the cache of each layer holds, if recorded: see :func:`capacity`.
        reuse: What tokens of forwards reuse; None: whole rows decide.
    """
    resources = resource_fit(design)
    memories = capacity(
        design,
        video,
        rule=rule,
        kv_held=kv_held,
        reuse=reuse,
    )
    buffers = [row for _, row in buffer_rows(design, video)]
    rows = (*resources.rows, *memory_rows(memories), *buffers)
    return replace(resources, rows=rows, memories=memories)


def resource_fit(design: Design) -> FitReport:
    """Check the resources of the technology alone, without memories and buffers."""
    technology = design.board.technology
    resources = technology.resources(design)
    rows = tuple(technology.rows(design.board, resources))
    return FitReport(design, rows, resources=resources)


class BufferContents(NamedTuple):
    """Bytes that a buffer of one core must hold at once, such as a set of activations.

    Attributes:
        nbytes: Bytes of all sequences that the core works on at once.
        sequences: Number of these sequences; 0 if the bytes do not depend on them.
    """

    nbytes: int
    sequences: int


def widest_activations(
    model: Model, machine: Machine, batch: int, max_context: int
) -> BufferContents:
    """The widest set of activations that are alive at once in one core while a step is decoded.

    Residual and block input stay while a block runs. Beside them are alive

    * in attention: Q, K, V, one head's scores and the output;
    * in the MLP: its inner layer (gate and up, or up alone);
    * in a depth transformer: the fused Q, K and V, or the MLP's inner layer, or a code's logits,
      which wait for guidance mixing.

    If matrices are split, a core keeps its own columns of what it computes, and a whole copy of
    what it multiplies, of every sequence.

    Args:
        model: The model.
        machine: The machine.
        batch: Sequences of a step.
        max_context: Longest context in tokens.
    """
    head = model.head

    def alive(elements: int, *, split: bool) -> BufferContents:
        """BufferContents of all sequences of a core, from elements per sequence."""
        sequences = machine.sequences_per_core(batch, split=split)
        return BufferContents(sequences * model.activations.bytes_of(elements), sequences)

    scores = model.body.longest_context(max_context)
    attention = alive(_attention(model, machine) + scores, split=machine.splits_attention)
    mlp = alive(_mlp(model, machine), split=machine.splits_mlp)
    sets = [attention, mlp]
    if machine.include_head and isinstance(head, DepthTransformer):
        inner = max(3 * head.hidden_size, head.ffn_size, head.codebook_size)
        columns = -(-inner // machine.sharing(split=machine.splits_mlp))
        sets.append(alive(2 * head.hidden_size + columns, split=machine.splits_mlp))
    return max(sets)


def activation_bytes_per_token(model: Model, machine: Machine) -> int:
    """Bytes of the widest set of activations of one token in one core during prefill.

    Prefill takes blocks of tokens through a whole layer. A block has as many tokens as the
    activation buffer holds at these bytes. A gated MLP of hidden width d and inner width f holds
    2 d + 2 f elements: 59 KiB of 16 bit for LLaMA-2-7B. Scores, one head at a time, are left out.
    """
    elements = max(_attention(model, machine), _mlp(model, machine))
    return int(model.activations.bytes_of(elements))


def head_kv_bytes(model: Model) -> int:
    """Bytes of the head's keys and values of one position of one sequence; 0 for a classifier.

    They are kept in the precision of the KV cache.
    """
    head = model.head
    if not isinstance(head, DepthTransformer):
        return 0
    return int(head.n_layers * model.kv.bytes_of(2 * head.hidden_size * head.n_codes))


def _attention(model: Model, machine: Machine) -> int:
    """Elements of one token in attention, scores left out."""
    body = model.body
    cores = machine.sharing(split=machine.splits_attention)
    qkv = -(-(body.q_size + body.kv_elements) // cores)
    residual_and_output = 2 * -(-body.hidden_size // cores)
    return body.hidden_size + qkv + residual_and_output


def _mlp(model: Model, machine: Machine) -> int:
    """Elements of one token in the MLP: while its inner layer is computed, or while it is read.

    Experts come one after the other, and their outputs are summed up meanwhile.
    """
    body = model.body
    cores = machine.sharing(split=machine.splits_mlp)
    residual = -(-body.hidden_size // cores)
    width = body.ffn_size
    sum_of_experts = 0
    if body.experts is not None:
        width = max(width, body.experts.shared_ffn_size, body.dense_ffn_size)
        sum_of_experts = residual
    inner = -(-width // cores)
    # If cores share the columns, each gathers the whole inner layer before the next product.
    gathered = width if cores > 1 else 0
    while_computed = body.hidden_size + body.inner_matrices * inner
    while_read = gathered + residual
    return residual + sum_of_experts + max(while_computed, while_read)


def memory_rows(memories: Iterable[MemoryUse]) -> Iterator[FitRow]:
    """Rows of the memories that hold something."""
    cure = "shrink policy.batch, or place some of it in another memory"
    for use in memories:
        if use.contents:
            detail = " + ".join(
                f"{content.content} {amount(content.nbytes, 'B')}" for content in use.contents
            )
            yield FitRow(
                f"memory {use.memory}",
                needed=use.used_bytes,
                available=use.usable_bytes,
                unit="B",
                detail=detail,
                cure=cure,
            )


def least_buffers_kib(design: Design, video: Video) -> dict[str, int]:
    """Least sizes of the buffers of one core, powers of two, by field of ``machine``."""
    sizes: dict[str, int] = {}
    for key, row in buffer_rows(design, video):
        needed_kib = -(-int(row.needed) // KIB)
        power_of_two = 1 << (needed_kib - 1).bit_length()
        sizes[key] = max(power_of_two, sizes.get(key, 0))
    return sizes


def buffer_rows(design: Design, video: Video) -> list[tuple[str, FitRow]]:
    """Rows of the buffers of one core, each with the key of the machine that enlarges it."""
    machine = design.machine
    model = design.model
    if model.network is not None:
        return _sample_buffer_rows(design)
    rows_at_once = design.policy.batch * design.policy.tokens_per_step
    sequences = machine.sequences_per_core(rows_at_once, split=machine.splits_mlp)
    widest = widest_activations(model, machine, rows_at_once, max_context=video.max_context)
    two_tiles = BufferContents(2 * machine.tile_bytes, sequences=0)
    rows = [
        _buffer_row(machine, "weight", "two tiles in the weight buffer", contents=two_tiles),
        _buffer_row(machine, "kv", "two tiles in the KV buffer", contents=two_tiles),
        _buffer_row(
            machine, "activation", "widest activations in the activation buffer", contents=widest
        ),
    ]
    if machine.include_head and isinstance(model.head, LinearHead):
        # The head's input, and two blocks of logits, which stream past the best of them.
        elements = model.body.hidden_size + 2 * machine.array.cols
        best_bytes = CANDIDATES * CANDIDATE_BYTES
        nbytes = sequences * (int(model.activations.bytes_of(elements)) + best_bytes)
        name = f"head input and best {CANDIDATES} logits in the activation buffer"
        head = BufferContents(nbytes, sequences)
        rows.append(_buffer_row(machine, "activation", name, contents=head))
    if machine.include_head and head_kv_bytes(model):
        cores = machine.sharing(split=machine.splits_mlp)
        nbytes = -(-sequences * head_kv_bytes(model) // cores)
        name = "the head's keys and values in the KV buffer"
        head = BufferContents(nbytes, sequences)
        rows.append(_buffer_row(machine, "kv", name, contents=head))
    return rows


def _sample_buffer_rows(design: Design) -> list[tuple[str, FitRow]]:
    """Rows of the buffers where all tokens of a sample pass a network together.

    The activation buffer holds the query tile of one head, and inputs and outputs of the widest
    product for as many tokens as the array takes at once.
    """
    machine = design.machine
    model = design.model
    body = model.body
    two_tiles = BufferContents(2 * machine.tile_bytes, sequences=0)
    queries = BufferContents(max(1, machine.query_tile) * query_bytes(model), sequences=0)
    widest = body.hidden_size + body.inner_matrices * body.ffn_size
    token = BufferContents(int(model.activations.bytes_of(widest)), sequences=0)
    return [
        _buffer_row(machine, "weight", "two tiles in the weight buffer", contents=two_tiles),
        _buffer_row(machine, "kv", "two tiles in the KV buffer", contents=two_tiles),
        _buffer_row(
            machine, "activation", "query tile of a head in the activation buffer", contents=queries
        ),
        _buffer_row(
            machine, "activation", "a token of the MLP in the activation buffer", contents=token
        ),
    ]


def _buffer_row(
    machine: Machine, buffer: str, name: str, *, contents: BufferContents
) -> tuple[str, FitRow]:
    """The field of ``machine`` that enlarges a buffer, and the row of the buffer.

    Args:
        machine: The machine.
        buffer: ``weight``, ``kv`` or ``activation``.
        name: Name of the row.
        contents: Contents that the buffer must hold; without sequences, the row does not name them.
    """
    field = f"{buffer}_buffer_kib"
    detail = f"{count(contents.sequences, 'sequence')} per core" if contents.sequences else ""
    row = FitRow(
        name,
        needed=contents.nbytes,
        available=getattr(machine, f"{buffer}_buffer_bytes"),
        unit="B",
        detail=detail,
        cure=f"enlarge machine.{field}",
    )
    return field, row
