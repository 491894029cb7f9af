"""What is booked for a phase and for a run, worked out by hand on the machine of ``ideal.py``."""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pytest
from ideal import arrays, compute, ideal_hardware, mlp, mlp_bound, output, qkv
from strategies import small_design
from tiny import tiny_report

from carsim.account.booking import accounts, booked
from carsim.account.limits import phase_limits
from carsim.account.simulation import Simulation, simulate_policy
from carsim.account.totals import sum_outcomes
from carsim.decisions.attention import PLAIN
from carsim.decisions.replay import FASTCAR
from carsim.design import override
from carsim.hardware.schedule import SCHEDULES
from carsim.machine.batches import Batches
from carsim.machine.cases import RowCases
from carsim.machine.hardware import Hardware
from carsim.machine.phase import Outcome
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.workload.geometry import Video


def test_an_exchange_takes_time_and_keeps_no_core_busy() -> None:
    # Split by columns, each core has 4 rows x 32 x 16, 4 cycles; 4 x 32 results of 2 bytes are
    # gathered over 64 bytes a cycle, 4 cycles in which nobody computes.
    wide = output(Phases(ideal_hardware(mapping="tensor")))
    assert wide.compute_cycles == 4 + 4
    assert wide.busy_cycles == 2 * 4
    # Over 1 byte a cycle, they take 256.
    narrow = output(Phases(ideal_hardware(mapping="tensor", exchange_bytes_per_cycle=1)))
    assert narrow.compute_cycles == 256 + 4
    assert narrow.busy_cycles == 2 * 4
    # Nor does a bound wait for it: with one multiplier, the 4 x 32 x 16 products of a core.
    one_multiplier = ideal_hardware(
        mapping="tensor",
        exchange_bytes_per_cycle=1,
        array={"rows": 1, "cols": 1, "pipeline_cycles": 0},
        rate=100_000,
    )
    slow = output(Phases(one_multiplier))
    assert slow.bound_cycles == 4 * 32 * 16
    assert slow.compute_cycles == 256 + 4 * 32 * 16


@pytest.mark.parametrize(
    ("schedule", "computing", "home", "machine", "moved"),
    [
        ("drs", "1111", 0, {}, 0),  # each on its own core
        ("drs", "1111", 1, {}, 4),  # a group that begins with a sequence of core 1
        ("drs", "1001", 0, {}, 0),  # 0 and 3, of cores 0 and 1
        ("drs", "0110", 0, {}, 2),  # 1 and 2, of cores 1 and 0, to 0 and 1
        ("pack", "1111", 0, {}, 2),  # 1 to core 0, 2 to core 1
        ("pack", "1111", 0, {"weight_sharing": "private"}, 1),  # one to each core side by side
        ("drs", "1111", 0, {"mapping": "heads"}, 4),  # attention was split: none has a home
        ("static", "1111", 0, {"mapping": "heads"}, 0),
    ],
)
def test_a_central_schedule_hands_over_what_moves_and_back(
    schedule: str, computing: str, home: int, machine: dict[str, str], moved: int
) -> None:
    def handed_over(bytes_per_cycle: int) -> Outcome:
        hardware = ideal_hardware(exchange_bytes_per_cycle=bytes_per_cycle, **machine)
        return compute(Phases(hardware), computing, 10_000, schedule=schedule, home=home)

    # 2 ways x 32 elements of 2 bytes for each over 64 bytes a cycle, 2 cycles, and not with 10^6.
    slow = handed_over(64)
    fast = handed_over(10**6)
    assert slow.compute_cycles - fast.compute_cycles == 2 * moved - (moved > 0)
    assert slow.busy_cycles == fast.busy_cycles


def test_replays_are_booked_on_the_cores_that_are_free() -> None:
    # Nobody computes: each core adds 2 x 32 elements in a cycle; 4 x 64 bytes go into a buffer and
    # out of it. With two of four computing, one on each core, no core is free: the sums are beside
    # the array.
    phases = Phases(ideal_hardware())
    all_replay = compute(phases, "0000")
    assert all_replay.busy_cycles == 2
    assert all_replay.sram_bytes == 2 * 4 * 64
    assert all_replay.vector_ops == 4 * 32
    # Norm 1, gate and up 1, down 2 cycles on each of the two cores.
    assert compute(phases, "1001").busy_cycles == 2 * (1 + 1 + 2)
    # In lockstep no core is free while one computes.
    assert compute(phases, "1000").busy_cycles == 1 + 1 + 2


@dataclass(frozen=True)
class Booked:
    """An MLP under DRS, and the cycles of both cores by state; states without cycles are left out.

    The decision is known so many cycles before the MLP begins.
    """

    computing: str
    core_0: dict[str, int]
    core_1: dict[str, int]
    known_before: int = 10**6
    machine: dict[str, Any] = field(default_factory=dict)


