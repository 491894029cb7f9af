"""TempCache, AnnSA and AnnCA in videos that are made in chunks: work and room by hand, bad input.

The hand calculation is that of one row of LongLive 1.3B: chunks of 4,680 tokens, 12 heads of 128
elements, 30 layers, 5 forwards a chunk, a prompt of 512 tokens, 8 bits of everything.
"""

from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import pytest

from carsim import InputError, load_design, run
from carsim.account.totals import PhaseTotals
from carsim.decisions.attention import ATTENTION
from carsim.design import Design, override
from carsim.design.load import for_work
from carsim.machine.arrays import MachineArrays
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import operations_of
from carsim.program.diffusion import AttendChunks, Cross
from carsim.program.reads import Steps
from carsim.runs.report import Report
from carsim.workload.geometry import Video
from carsim.workload.ops import Share
from carsim.workload.workload import workload_of

N, D, HEADS, HEAD, LAYERS, FORWARDS, TEXT = 4680, 1536, 12, 128, 30, 5, 512
CHUNKS, TILES = 3, 2
KEYS = [N * (chunk + 1) for chunk in range(CHUNKS)]
WORK = f"chunks:longlive_1.3b,chunks={CHUNKS},window=21"
DENSITY = Fraction(168, 1000)

TEMP = {"kind": "temp_cache", "density": 0.168, "search": "full"}
ANN = {"kind": "ann", "density": 0.25}
CROSS = {"kind": "ann_ca", "density": 0.331}


def design_with(attention: dict[str, Any]) -> Design:
    """LongLive on eight cores with query tiles of 390: two in each core."""
    design = for_work(load_design("asic_7nm_hbm3"), workload_of(WORK))
    return override(design, {"policy.attention": attention, "machine.query_tile": 390})


def report_of(attention: dict[str, Any]) -> Report:
    """A run of the policy, dense attention beside it."""
    return run(design_with(attention), workload=WORK, what_if=False, allow_misfit=True)


def totals(attention: dict[str, Any], name: str) -> tuple[PhaseTotals, PhaseTotals]:
    """Sums over a block under dense attention, and under the policy."""
    report = report_of(attention)
    dense = next(row for row in report.rows if row.variant.attention.kind == "dense")
    return dense.simulation.totals[name], report.chosen.simulation.totals[name]


