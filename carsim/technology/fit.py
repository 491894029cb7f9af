"""Does a design fit its board, and if not, by how much does it miss.

Model: logic and on-chip RAM against the device, contents of each external memory against its usable
bytes, and the buffers of one core against what must be in them at once:

* weight and KV buffer: two tiles, so that one fills while the other is read;
* activation buffer: the widest activations of one token of every sequence that the core executes,
  since one pass over the weights serves all of them (ceil(B / C) sequences where they are dealt
  out, all B and a share of the columns where matrices are split);
* KV buffer, if the head is a depth transformer: its keys and values of one position, which never
  leave the chip; the body's attention is over by then.

The device must have room; that place and route finds it is not promised. A clock above what the
occupancy makes plausible, and a batch larger than the Index Register, are warnings.

Simplifications: prefill works in blocks that fit the activation buffer; scores of one attention
head at a time; a schedule that packs sequences finds no more room in a core than ceil(B / C).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from carsim.design import DepthTransformer, Design, Machine, Model
from carsim.technology.capacity import MemoryUse, capacity
from carsim.technology.resources import Resources, plausible_clock_mhz, resources, shares
from carsim.units import GB, KIB
from carsim.workload.geometry import Video


@dataclass(frozen=True, slots=True)
class FitRow:
    """One thing that has to fit.

    Attributes:
        what: What it is.
        needed: How much of it the design takes, in ``unit``.
        available: How much there is.
        unit: ``DSP``, ``BRAM36``, ``URAM``, ``LUT`` or ``B`` for bytes.
        detail: What it is made up of; may be empty.
    """

    what: str
    needed: int
    available: int
    unit: str
    detail: str = ""

    @property
    def ok(self) -> bool:
        """There is enough."""
        return self.needed <= self.available

    @property
    def misfit(self) -> str:
        """One line that says how much is missing."""
        needed, available, missing = (
            _amount(n, self.unit)
            for n in (self.needed, self.available, self.needed - self.available)
        )
        made_of = f" ({self.detail})" if self.detail else ""
        return f"{self.what}: {needed} needed{made_of}, {available} available, {missing} missing"


@dataclass(frozen=True)
class FitReport:
    """All rows, the resources and memory contents behind them, and what to be wary of."""

    rows: tuple[FitRow, ...]
    warnings: tuple[str, ...]
    resources: Resources
    memories: tuple[MemoryUse, ...]

    @property
    def fits(self) -> bool:
        """Every row is satisfied; warnings do not count."""
        return all(row.ok for row in self.rows)

    @cached_property
    def misfits(self) -> tuple[str, ...]:
        """One line for each row that is not satisfied, saying how much is missing."""
        return tuple(row.misfit for row in self.rows if not row.ok)


def check_fit(design: Design, video: Video) -> FitReport:
    """Check a design against its board.

    Args:
        design: The design.
        video: Frames, tokens per frame and prompt, which set the longest context.
    """
    used, memories = resources(design), capacity(design, video)
    rows = (*_device_rows(design, used), *_memory_rows(memories), *_buffer_rows(design, video))
    return FitReport(rows, tuple(_warnings(design, used)), used, memories)


def sequences_per_core(machine: Machine, batch: int, *, split: bool) -> int:
    """Sequences whose activations one core holds at once.

    Where matrices are split over the cores, every core works on all of them; otherwise they are
    dealt out evenly.
    """
    return batch if split else -(-batch // machine.cores)


def widest_activations(
    model: Model, machine: Machine, batch: int, max_context: int
) -> tuple[int, int]:
    """Bytes of the widest set of activations that are alive at once in one core, and its sequences.

    Residual and block input stay while a block runs. In the MLP, gate and up are alive together; in
    attention, Q, K, V, one head's scores and the output; in the head, the fused Q, K and V, or the
    MLP's inner layer, or the logits, which wait for guidance mixing. Where matrices are split, a
    core keeps its own columns of what it computes and a whole copy of what it multiplies, of every
    sequence.
    """
    body = model.body
    d, ff = body.hidden_size, body.ffn_size

    def attention(share: int) -> int:
        residual = -(-d // share)
        qkv = -(-(body.q_size + 2 * body.kv_size) // share)
        return residual + d + qkv + max_context + residual

    def mlp(share: int) -> int:
        residual = -(-d // share)
        return residual + max(d + 2 * -(-ff // share), (ff if share > 1 else 0) + residual)

    def head(share: int) -> int:
        if not machine.include_head:
            return 0
        if not isinstance(model.head, DepthTransformer):
            return d + -(-model.head.vocabulary // share)
        inner = max(3 * model.head.hidden_size, model.head.ffn_size, model.head.codebook_size)
        return 2 * model.head.hidden_size + -(-inner // share)

    def of_all(elements: Callable[[int], int], *, split: bool) -> tuple[int, int]:
        sequences = sequences_per_core(machine, batch, split=split)
        one = model.activations.bytes_of(elements(machine.cores if split else 1))
        return sequences * one, sequences

    return max(
        of_all(attention, split=machine.splits_attention),
        of_all(mlp, split=machine.splits_mlp),
        of_all(head, split=machine.splits_mlp),
    )


def head_kv_bytes(model: Model) -> int:
    """Bytes of the head's keys and values of one position of one sequence; 0 for a classifier.

    They are kept in the precision of the KV cache.
    """
    head = model.head
    if not isinstance(head, DepthTransformer):
        return 0
    return head.n_layers * model.kv.bytes_of(2 * head.hidden_size * head.n_codes)


def _device_rows(design: Design, used: Resources) -> list[FitRow]:
    board = design.board
    return [
        FitRow("DSP slices", used.dsp, board.dsp, "DSP", _largest(used, "dsp")),
        FitRow("block RAM", used.bram36, board.bram36, "BRAM36", _largest(used, "bram36")),
        FitRow("UltraRAM", used.uram, board.uram, "URAM", _largest(used, "uram")),
        FitRow("LUTs", used.lut, board.lut, "LUT", _largest(used, "lut")),
    ]


def _memory_rows(memories: Iterable[MemoryUse]) -> list[FitRow]:
    return [
        FitRow(
            f"memory {use.memory}",
            use.used_bytes,
            use.usable_bytes,
            "B",
            " + ".join(f"{c.content} {_amount(c.nbytes, 'B')}" for c in use.contents),
        )
        for use in memories
        if use.contents
    ]


def _buffer_rows(design: Design, video: Video) -> list[FitRow]:
    machine, model = design.machine, design.model
    batch = design.policy.batch
    widest_bytes, widest_sequences = widest_activations(model, machine, batch, video.max_context)
    rows = [
        FitRow(
            "two tiles in the weight buffer",
            2 * machine.tile_bytes,
            machine.weight_buffer_bytes,
            "B",
        ),
        FitRow("two tiles in the KV buffer", 2 * machine.tile_bytes, machine.kv_buffer_bytes, "B"),
        FitRow(
            "widest activations in the activation buffer",
            widest_bytes,
            machine.activation_buffer_bytes,
            "B",
            _per_core(widest_sequences),
        ),
    ]
    if machine.include_head and head_kv_bytes(model):
        sequences = sequences_per_core(machine, batch, split=machine.splits_mlp)
        share = machine.cores if machine.splits_mlp else 1
        rows.append(
            FitRow(
                "the head's keys and values in the KV buffer",
                -(-sequences * head_kv_bytes(model) // share),
                machine.kv_buffer_bytes,
                "B",
                _per_core(sequences),
            )
        )
    return rows


def _per_core(sequences: int) -> str:
    return f"{sequences} sequence{'s' if sequences > 1 else ''} per core"


def _warnings(design: Design, used: Resources) -> Iterable[str]:
    board, batch = design.board, design.policy.batch
    plausible = plausible_clock_mhz(used, board)
    if board.fabric_clock_mhz > plausible:
        fullest, share = max(shares(used, board).items(), key=lambda item: item[1])
        yield (
            f"clock: {board.fabric_clock_mhz:g} MHz is more than the {plausible:g} MHz that "
            f"published designs of this occupancy reach ({fullest} {share:.0%})"
        )
    slots = design.machine.drs.index_register_bits
    if batch > slots:
        yield (
            f"DRS: {batch} sequences are scheduled in {-(-batch // slots)} groups, since the Index "
            f"Register holds {slots}"
        )


def _largest(used: Resources, kind: str) -> str:
    name, usage = max(used.by_component.items(), key=lambda item: int(getattr(item[1], kind)))
    count = int(getattr(usage, kind))
    return f"{name} {_amount(count, '')}" if count else ""


def _amount(number: int, unit: str) -> str:
    if unit != "B":
        return f"{number:,} {unit}".rstrip()
    if number >= GB // 100:
        return f"{number / GB:.3f} GB"
    return f"{number / KIB:.1f} KiB"
