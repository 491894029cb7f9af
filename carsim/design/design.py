"""A whole design: what ``carsim run`` is given."""

import hashlib
from collections.abc import Mapping
from math import floor

from pydantic import Field, PrivateAttr, model_validator

from carsim.base.section import FieldError, Section
from carsim.design.policy import Policy
from carsim.hardware.board import Board
from carsim.hardware.energy import Energy
from carsim.hardware.expected import Expected, expected_of, expected_of_forwards
from carsim.hardware.machine import Machine
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.memory.path import memory_path
from carsim.hardware.memory.traffic import AccessPattern
from carsim.hardware.overheads import Transfer
from carsim.workload.model import Model
from carsim.workload.network import DepthEncoder


class Design(Section):
    """Board, machine, model, policy and energy constants; nothing else is needed but a trace."""

    name: str = Field(description="what outputs call it; that of the file if absent")
    description: str = Field("", description="one sentence on what this design is for")
    board: Board
    machine: Machine
    model: Model
    policy: Policy
    energy: Energy

    # Sources are about a design's making and not part of it: neither its document nor its hash has
    # them, and two designs are equal whatever they were made from.
    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Design) and dict(self) == dict(other)

    def __hash__(self) -> int:
        return hash(self.sha256)

    def source_of(self, field: str) -> str:
        """Source of a precision in words, such as ``preset tiny``; ``the design`` if unknown.

        Args:
            field: A field of ``model``: ``weights``, ``weights_by_role``, ``kv``, ``activations``.
        """
        return self._sources.get(field, "the design")

    @property
    def sources(self) -> Mapping[str, str]:
        """Sources of precisions that are known, by field of ``model``."""
        return dict(self._sources)

    def with_sources(self, sources: Mapping[str, str]) -> "Design":
        """An equal design with these sources of precisions besides those that are known."""
        design = self.model_copy()
        design._sources = {**self._sources, **sources}
        return design

    @model_validator(mode="after")
    def _sections_agree(self) -> "Design":
        self._check_placement()
        machine = self.machine
        for buffer in ("weight", "kv"):
            kib = getattr(machine, f"{buffer}_buffer_kib")
            if kib < 2 * machine.tile_kib:
                problem = f"{kib} KiB hold fewer than two tiles of {machine.tile_kib} KiB"
                cure = "enlarge it or shrink machine.tile_kib"
                raise FieldError(f"machine.{buffer}_buffer_kib", problem, cure)
        if MAPPINGS[machine.mapping].needs_broadcast and machine.weight_sharing != "broadcast":
            problem = f"{machine.weight_sharing!r} has no meaning under mapping {machine.mapping!r}"
            raise FieldError("machine.weight_sharing", problem, "use 'broadcast'")
        if isinstance(self.policy.tau, tuple) and len(self.policy.tau) != self.model.body.n_layers:
            problem = f"lists {len(self.policy.tau)} values for {self.model.body.n_layers} layers"
            raise FieldError("policy.tau", problem, "give one number or one per layer")
        self._check_queues()
        self._check_records()
        self._check_calibration()
        self._check_bandwidth_share()
        return self

    def _check_placement(self) -> None:
        """Refuse a placement in memories that the board lacks, or without one that is needed."""
        placement = self.machine.placement
        memories = self.board.memories
        for role, memory in placement:
            if memory is not None and memory not in memories:
                names = ", ".join(sorted(memories))
                cure = f"the board has {names}; without a placement in the design, its own holds"
                raise FieldError(f"machine.placement.{role}", f"no memory {memory!r}", cure)
        attention = self.policy.attention
        if attention.uses_far_memory and placement.kv_far is None:
            problem = f"is null, and {attention.text} moves older tokens to a second memory"
            cure = f"name one of {', '.join(sorted(memories))}"
            raise FieldError("machine.placement.kv_far", problem, cure)

    def _check_queues(self) -> None:
        """Refuse queues that cannot hold what a core gets while it waits for broadcast weights."""
        machine = self.machine
        drs = machine.drs
        depth = drs.core_queue_instructions
        if depth is None or machine.weight_sharing != "broadcast":
            return
        rows = self.policy.batch * self.policy.tokens_per_step
        sequences_of_core = machine.sequences_per_core(min(rows, drs.index_register_bits))
        instructions = sequences_of_core * drs.instructions_per_sequence
        if depth < instructions:
            problem = (
                f"{depth} are fewer than the {instructions} of a core's sequences: cores would hang"
            )
            cure = f"give {instructions} or more, or leave it out"
            raise FieldError("machine.drs.core_queue_instructions", problem, cure)

    def _check_calibration(self) -> None:
        """Refuse a calibration of another board or clock."""
        calibration = self.machine.overheads.calibration
        if calibration is None:
            return
        mismatch = calibration.problem(self.board.name, self.board.fabric_clock_mhz)
        if mismatch is not None:
            field, problem = mismatch
            cure = "set what was measured, calibrate again (carsim calibrate), or leave this out"
            raise FieldError(f"machine.overheads.calibration.{field}", problem, cure)

    def _check_bandwidth_share(self) -> None:
        """Refuse a bandwidth beyond the peak of the memory."""
        share = self.machine.overheads.bandwidth_share
        # The largest share of a memory takes milliseconds to find, and few designs need it.
        if share > 1 and share > self.most_bandwidth_share:
            problem = (
                f"{share:g} times the modelled bandwidth of {self.machine.placement.weights} is "
                "more than its data-sheet peak"
            )
            cure = f"give at most {self.most_bandwidth_share:.4g}"
            raise FieldError("machine.overheads.bandwidth_share", problem, cure)

    @property
    def most_bandwidth_share(self) -> float:
        """Peak bandwidth of the weights' memory over what long reads of it sustain here.

        The sustained bandwidth is the lesser of memory and ports. The share is rounded down.
        """
        name = self.machine.placement.weights
        memory = self.board.memories[name]
        path = memory_path(name, memory, self.board.fabric_clock_mhz)
        long_reads = path.at(AccessPattern(chunk_bytes=memory.ports.burst_bytes))
        return floor(1e4 * long_reads.peak_gbps / long_reads.sustained_gbps) / 1e4

    def _check_records(self) -> None:
        """Refuse attention whose reads are recorded, on a body that attends in another way."""
        policy = self.policy
        body = self.model.body
        if body.window is None and body.latent is None:
            return
        lacking = "latent attention"
        if body.window is not None:
            lacking = f"window of {body.window} tokens"
        attentions = {"attention": policy.attention}
        for index, row in enumerate(policy.compare or ()):
            attentions[f"compare.{index}.attention"] = row.attention
        for field, attention in attentions.items():
            if attention.records:
                problem = f"what {attention.kind!r} reads is recorded without the {lacking}"
                cure = "choose another attention, or another model"
                raise FieldError(f"policy.{field}.kind", problem, cure)

    @property
    def transfer(self) -> Transfer:
        """Differences between the model and the measured ones; none without a calibration."""
        calibration = self.machine.overheads.calibration
        if calibration is None:
            return Transfer()
        model = self.model
        return calibration.transfer(
            weight_bits=float(model.mean_stored_bits),
            activation_bits=float(model.activations.bits),
            family=model.family,
        )

    @property
    def expected(self) -> Expected:
        """Time on a real board over the time that is simulated, with its interval."""
        overheads, technology = self.machine.overheads, self.board.technology
        if self.model.sample is not None:
            splits = self.machine.splits_attention or self.machine.splits_mlp
            makes_depth = isinstance(self.model.network, DepthEncoder)
            return expected_of_forwards(
                overheads, technology, splits=splits, makes_depth=makes_depth
            )
        return expected_of(overheads, technology, self.transfer.kind)

    def extrapolations(self, first_context: int, last_context: int) -> tuple[str, ...]:
        """Lines on what leaves the range that overheads were calibrated in; empty inside.

        Args:
            first_context: Tokens that the first step attends to.
            last_context: Tokens that the last step attends to.
        """
        calibration = self.machine.overheads.calibration
        if calibration is None:
            return ()
        contexts = (first_context, last_context)
        range_line = calibration.outside(self.policy.batch, self.model.body.n_layers, contexts)
        machine_line = calibration.machine_line(self.machine.text)
        lines = [line for line in (machine_line, range_line) if line is not None]
        transfer = self.transfer
        for noun, difference in (("precision", transfer.precision), ("model", transfer.family)):
            if difference:
                lines.append(
                    f"the calibration is of another {noun}: {difference}; "
                    "the expected interval allows for that"
                )
        return tuple(lines)

    @property
    def sha256(self) -> str:
        """Hash of the resolved design, defaults included."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()