def up(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def held_groups() -> list[int]:
    """Representatives of earlier chunks, in each chunk."""
    return [ceil(DENSITY * (keys - N)) for keys in KEYS]


# ------------------------------------------------------------------ by hand


def moved_bytes(scored: list[int], further: list[int]) -> int:
    """Bytes of attention: K and V once for each query tile, Q and outputs, and further ones.

    Args:
        scored: Keys that are scored, by chunk.
        further: Bytes of the policy in a forward, by chunk.
    """
    forwards = [TILES * keys * 2 * D + 2 * N * D for keys in scored]
    return LAYERS * FORWARDS * (sum(forwards) + sum(further))


@pytest.mark.parametrize("match", ["exact", "quantised", "lsh"])
def test_merged_keys_by_hand(match: str) -> None:
    dense, own = totals({**TEMP, "match": match}, "attention")
    groups = held_groups()
    scored = [N + group for group in groups]
    searches, nbytes = [], []
    for group in groups:
        codes = {"exact": 0, "quantised": HEADS * (HEAD + 2), "lsh": HEADS * 1}[match]
        compared = N * group * D
        macs = {"exact": compared + N * D, "quantised": compared, "lsh": N * D * 8}[match]
        of_groups = group * HEADS * (2 + 2)
        if group == 0:  # nothing is merged in the first chunk
            searches.append(0)
            nbytes.append(0)
            continue
        searches.append(up(macs, FORWARDS))
        # Compaction, and keys that are turned back: of the chunk alone where codes are kept.
        kv_elements = 4 * group * D + ((N + group) * D if match == "exact" else N * D)
        nbytes.append(
            group * HEADS * 2
            + up(group * codes + of_groups, FORWARDS)
            + up(N * codes + of_groups, FORWARDS)
            + up(kv_elements, FORWARDS)
        )
    pairs = sum(2 * N * keys * D for keys in scored)
    macs = LAYERS * FORWARDS * (pairs + sum(searches))
    assert own.macs == pytest.approx(macs, rel=1e-6)  # a product is of whole heads
    assert sum(own.dram_bytes) == pytest.approx(moved_bytes(scored, nbytes), rel=1e-6)
    assert sum(dense.dram_bytes) == moved_bytes(KEYS, [0] * CHUNKS)
    assert dense.macs == LAYERS * FORWARDS * sum(2 * N * keys * D for keys in KEYS)


def test_buckets_of_signatures_by_hand() -> None:
    _, own = totals(ANN, "attention")
    scored = [keys // 4 for keys in KEYS]
    planes = 4 * 6
    hashed = N * 2 * D * planes
    macs = LAYERS * FORWARDS * sum(2 * N * keys * D + hashed for keys in scored)
    assert own.macs == macs
    codes = HEADS * 3  # bytes of 24 signs
    moved = [2 * 2 * (N * D + keys * D) + (keys + N) * codes for keys in KEYS]
    assert sum(own.dram_bytes) == moved_bytes(scored, moved)


@pytest.mark.parametrize(("bits", "code"), [(8, HEAD + 2), (32, 4 * HEAD)])
def test_an_exact_search_costs_half_of_the_products(bits: int, code: int) -> None:
    policy = {"kind": "ann", "search": "quantised", "keep": 0.25, "key_bits": bits}
    _, own = totals(policy, "attention")
    scored = [keys // 4 for keys in KEYS]
    searched = [N * keys * D for keys in KEYS]
    pairs = [2 * N * keys * D for keys in scored]
    assert own.macs == LAYERS * FORWARDS * (sum(pairs) + sum(searched))
    moved = [(keys + N) * HEADS * code for keys in KEYS]
    assert sum(own.dram_bytes) == moved_bytes(scored, moved)


def test_prompt_tokens_that_are_met_by_hand() -> None:
    dense, own = totals(CROSS, "cross")
    met = ceil(Fraction(331, 1000) * TEXT)
    per_forward = 2 * N * (TEXT - met) * D - N * D * 2 * 8  # scores saved, queries hashed
    assert dense.macs - own.macs == LAYERS * FORWARDS * CHUNKS * per_forward
    codes = TEXT * HEADS * 2  # signatures of 16 signs
    more = sum(own.dram_bytes) - sum(dense.dram_bytes)
    assert more == LAYERS * FORWARDS * CHUNKS * codes


def test_a_stack_searches_what_was_merged() -> None:
    merging = {**TEMP, "match": "lsh"}
    stack = {"kind": "stack", "policies": [merging, ANN, CROSS]}
    _, own = totals(stack, "attention")
    groups = held_groups()
    scored = [ceil(Fraction(N + group, 4)) for group in groups]
    search = [up(N * D * 8 * (group > 0), FORWARDS) + N * 2 * D * 24 for group in groups]
    pairs = [2 * N * keys * D for keys in scored]
    assert own.macs == pytest.approx(LAYERS * FORWARDS * (sum(pairs) + sum(search)), rel=1e-6)
    _, cross = totals(stack, "cross")
    _, cross_alone = totals(CROSS, "cross")
    assert cross.macs == cross_alone.macs


@pytest.mark.parametrize(
    ("attention", "scored"),
    [
        (TEMP, N + ceil(DENSITY * 2 * N)),
        (ANN, 3 * N // 4),
        ({"kind": "stack", "policies": [TEMP, ANN]}, ceil((N + ceil(DENSITY * 2 * N)) / 4)),
    ],
)
def test_exponentials_are_those_of_scored_keys(attention: dict[str, Any], scored: int) -> None:
    design = design_with(attention)
    machine = MachineArrays.of([Hardware(design)])
    keys = tuple(keys for keys in KEYS for _ in range(FORWARDS))
    block = AttendChunks(tokens=N, keys_of_forward=keys, done_of_forward=(1.0,) * len(keys))
    last = np.array([CHUNKS * FORWARDS])
    steps = Steps(last, Video(1, 1, 0), design.policy.attention)
    *_, attend = operations_of(machine, block, block.reads(steps))(Share(N))
    assert int(np.max(attend.exponentials)) == N * HEADS * scored


def test_exponentials_of_a_prompt_are_those_of_tokens_that_are_met() -> None:
    design = design_with(CROSS)
    machine = MachineArrays.of([Hardware(design)])
    block = Cross(tokens=N, keys=TEXT)
    steps = Steps(np.array([1]), Video(1, 1, 0), design.policy.attention)
    ops = operations_of(machine, block, block.reads(steps))(Share(N))
    assert max(int(np.max(op.exponentials)) for op in ops) == N * HEADS * 170


# ------------------------------------------------------------------ room, limits


def test_merged_keys_take_less_room() -> None:
    held = {}
    for name, attention in {"dense": {"kind": "dense"}, "merged": {**TEMP, "match": "lsh"}}.items():
        contents = {
            each.content: each.nbytes
            for use in report_of(attention).fit.memories
            for each in use.contents
        }
        held[name] = contents["KV cache"]
        if name == "merged":
            groups = ceil(DENSITY * 2 * N)
            # Members and length of two bytes each, and a signature of one.
            assert contents["data of the policy"] == LAYERS * groups * HEADS * (2 + 2 + 1)
    assert held["dense"] == LAYERS * (3 * N + TEXT) * 2 * D
    assert held["merged"] == LAYERS * (N + ceil(DENSITY * 2 * N) + TEXT) * 2 * D


@pytest.mark.parametrize("kind", ["temp_cache", "ann", "ann_ca", "stack"])
def test_policies_that_leave_nothing_out_are_dense(kind: str) -> None:
    trivial = ATTENTION[kind].trivial()
    report = run(
        override(design_with({"kind": "dense"}), {"policy.attention": trivial.model_dump()}),
        workload=WORK,
        what_if=False,
        allow_misfit=True,
    )
    dense = report.rows[0].simulation
    assert report.chosen.simulation.cycles == dense.cycles
    assert report.chosen.simulation.activity == dense.activity


def test_representatives_differ_in_element_operations_alone() -> None:
    by_kind = {}
    for kind in ("latest", "mean", "medoid"):
        _, own = totals({**TEMP, "match": "lsh", "representative": kind}, "attention")
        by_kind[kind] = own
    assert by_kind["latest"].macs == by_kind["mean"].macs == by_kind["medoid"].macs
    assert by_kind["latest"].dram_bytes == by_kind["medoid"].dram_bytes
    ops = [by_kind[kind].vector_ops for kind in ("latest", "mean", "medoid")]
    chunks_that_merge, per_forward = 2 * LAYERS * FORWARDS, N * (3 * D + HEADS) / FORWARDS
    assert ops[1] - ops[0] == pytest.approx(chunks_that_merge * per_forward, rel=1e-3)
    assert ops[0] < ops[1] < ops[2]


@pytest.mark.parametrize(
    ("attention", "problem"),
    [
        ({"kind": "temp_cache"}, "policy.attention.density: is missing"),
        ({"kind": "ann"}, "policy.attention.density: is missing"),
        ({"kind": "ann_ca"}, "policy.attention.density: is missing"),
        ({"kind": "streaming"}, "is a policy of decoding"),
        ({"kind": "stack", "policies": [ANN, TEMP]}, "policies[1]: 'temp_cache' merges keys"),
        ({"kind": "stack", "policies": [{"kind": "draft"}]}, "'draft' is dense in some steps"),
        ({"kind": "stack", "policies": [{"kind": "ann"}]}, "policies[0].density: is missing"),
        ({"kind": "stack", "policies": [{"kind": "streaming"}]}, "is a policy of decoding"),
    ],
)
def test_bad_policies_get_one_line(attention: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        report_of(attention)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_sample_made_at_once_has_no_earlier_chunks() -> None:
    work = "diffusion:wan2.1_1.3b,passes=1"
    design = for_work(load_design("zcu102"), workload_of(work))
    merging = override(design, {"policy.attention": TEMP})
    with pytest.raises(InputError, match="merges keys of earlier chunks"):
        run(merging, workload=work, what_if=False)
    searching = run(
        override(design, {"policy.attention": ANN}), workload=work, what_if=False, allow_misfit=True
    )
    assert searching.chosen.cycles < searching.rows[0].cycles


def test_fields_of_chunks_are_refused_where_tokens_are_decoded() -> None:
    design = override(load_design("zcu102"), {"policy.attention": TEMP})
    with pytest.raises(InputError, match="density: is of forwards"):
        run(design, what_if=False)
