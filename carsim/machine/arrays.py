"""The numbers of D designs as plain arrays: all that phases are made of.

Designs that are simulated together have one structure
(:func:`carsim.machine.hardware.structure_of`) and differ in numbers. A number in which all of them
agree is one whole number. Any other number is a column: int64[D, 1], or int64[n, 1] once it is laid
out for n phases (:meth:`MachineArrays.at`). A single design has whole numbers only. Nothing in here
is a section of a design, and nothing answers for the first design alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from carsim.cost.fit import activation_bytes_per_token
from carsim.decisions.replay import Point
from carsim.design import Design
from carsim.hardware.machine import Array, LoopOrder, Machine
from carsim.hardware.mapping import Mapping
from carsim.hardware.schedule import Registers, Schedule
from carsim.hardware.schedule.base import CyclesOf
from carsim.machine.hardware import Hardware, Rate, Rates
from carsim.machine.kernels import KernelTable
from carsim.program.skips import Skip
from carsim.workload.head import HeadPass, head_passes
from carsim.workload.model import Model, NoHead
from carsim.workload.ops import OnChip, Stream

Rows = TypeVar("Rows", int, NDArray[np.int64])
"""A number of rows or cycles, or an array of such numbers."""

Column = int | NDArray[np.int64]
"""A number of all designs: an int where they agree, else int64[D, 1] or int64[n, 1]."""


class ArrayNumbers(NamedTuple):
    """An array of multipliers, as :mod:`carsim.machine.array` counts its cycles."""

    rows: Column
    cols: Column
    pipeline_cycles: Column
    dataflow: str
    weight_load: str


class VectorNumbers(NamedTuple):
    """A vector unit: element operations a cycle, cycles to fill and drain it, and scores a cycle.

    A unit without a rate of scores takes them as element operations.
    """

    lanes: Column
    pipeline_cycles: Column
    exponentials_per_cycle: Column = 0


@dataclass(frozen=True, eq=False)
class MachineArrays:
    """D designs of one structure. A single design, D = 1, is the usual case.

    Attributes:
        model: The model.
        skip: Blocks that rows skip where they replay.
        mapping: Mapping of work to cores.
        cores: Cores of the machine.
        batch: Sequences in lockstep.
        tokens_per_step: Tokens of each sequence that a step decodes.
        weight_sharing: How cores get their weights.
        kernel_fusion: Element operations take results as they leave the array.
        kv_layout: Layout of keys and values in memory.
        decision_at: Earliest point of a layer at which a decision is known.
        include_head: The head is part of a step.
        registers: Index Register and dispatcher.
        memories: Names of the memories, sorted; their order is that of all tuples by memory.
        path_of: Index of the memory that holds a streamed operand.
        replay_path: Index of the memory that holds the replay cache.
        activation_buffer_bytes: Bytes of one core's activation buffer.
        activation_bytes_per_token: Bytes of the widest activations of one token of a prompt.
        query_tile: Queries of one head that stay in a core; 0: as many as fit.
        loop_order: What stays in a core where many tokens pass.
        tile_bytes: Bytes of one tile.
        weight_buffer_bytes: Bytes of one core's weight buffer.
        kv_buffer_bytes: Bytes of one core's KV buffer.
        exchange_bytes_per_cycle: Bytes a cycle between cores.
        array: The array of a core.
        attention_array: The array that attention's own products run on.
        vector: The vector unit of a core.
        kernel_cycles: Launch of one matrix product.
        kernels: Times of blocks that are a table; None without one. All designs have the same.
        clocks_mhz: Clock of each design, float[D].
        latencies: Cycles from request to first byte, by memory.
        rates: Bytes per cycle, by memory.
        fastest_rates: Bytes per cycle of the number of streams that a memory serves best.
        core_rate: Bytes per cycle that one core takes in; None for as many as come.
        host_cycles: Cycles of the host in a token step, int64[D].
        layer_launch_cycles: Cycles of the host for the launches of one layer, exactly, of each
            design.
        hardwares: The hardware of each design.
        index: Design of each phase, int[n]; None where nothing is laid out.
    """

    model: Model
    skip: Skip
    mapping: Mapping
    cores: int
    batch: int
    tokens_per_step: int
    weight_sharing: str
    kernel_fusion: bool
    kv_layout: str
    decision_at: Point
    include_head: bool
    registers: Registers
    memories: tuple[str, ...]
    path_of: dict[Stream, int]
    replay_path: int
    activation_buffer_bytes: int
    activation_bytes_per_token: int
    query_tile: int
    loop_order: LoopOrder
    tile_bytes: Column
    weight_buffer_bytes: Column
    kv_buffer_bytes: Column
    exchange_bytes_per_cycle: Column
    array: ArrayNumbers
    attention_array: ArrayNumbers
    vector: VectorNumbers
    kernel_cycles: Column
    kernels: KernelTable | None
    clocks_mhz: NDArray[np.float64]
    latencies: tuple[Column, ...]
    rates: tuple[Rate, ...]
    fastest_rates: tuple[Rate, ...]
    core_rate: Rate | None
    host_cycles: NDArray[np.int64]
    layer_launch_cycles: tuple[Fraction, ...]
    hardwares: tuple[Hardware, ...]
    index: NDArray[np.intp] | None = None

    @classmethod
    def of(cls, hardwares: Sequence[Hardware]) -> "MachineArrays":
        """The numbers of designs of one structure, one of them or more."""
        # What all designs of one structure have in common.
        first = hardwares[0]
        design: Design = first.design
        machine: Machine = design.machine
        machines = [hardware.design.machine for hardware in hardwares]

        def column(number: Callable[[Machine], int]) -> Column:
            return _column([number(machine) for machine in machines])

        kernels = machine.overheads.kernels
        clocks_mhz = [hardware.design.board.fabric_clock_mhz for hardware in hardwares]
        latencies = zip(*(hardware.latencies for hardware in hardwares), strict=True)
        rates = zip(*(hardware.rates for hardware in hardwares), strict=True)
        fastest_rates = zip(*(hardware.fastest_rates for hardware in hardwares), strict=True)
        return cls(
            model=design.model,
            skip=design.policy.skip,
            mapping=first.mapping,
            cores=machine.cores,
            batch=design.policy.batch,
            tokens_per_step=design.policy.tokens_per_step,
            weight_sharing=machine.weight_sharing,
            kernel_fusion=machine.kernel_fusion,
            kv_layout=machine.kv_layout,
            decision_at=machine.decision_at,
            include_head=machine.include_head and not isinstance(design.model.head, NoHead),
            registers=machine.drs,
            memories=tuple(path.name for path in first.paths),
            path_of=first.path_of,
            replay_path=first.replay_path,
            activation_buffer_bytes=machine.activation_buffer_bytes,
            activation_bytes_per_token=activation_bytes_per_token(design.model, machine),
            query_tile=machine.query_tile,
            loop_order=machine.loop_order,
            tile_bytes=column(lambda machine: machine.tile_bytes),
            weight_buffer_bytes=column(lambda machine: machine.weight_buffer_bytes),
            kv_buffer_bytes=column(lambda machine: machine.kv_buffer_bytes),
            exchange_bytes_per_cycle=column(lambda machine: machine.exchange_bytes_per_cycle),
            array=_array_numbers([machine.array for machine in machines]),
            attention_array=_array_numbers([machine.attention_array for machine in machines]),
            vector=VectorNumbers(
                lanes=column(lambda machine: machine.vector.lanes),
                pipeline_cycles=column(lambda machine: machine.vector.pipeline_cycles),
                exponentials_per_cycle=column(
                    lambda machine: machine.vector.exponentials_per_cycle
                ),
            ),
            kernel_cycles=column(lambda machine: machine.overheads.kernel_cycles),
            kernels=KernelTable.of(kernels) if kernels else None,
            clocks_mhz=np.array(clocks_mhz, float),
            latencies=tuple(map(_column, latencies)),
            rates=tuple(map(_rate, rates)),
            fastest_rates=tuple(map(_rate, fastest_rates)),
            core_rate=_core_rate(hardwares),
            host_cycles=np.array([hardware.host_cycles for hardware in hardwares], np.int64),
            layer_launch_cycles=tuple(hardware.layer_launch_cycles for hardware in hardwares),
            hardwares=tuple(hardwares),
        )

    # ---------------------------------------------------------------- designs and phases

    @property
    def n_designs(self) -> int:
        """D."""
        return len(self.hardwares)

    @property
    def n_laid_out(self) -> int:
        """Phases that columns are laid out for; D if they are not, and 1 for a single design."""
        if self.n_designs == 1:
            return 1
        return self.n_designs if self.index is None else len(self.index)

    def at(self, index: NDArray[np.intp], *, exact: bool = False) -> "MachineArrays":
        """Lay the numbers out for n phases of the designs ``index``, int[n].

        Args:
            index: The design of each phase.
            exact: Columns hold Python's integers, which never overflow. Rates are 4096ths, whose
                parts are small, and stay int64.
        """
        if self.n_designs == 1:
            return self
        dtype = np.dtype(object if exact else np.int64)

        def laid_out(column: Column) -> Column:
            if isinstance(column, np.ndarray):
                return column.astype(dtype, copy=False)[index]
            return column

        def array_laid_out(array: ArrayNumbers) -> ArrayNumbers:
            """Sizes of an array, each design once for each of its cases."""
            return array._replace(
                rows=laid_out(array.rows),
                cols=laid_out(array.cols),
                pipeline_cycles=laid_out(array.pipeline_cycles),
            )

        return replace(
            self,
            tile_bytes=laid_out(self.tile_bytes),
            weight_buffer_bytes=laid_out(self.weight_buffer_bytes),
            kv_buffer_bytes=laid_out(self.kv_buffer_bytes),
            exchange_bytes_per_cycle=laid_out(self.exchange_bytes_per_cycle),
            array=array_laid_out(self.array),
            attention_array=array_laid_out(self.attention_array),
            vector=VectorNumbers(
                lanes=laid_out(self.vector.lanes),
                pipeline_cycles=laid_out(self.vector.pipeline_cycles),
                exponentials_per_cycle=laid_out(self.vector.exponentials_per_cycle),
            ),
            kernel_cycles=laid_out(self.kernel_cycles),
            latencies=tuple(_of_phases(column, index) for column in self.latencies),
            rates=tuple(_rate_of_phases(rate, index) for rate in self.rates),
            fastest_rates=tuple(_rate_of_phases(rate, index) for rate in self.fastest_rates),
            core_rate=None if self.core_rate is None else _rate_of_phases(self.core_rate, index),
            index=index,
        )

    def for_cases_on_each_design(self, n: int) -> tuple["MachineArrays", NDArray[np.intp]]:
        """Lay out D n phases: n cases on each of D designs, one design after the other.

        Returns:
            The numbers of these phases, and the case of each, [D n].
        """
        designs = np.arange(self.n_designs)
        return self.at(np.repeat(designs, n)), np.tile(np.arange(n), self.n_designs)

    @property
    def clock_mhz(self) -> NDArray[np.float64]:
        """Clock of each phase that columns are laid out for, float[n, 1]; [1, 1] for one design."""
        clocks = self.clocks_mhz if self.index is None else self.clocks_mhz[self.index]
        return clocks[:, None]

    def gather_rate(self, path: int, run_bytes: int) -> Rate:
        """Bytes per cycle of a memory that is read in runs of so many bytes at random places."""
        rate = _rate([hardware.gather_rate(path, run_bytes) for hardware in self.hardwares])
        return rate if self.index is None else _rate_of_phases(rate, self.index)

    def on_chip(self, *, split: bool) -> OnChip:
        """Buffers of a core, for blocks that take many tokens through them in tiles.

        Args:
            split: The matrices of the block are split over the cores.
        """
        deals = self.cores if self.is_lockstep(split) and not split else 1
        return OnChip(
            activation_bytes=self.activation_buffer_bytes,
            weight_bytes=self.weight_buffer_bytes // 2,
            query_tile=self.query_tile,
            loop_order=self.loop_order,
            deals=deals,
            columns=self.cores_per_matrix(split=split),
        )

    # ---------------------------------------------------------------- cores

    @property
    def rows(self) -> int:
        """Tokens of one step: those of all sequences in lockstep, which share weights."""
        return self.batch * self.tokens_per_step

    def is_lockstep(self, split: bool) -> bool:
        """One stream of operands paces all cores: columns of one matrix, or broadcast weights.

        Args:
            split: The matrices of the phase are split over the cores.
        """
        return split or self.weight_sharing == "broadcast"

    @property
    def streams_per_sequence(self) -> bool:
        """A core streams its weights once for each of its sequences."""
        return self.weight_sharing == "private_per_sequence"

    def cores_per_matrix(self, *, split: bool) -> int:
        """Cores among which a matrix is divided: all where it is split, else one."""
        return self.cores if split else 1

    def rows_of_fullest_core(self, rows: Rows, *, split: bool) -> Rows:
        """Rows of the core with the most: all where matrices are split, else an even share."""
        return rows if split else -(-rows // self.cores)

    @cached_property
    def streams(self) -> int:
        """Operands of an MLP that come side by side: one for all cores in step, else one each."""
        return 1 if self.is_lockstep(self.mapping.splits_mlp) else min(self.cores, self.rows)

    @cached_property
    def home_loads(self) -> NDArray[np.int64]:  # [C]
        """Tokens of each core where all compute and nothing is split, most loaded first."""
        return self.even_loads(self.rows)

    def even_loads(self, counts: int | NDArray[np.int64]) -> NDArray[np.int64]:
        """Sequences of each core where so many are dealt out, most loaded first, [..., C]."""
        even, remainder = np.divmod(np.asarray(counts)[..., None], self.cores)
        return even + (np.arange(self.cores) < remainder)

    def home_of(self, sequence: Rows) -> Rows:
        """The core of a sequence, or of a token of a set, until its MLP is dispatched."""
        return sequence % self.cores

    @cached_property
    def head_passes(self) -> tuple[HeadPass, ...]:
        """Passes of the head in their order; rows without pairs pay for the mixing of guidance."""
        return head_passes(self.model, guided=self.batch % 2 == 0, cores=self.cores)

    @cached_property
    def core_names(self) -> list[str]:
        """Names of the cores in accounts and timelines."""
        return [f"core {number}" for number in range(self.cores)]

    def core_cycles(self, cycles: Rows) -> Rows:
        """Cycles of all cores in so many cycles."""
        return cycles * self.cores

    # ---------------------------------------------------------------- dispatch

    def queue_depth(self, schedule: Schedule) -> int | None:
        """Instructions that may wait at a core; None if none ever finds its queue full."""
        if not schedule.central or self.is_lockstep(self.mapping.splits_mlp):
            return None
        return self.registers.core_queue_instructions

    def dispatched_together(self, schedule: Schedule) -> int:
        """Rows that are dispatched together: as many as the Index Register holds."""
        if not schedule.central:
            return self.rows
        return min(self.rows, self.registers.index_register_bits)

    def fitted(self, schedule: Schedule, cycles_of: CyclesOf) -> Schedule:
        """A schedule, fitted to this machine if it looks at what phases take."""
        return schedule.fitted(cycles_of, self.dispatched_together(schedule), self.cores)

    def dispatch_cycles(self, schedule: Schedule, rows: int | None = None) -> int:
        """Cycles from the decisions of a layer to the last instruction of so many rows."""
        if rows is None:
            rows = self.dispatched_together(schedule)
        return schedule.dispatch_cycles(self.registers, rows, self.cores)

    def listing_cycles(self, schedule: Schedule, tokens: int) -> int:
        """Cycles to list the tokens of forwards that compute, and to check the instructions.

        A central schedule latches decisions, as many at a time as the Index Register holds, scans
        them, and checks the instructions of each core. If not, every core does so with its own.

        Args:
            schedule: Who computes.
            tokens: Tokens that decide.
        """
        registers = self.registers
        checked = self.cores if schedule.central else 1
        listed = tokens if schedule.central else -(-tokens // self.cores)
        latches = -(-listed // registers.index_register_bits)
        scan_cycles = listed * registers.scan_cycles_per_sequence
        check_cycles = checked * registers.check_cycles
        return latches * registers.latch_cycles + scan_cycles + check_cycles

    def assign(self, schedule: Schedule, computing: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The core of each sequence, -1 for one that replays: bool[n, B] -> int64[n, B]."""
        return schedule.assign(computing, self.cores)