BOOKED = {
    # Two of three sequences on core 0: norm 1, gate and up 2, down 4 cycles; core 1: 1 + 1 + 2.
    "compute": Booked(
        "1110",
        core_0={"busy": 7},
        core_1={"busy": 4, "core": 3},
        machine={"rate": 10**5, "latency": 0},
    ),
    # 4608 bytes of weights, 64 of a replay, 3 x 64 written, 8 a cycle after 10; one of 4 KiB
    # buffers' last 512 bytes is computed in a cycle.
    "memory": Booked(
        "1110",
        core_0={"busy": 7, "ddr": 612},
        core_1={"busy": 4, "core": 3, "ddr": 612},
    ),
    # 8 + 4 (1 + 64 x 4) cycles of dispatch, in which all weights come in; then the replay takes 10
    # cycles of latency, 8 for its bytes and 1 to add.
    "dispatch": Booked(
        "1110",
        core_0={"busy": 7, "replay": 12, "dispatcher": 1036},
        core_1={"busy": 4, "core": 3, "replay": 12, "dispatcher": 1036},
        known_before=0,
        machine={"weight_buffer_kib": 16},
    ),
    # Sequence 1 travels from core 1 to core 0 and back; nobody needs core 1.
    "idle": Booked(
        "0100",
        core_0={"busy": 4, "exchange": 2, "ddr": 612},
        core_1={"idle": 618},
    ),
    # Core 1 adds what three others replay: 10 cycles of latency, 192 bytes, 1 cycle.
    "replays": Booked(
        "0100",
        core_0={"busy": 4, "exchange": 2, "ddr": 612},
        core_1={"busy": 1, "ddr": 34, "core": 583},
        machine={"weight_sharing": "private"},
    ),
}


def cycles_by_state(hardware: Hardware, phase: Outcome) -> dict[str, dict[str, int]]:
    """Cycles of each core and port in a phase by state, without states that have none."""
    account = accounts(arrays(hardware), phase.booked[0].tolist(), int(phase.cycles[0]))
    return {
        unit: {state: cycles for state, cycles in states.items() if cycles}
        for unit, states in account.items()
    }


@pytest.mark.parametrize("case", BOOKED.values(), ids=BOOKED)
def test_cycles_of_each_core_by_hand(case: Booked) -> None:
    hardware = ideal_hardware(**case.machine)
    phases = Phases(hardware, book=booked)
    mlp = compute(phases, case.computing, case.known_before, schedule="drs")
    cycles = cycles_by_state(hardware, mlp)
    assert cycles["core 0"] == case.core_0
    assert cycles["core 1"] == case.core_1


def test_cycles_of_a_port_by_hand() -> None:
    # All replay: 10 cycles of latency, 4 x 64 bytes, and a cycle in which cores add them.
    hardware = ideal_hardware()
    mlp = compute(Phases(hardware, book=booked), "0000", 10**6, schedule="drs")
    port = cycles_by_state(hardware, mlp)["port ddr"]
    assert port == {"ddr": 10, "busy": 32, "idle": 1}


def test_a_port_that_a_core_starves_behind_is_waited_for() -> None:
    # Three tiles of 1 KiB through two slots: the third is asked for at 1,130, and comes 1,000
    # cycles later; meanwhile nothing flows, and the port waits for its memory, not for room.
    hardware = ideal_hardware(latency=1000, weight_buffer_kib=2)
    port = cycles_by_state(hardware, qkv(Phases(hardware, book=booked)))["port ddr"]
    assert port["busy"] == 3 * 128
    assert "core" not in port
    assert port["ddr"] > 1800


def test_accounts_of_a_run_sum_to_its_latency() -> None:
    report = tiny_report("machine.overheads.step_us=2.5")
    frame = report.accounts()
    assert (frame >= 0).all(axis=None)
    assert frame.loc["all"].sum(axis=1).to_numpy() == pytest.approx(report.chosen.latency_s)
    busy = frame.loc["all"]["busy"].filter(like="core").mean() / report.chosen.latency_s
    assert busy == pytest.approx(report.chosen.busy)
    for phase, seconds in report.chosen.seconds_by_phase.items():
        assert frame.loc[phase].sum(axis=1).to_numpy() == pytest.approx(seconds)


def simulated(replay: np.ndarray, **machine: object) -> Simulation:
    """Six steps in frames of two of the ideal machine, decisions bool[G, 6, 2, 4]."""
    plan = Plan(
        phases=Phases(ideal_hardware(**machine)),
        video=Video(n_frames=3, tokens_per_frame=2, prompt_tokens=0),
        attention=PLAIN,
        schedule="drs",
        rule=FASTCAR,
        steps=range(6),
    )
    return simulate_policy(plan, Batches(replay, 1, 0, "", ""))


@pytest.fixture(scope="module")
def replay() -> np.ndarray:
    drawn = np.random.default_rng(5).random((3, 6, 2, 4)) < 0.6
    drawn[:, :2] = False
    return drawn


