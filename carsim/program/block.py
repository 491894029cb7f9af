"""A block: the work of a layer between two barriers, and the rows that skip it.

A block says which operations it asks of a core (:meth:`Block.operations`), which tokens of a cache
it reads (:meth:`Block.reads`), and how it goes with a decision: ``follows`` names the decision by
which rows skip the block, ``holds`` says that its output is held for them. A block knows no machine
and takes no time.

Simplifications: all rows of a layer-step pass the barrier behind a block together; rows that skip a
block do nothing in it but what :meth:`Block.replay` says.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from carsim.decisions.replay import NO_WORK, MachineShape, ReplayRule, RuleWork
from carsim.program.reads import Reads, Steps
from carsim.workload.mlp import replay_op
from carsim.workload.model import Model
from carsim.workload.ops import Op, Share

OpsOf = Callable[[Share], list[Op]]
"""Share of a core -> its operations in order. Figures are whole numbers or arrays [n, K]."""

Split = Literal["attention", "mlp"]
Dealt = Literal["tokens", "sequences", "all_tokens"]


@dataclass(frozen=True)
class Block(ABC):
    """A kind of block.

    It is a value: on one machine, equal blocks have equal phases. To add a kind, write a frozen
    dataclass with ``name`` and ``operations``; the rest where it differs.

    Attributes:
        tokens: Tokens of a row: 1 where single tokens are dealt to cores, all tokens of a sequence
            where sequences are dealt.
        follows: Decision by which rows skip the block; None: all rows compute it.
        holds: The output is held for rows that skip the block: rows that compute write it, rows
            that skip read it and add it to the residual.
        scores: Rule whose score is computed in this block; None: no score is.
        also_scores: Rules of further decisions whose scores are computed in it.
        rule: Rule whose held data this block writes, and whose gain scales what it replays.

    Class attributes:
        name: Kind of phase in tables, figures and metrics.
        title: English name.
        split: Choice of the mapping that splits the matrices of this block over cores.
        deals: What is dealt to cores.
        in_passes: Weights stream once for each activation buffer full of tokens.
        reads_tokens: Phases depend on the tokens of a cache that they read; see :meth:`reads`.
        follows_context: What is read never exceeds the context of a step.
        feeds_next: What the block puts out goes to the next block, and not to the residual. The
            block is skipped only together with the next one, and its output cannot be held.
        feeds_later: What the block puts out is read by later blocks or steps as well.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    split: ClassVar[Split] = "mlp"
    deals: ClassVar[Dealt] = "tokens"
    in_passes: ClassVar[bool] = False
    reads_tokens: ClassVar[bool] = False
    follows_context: ClassVar[bool] = True
    feeds_next: ClassVar[bool] = False
    feeds_later: ClassVar[bool] = False

    tokens: int = 1
    follows: str | None = None
    holds: bool = False
    scores: ReplayRule | None = None
    also_scores: tuple[ReplayRule, ...] = ()
    rule: ReplayRule | None = None

    @abstractmethod
    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """The operations of n phases.

        Args:
            model: The model.
            reads: Tokens that each phase reads; None for a block that reads none.
        """

    def reads(self, steps: Steps) -> Reads | None:
        """Tokens of a cache that are read in each of S steps; None where no phase depends on them.

        Where reads depend on data, recorded numbers take the place of these.
        """
        return None

    def replay(self, model: Model, share: Share) -> Op:
        """The work of rows that skip the block: read what is held, and add it to the residual."""
        return replay_op(model, share, damped=self.rule is not None and self.rule.damps)

    def held_elements(self, model: Model) -> int:
        """Elements that are held of one token, in the precision of the replay cache."""
        return model.body.hidden_size if self.holds else 0

    def products(self, model: Model) -> int:
        """Products with weights, each of which is a kernel to start."""
        return 0

    @property
    def label(self) -> str:
        """English name, which tells blocks of one kind apart."""
        return self.title

    @property
    def widest(self) -> "Block":
        """The block with all work that it has in any step, for proofs of ranges."""
        return self

    def score(self, model: Model, share: Share) -> RuleWork:
        """Work of the scores of one row on a core."""
        work = work_of(self.scores, model, share.of)
        for rule in self.also_scores:
            further = work_of(rule, model, share.of)
            work = RuleWork(*(one + other for one, other in zip(work, further, strict=True)))
        return work


def work_of(rule: ReplayRule | None, model: Model, cores: int = 1) -> RuleWork:
    """Work of a rule for one row on one of so many cores that share it."""
    return NO_WORK if rule is None else rule.work(machine_shape(model, cores))


def machine_shape(model: Model, of: int = 1) -> MachineShape:
    """The model as a rule of replay sees it.

    Args:
        model: The model.
        of: Cores that share its heads and columns.
    """
    body = model.body
    return MachineShape(
        n_heads=body.n_heads,
        n_kv_heads=body.n_kv_heads,
        head_dim=body.head_dim,
        hidden_size=body.hidden_size,
        activation_bits=model.activations.bits_per_element,
        of=of,
        replay_bits=model.replay.bits_per_element,
    )
