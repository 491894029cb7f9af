"""Does a design fit its board, and if not, by how much does it miss.

Model: resources of the technology against the board, contents of each external memory against its
usable bytes, and the buffers of one core against what must be in them at once:

* weight and KV buffer: two tiles, so that one fills while the other is read;
* activation buffer: the widest activations of one token of every sequence that the core executes,
  since one pass over the weights serves all of them (ceil(B / C) sequences where they are dealt
  out, all B and a share of the columns where matrices are split);
* activation buffer, if the head is a classifier over a vocabulary: its input, two blocks of logits
  as the array makes them, and the best logits of every sequence, each with its token (the logits
  of the whole vocabulary are never held);
* KV buffer, if the head is a depth transformer: its keys and values of one position, which never
  leave the chip; the body's attention is over by then.

The board must have room; that place and route finds it is not promised. What the technology warns
of (a clock beyond what is plausible), and a batch larger than the Index Register, are warnings.

Simplifications: prefill works in blocks that fit the activation buffer; scores of one attention
head at a time; a schedule that packs sequences finds no more room in a core than ceil(B / C).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from carsim.base.text import count
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

__all__ = ["FitReport", "FitRow", "activation_bytes_per_token", "check_fit", "head_kv_bytes"]

CANDIDATE_BYTES = 8
"""Of a logit that is kept: 32 bits, and 32 for its token."""


@dataclass(frozen=True)
class FitReport:
    """All rows, the resources and memory contents behind them, and what to be wary of.

    Attributes:
        design: The design.
        rows: One per thing that has to fit.
        resources: What the design takes, by component.
        memories: What each external memory holds.
    """

    design: Design
    rows: tuple[FitRow, ...]
    resources: Resources
    memories: tuple[MemoryUse, ...] = ()

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """A line each; they do not make a misfit."""
        policy, slots = self.design.policy, self.design.machine.drs.index_register_bits
        found = [*self.design.board.technology.warnings(self.design, self.resources)]
        batch = policy.batch * policy.tokens_per_step
        if batch > slots:
            what = "sequences" if policy.tokens_per_step == 1 else "tokens"
            groups = f"{-(-batch // slots)} groups, as the Index Register holds {slots}"
            found.append(f"DRS: {batch} {what} are scheduled in {groups}")
        return tuple(found)

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
        """Cures of the misfits, each once."""
        return tuple(dict.fromkeys(row.cure for row in self.rows if not row.ok))


def check_fit(
    design: Design, video: Video, rule: ReplayRule | None = FASTCAR, kv_held: Ints | None = None
) -> FitReport:
    """Check a design against its board.

    Args:
        design: The design.
        video: Frames, tokens per frame and prompt, which set the longest context.
        rule: Rule of replay, which may hold data of its own; None where nothing ever replays.
        kv_held: Tokens that the cache of each layer holds, if recorded: see :func:`capacity`.
    """
    own, memories = resource_fit(design), capacity(design, video, rule, kv_held)
    rows = (*own.rows, *memory_rows(memories), *(row for _, row in buffer_rows(design, video)))
    return replace(own, rows=rows, memories=memories)


def resource_fit(design: Design) -> FitReport:
    """Check the resources of the technology alone, not what memories and buffers hold."""
    technology = design.board.technology
    used = technology.resources(design)
    return FitReport(design, tuple(technology.rows(design.board, used)), used)


def widest_activations(
    model: Model, machine: Machine, batch: int, max_context: int
) -> tuple[int, int]:
    """The widest set of activations that are alive at once in one core while a step is decoded.

    Residual and block input stay while a block runs. In attention, Q, K, V, one head's scores and
    the output are alive together; in the MLP, its inner layer (gate and up, or up alone); in a
    depth transformer, the fused Q, K and V, or the MLP's inner layer, or a code's logits, which
    wait for guidance mixing. Where matrices are split, a core keeps its own columns of what it
    computes and a whole copy of what it multiplies, of every sequence.

    Returns:
        Bytes of all sequences that the core works on at once, and how many they are.
    """
    head, split = model.head, machine.splits_mlp
    context = model.body.longest_context(max_context)
    sets = [
        (_attention(model, machine) + context, machine.splits_attention),
        (_mlp(model, machine), split),
    ]
    if machine.include_head and isinstance(head, DepthTransformer):
        inner = max(3 * head.hidden_size, head.ffn_size, head.codebook_size)
        sets.append((2 * head.hidden_size + -(-inner // machine.sharing(split=split)), split))
    found = []
    for elements, is_split in sets:
        sequences = machine.sequences_per_core(batch, split=is_split)
        found.append((sequences * model.activations.bytes_of(elements), sequences))
    return max(found)


def activation_bytes_per_token(model: Model, machine: Machine) -> int:
    """Bytes of the widest set of activations of one token in one core during prefill.

    Prefill takes blocks of tokens through a whole layer, so that a block is the activation buffer
    over this. A gated MLP of hidden width d and inner width f holds 2 d + 2 f elements: 59 KiB of
    16 bit for LLaMA-2-7B. Scores, one head at a time, are left out.
    """
    return int(model.activations.bytes_of(max(_attention(model, machine), _mlp(model, machine))))


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
    body, share = model.body, machine.sharing(split=machine.splits_attention)
    qkv = -(-(body.q_size + body.kv_elements) // share)
    return body.hidden_size + qkv + 2 * -(-body.hidden_size // share)


def _mlp(model: Model, machine: Machine) -> int:
    """Elements of one token in the MLP: while its inner layer is computed, or while it is read.

    Experts come one after the other, and what they put out is summed up meanwhile.
    """
    body, share = model.body, machine.sharing(split=machine.splits_mlp)
    width, residual = body.ffn_size, -(-body.hidden_size // share)
    summed = 0
    if body.experts is not None:
        width, summed = max(width, body.experts.shared_ffn_size, body.dense_ffn_size), residual
    inner, gathered = -(-width // share), width if share > 1 else 0
    widest = max(body.hidden_size + body.inner_matrices * inner, gathered + residual)
    return residual + summed + widest


def memory_rows(memories: Iterable[MemoryUse]) -> Iterator[FitRow]:
    """Rows of the memories that hold something."""
    cure = "store fewer bits, shrink policy.batch, or place some of it in another memory"
    for use in memories:
        if use.contents:
            held = " + ".join(f"{c.content} {amount(c.nbytes, 'B')}" for c in use.contents)
            yield FitRow(f"memory {use.memory}", use.used_bytes, use.usable_bytes, "B", held, cure)


def least_buffers_kib(design: Design, video: Video) -> dict[str, int]:
    """Powers of two that hold what the buffers of one core must, by the key of the machine."""
    found: dict[str, int] = {}
    for key, row in buffer_rows(design, video):
        kib = 1 << (-(-int(row.needed) // KIB) - 1).bit_length()
        found[key] = max(kib, found.get(key, 0))
    return found


def buffer_rows(design: Design, video: Video) -> list[tuple[str, FitRow]]:
    """Rows of the buffers of one core, each with the key of the machine that enlarges it."""
    machine, model = design.machine, design.model
    rows_at_once = design.policy.batch * design.policy.tokens_per_step
    widest = widest_activations(model, machine, rows_at_once, video.max_context)

    def row(what: str, buffer: str, needed: int, sequences: int = 0) -> tuple[str, FitRow]:
        has: int = getattr(machine, f"{buffer}_buffer_bytes")
        key, detail = f"{buffer}_buffer_kib", f"{count(sequences, 'sequence')} per core"
        detail *= sequences > 0
        return key, FitRow(what, needed, has, "B", detail, f"enlarge machine.{key}")

    rows = [
        row("two tiles in the weight buffer", "weight", 2 * machine.tile_bytes),
        row("two tiles in the KV buffer", "kv", 2 * machine.tile_bytes),
        row("widest activations in the activation buffer", "activation", *widest),
    ]
    sequences = machine.sequences_per_core(rows_at_once, split=machine.splits_mlp)
    if machine.include_head and isinstance(model.head, LinearHead):
        # Logits stream past their best.
        blocks = model.activations.bytes_of(model.body.hidden_size + 2 * machine.array.cols)
        needed = sequences * (int(blocks) + CANDIDATES * CANDIDATE_BYTES)
        what = f"head input and best {CANDIDATES} logits in the activation buffer"
        rows.append(row(what, "activation", needed, sequences))
    if machine.include_head and head_kv_bytes(model):
        needed = -(-sequences * head_kv_bytes(model) // machine.sharing(split=machine.splits_mlp))
        what = "the head's keys and values in the KV buffer"
        rows.append(row(what, "kv", needed, sequences))
    return rows