def test_the_bound_knows_no_groups_of_the_register(replay: np.ndarray) -> None:
    """It moves weights once for each layer-step in which any sequence computes, and replays."""
    moved = sum(4608 * (not row.all()) + 64 * 4 for row in replay.reshape(-1, 4))
    for bits in (2, 3, 32):
        mlp = simulated(replay, drs={"index_register_bits": bits}).totals["mlp"]
        assert mlp.bound_dram_bytes == (moved, 0)
        # 32 cycles where all replay; else the bytes take longest, at 8 a cycle.
        assert mlp.bound_cycles == moved // 8
        # Weights of each group that computes, where the register holds a part of the batch alone.
        groups = [slice(first, first + bits) for first in range(0, 4, bits)]
        fetched = 0
        for batch, step, layer in np.ndindex(3, 6, 2):
            row = replay[batch, step, layer]
            groups_of_step = groups if step >= 2 else [slice(4)]  # the first frame decides nothing
            fetched += 4608 * sum(not row[group].all() for group in groups_of_step) + 64 * 4
        assert mlp.dram_bytes == (fetched, 0)


def test_a_core_of_the_bound_has_room_for_an_even_share() -> None:
    """Four sequences on two cores with room for two: two may share a core, three cannot."""
    bound = mlp_bound(Phases(ideal_hardware(weight_sharing="private")), 4)
    weights = [0, 4608, 4608, 2 * 4608, 2 * 4608]
    assert bound.nbytes[0, :, 0].tolist() == [nbytes + 4 * 64 for nbytes in weights]


def test_no_schedule_of_experts_beats_their_bound() -> None:
    experts = {"count": 16, "active": 2}
    private = small_design(weight_sharing="private")
    design = override(private, {"model.body.experts": experts, "model.body.ffn_size": 500})
    phases = Phases(Hardware(design))
    computing = np.array(list(product((False, True), repeat=4)))
    bound = mlp_bound(phases, 4).cycles[0, computing.sum(axis=1)]
    for schedule in SCHEDULES.values():
        assert (bound <= mlp(phases, schedule, RowCases(computing, None)).cycles).all()


def test_a_bound_on_fewer_cores_moves_what_all_sequences_read() -> None:
    """With private weights two of three cores are the least: 6144 products on each, and as many
    bytes at one a cycle; three stream 9216, one has 12288 products. Each of four rows reads a key
    of 32 bytes for its score.
    """
    hardware = ideal_hardware(
        cores=3,
        array={"rows": 1, "cols": 1, "pipeline_cycles": 0},
        rate=1,
        weight_sharing="private",
        placement={"weights": "ddr", "kv": "second", "replay": "ddr", "head": "ddr"},
        decision_at="q",
    )
    scored = qkv(Phases(hardware), FASTCAR)
    assert scored.bound_dram_bytes.tolist() == [[2 * 3072, 4 * 32]]
    assert scored.dram_bytes.tolist() == [[3 * 3072, 4 * 32]]
    twice = sum_outcomes([(scored, np.array([[[2]]]))]).of(design=0, member=0)
    assert twice.bound_dram_bytes == (2 * 2 * 3072, 2 * 4 * 32)


def test_memories_that_move_side_by_side_are_not_added(replay: np.ndarray) -> None:
    placement = {"weights": "ddr", "kv": "second", "replay": "second", "head": "ddr"}
    simulation = simulated(replay, placement=placement)
    limits = {limit.phase: limit for limit in phase_limits(simulation)}
    hertz = simulation.plan.hw.design.board.fabric_clock_mhz * 1e6
    uses_both = []
    for phase, limit in limits.items():
        total = simulation.totals[phase]
        slower_bytes = max(total.dram_bytes)  # at 1 GB/s each, see ideal.py
        cycles = limit.memory_share * total.cycles
        assert cycles == pytest.approx(slower_bytes / 1e9 * hertz)
        uses_both.append(min(total.dram_bytes) > 0)
    assert any(uses_both)


def test_energy_per_token_is_that_of_the_tokens_of_all_streams() -> None:
    """A batch of two videos yields two tokens a step."""
    for row in tiny_report().rows:
        spent = row.decode_energy.board.value_j
        steps = row.simulation.plan.video.n_steps
        assert row.batches.videos_per_batch == 2
        assert row.energy_per_token.value_j == pytest.approx(spent / (row.n_batches * 2 * steps))


def test_the_energy_of_the_bound_is_that_of_its_bytes_and_time() -> None:
    """A bound has the arithmetic of its row; memories move less, and idle for less time."""
    report = tiny_report()
    row = report.chosen
    bound = report.bound
    joules_of_row = {part.component: part.value_j for part in row.energy.components}
    joules_of_bound = {part.component: part.value_j for part in bound.energy.components}

    def share(component: str) -> float:
        return joules_of_bound[component] / joules_of_row[component]

    time_share = bound.cycles / row.cycles
    moved_share = bound.dram_bytes["ps_ddr"] / row.dram_bytes["ps_ddr"]
    assert time_share < 1
    assert share("multiply-accumulates") == 1
    assert share("device static") == pytest.approx(time_share)
    assert share("memory ps_ddr") == pytest.approx(moved_share)
