"""A whole design: what ``carsim run`` is given."""

import hashlib

from pydantic import Field, model_validator

from carsim.base.section import FieldError, Section
from carsim.design.policy import Policy
from carsim.hardware.board import Board
from carsim.hardware.energy import Energy
from carsim.hardware.machine import Machine
from carsim.hardware.mapping import MAPPINGS
from carsim.workload.model import Model


class Design(Section):
    """Board, machine, model, policy and energy constants; nothing else is needed but a trace."""

    name: str = Field(description="what outputs call it; that of the file if absent")
    description: str = Field("", description="one sentence on what this design is for")
    board: Board
    machine: Machine
    model: Model
    policy: Policy
    energy: Energy

    @model_validator(mode="after")
    def _sections_agree(self) -> "Design":
        machine, memories = self.machine, self.board.memories
        for what, memory in machine.placement:
            if memory not in memories:
                names = ", ".join(sorted(memories))
                cure = f"the board has {names}; without a placement in the design, its own holds"
                raise FieldError(f"machine.placement.{what}", f"no memory {memory!r}", cure)
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
        return self

    def _check_queues(self) -> None:
        machine, drs = self.machine, self.machine.drs
        depth, rows = drs.core_queue_instructions, self.policy.batch * self.policy.tokens_per_step
        slots = machine.sequences_per_core(min(rows, drs.index_register_bits))
        room = slots * drs.instructions_per_sequence
        if depth is not None and depth < room and machine.weight_sharing == "broadcast":
            problem = f"{depth} are fewer than the {room} of a core's sequences: cores would hang"
            cure = f"give {room} or more, or leave it out"
            raise FieldError("machine.drs.core_queue_instructions", problem, cure)

    def _check_calibration(self) -> None:
        calibration = self.machine.overheads.calibration
        if calibration is None:
            return
        bits = float(self.model.weights.bits_per_element)
        if found := calibration.problem(self.board.name, self.board.fabric_clock_mhz, bits):
            field, problem = found
            cure = "set what was measured, calibrate again (carsim calibrate), or leave this out"
            raise FieldError(f"machine.overheads.calibration.{field}", problem, cure)

    def _check_records(self) -> None:
        policy, body = self.policy, self.model.body
        has = f"window of {body.window} tokens" if body.window is not None else "latent attention"
        attentions = {"attention": policy.attention}
        for index, row in enumerate(policy.compare or ()):
            attentions[f"compare.{index}.attention"] = row.attention
        for field, attention in attentions.items():
            if attention.records and (body.window is not None or body.latent is not None):
                problem = f"what {attention.kind!r} reads is recorded without the {has}"
                cure = "choose another attention, or another model"
                raise FieldError(f"policy.{field}.kind", problem, cure)

    def extrapolation(self, first_context: int, last_context: int) -> str | None:
        """One line if steps at these contexts leave the range that overheads were calibrated in."""
        calibration = self.machine.overheads.calibration
        if calibration is None:
            return None
        contexts = (first_context, last_context)
        return calibration.outside(self.policy.batch, self.model.body.n_layers, contexts)

    @property
    def sha256(self) -> str:
        """Hash of the resolved design, defaults included."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()