def _column(numbers: Sequence[int]) -> Column:
    """A number of each design as one column."""
    if len(set(numbers)) == 1:
        return numbers[0]
    return np.array(numbers, np.int64)[:, None]


def _rate(rates: Sequence[Fraction]) -> Rate:
    """Rates of one memory in each design."""
    if len(set(rates)) == 1:
        return rates[0]
    return Rates(
        numerator=np.array([rate.numerator for rate in rates], np.int64)[:, None],
        denominator=np.array([rate.denominator for rate in rates], np.int64)[:, None],
    )


def _core_rate(hardwares: Sequence[Hardware]) -> Rate | None:
    """Rate at which one core takes in bytes in each design; all have one, or none has."""
    rates = [hardware.core_rate for hardware in hardwares]
    limited = [rate for rate in rates if rate is not None]
    assert len(limited) in (0, len(rates)), "designs of one structure"
    return _rate(limited) if limited else None


def _array_numbers(arrays: Sequence[Array]) -> ArrayNumbers:
    """Sizes of the arrays of several designs, side by side; their dataflow is one."""
    return ArrayNumbers(
        rows=_column([array.rows for array in arrays]),
        cols=_column([array.cols for array in arrays]),
        pipeline_cycles=_column([array.pipeline_cycles for array in arrays]),
        dataflow=arrays[0].dataflow,
        weight_load=arrays[0].weight_load,
    )


def _of_phases(column: Column, index: NDArray[np.intp]) -> Column:
    return column[index] if isinstance(column, np.ndarray) else column


def _rate_of_phases(rate: Rate, index: NDArray[np.intp]) -> Rate:
    if isinstance(rate, Rates):
        return Rates(rate.numerator[index], rate.denominator[index])
    return rate
