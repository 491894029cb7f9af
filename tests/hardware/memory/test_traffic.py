"""Traffic: where the bursts of an access pattern go, and in what order."""

import itertools

import pytest

from carsim.hardware.memory import STANDARDS, AccessPattern
from carsim.hardware.memory.traffic import Burst, bursts

DDR4 = STANDARDS["DDR4-2400"]  # 4 groups of 4 banks, 128 bursts of 64 B to a row
HBM2 = STANDARDS["HBM2-2000"]  # 4 groups of 4 banks, 32 bursts of 32 B to a row


def first(access: AccessPattern, count: int) -> list[Burst]:
    return list(itertools.islice(bursts(DDR4, access, 64), count))


def test_a_sequential_stream_visits_all_banks_before_it_comes_back_to_one() -> None:
    banks = [burst.bank for burst in first(AccessPattern(), 64)]
    assert sorted(banks[:16]) == list(range(16))
    assert banks[:48] == banks[16:]
    assert banks[1] == (banks[0] + 1) % 16  # and so goes to another bank group each time


def test_interleaved_bank_groups_keep_a_stream_in_one_bank_of_each() -> None:
    found = itertools.islice(bursts(HBM2, AccessPattern(aligned=True), 32), 256)
    banks, rows, _ = zip(*found, strict=True)
    # 4 groups x 32 bursts of one bank each, then the next bank; pairs of bursts are 64 bytes.
    assert set(banks[:128]) == {0, 1, 2, 3}
    assert set(banks[128:]) == {4, 5, 6, 7}
    assert banks[:9] == (0, 0, 1, 1, 2, 2, 3, 3, 0)
    assert set(rows) == {0}


def test_streams_take_turns_chunk_by_chunk_in_rows_of_their_own() -> None:
    found = first(AccessPattern(3, 256), 36)
    rows = [burst.row for burst in found]
    chunks = [set(rows[start : start + 4]) for start in range(0, 36, 4)]
    assert len(set(rows)) == 3
    assert all(len(chunk) == 1 for chunk in chunks)
    assert chunks[:3] == chunks[3:6] == chunks[6:]
    assert found[12].bank == (found[3].bank + 1) % 16  # a stream goes on where it stopped


def test_random_chunks_are_aligned_to_their_length_and_scattered() -> None:
    found = first(AccessPattern(chunk_bytes=1024, random=True), 16 * 200)
    assert all(found[start].bank == 0 for start in range(0, len(found), 16))
    assert len({burst.row for burst in found}) > 190


@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize("read_fraction", [1.0, 0.9, 0.7, 0.5, 0.0])
def test_the_share_of_reads_is_exact_over_ten_chunks(random: bool, read_fraction: float) -> None:
    found = first(AccessPattern(chunk_bytes=256, random=random, read_fraction=read_fraction), 40)
    written = [burst.is_write for burst in found]
    assert sum(written) == round(40 * (1 - read_fraction))
    assert all(len(set(written[start : start + 4])) == 1 for start in range(0, 40, 4))


def test_reads_and_writes_of_a_sequential_mix_lie_apart() -> None:
    found = first(AccessPattern(read_fraction=0.5), 256)
    assert {b.row for b in found if b.is_write}.isdisjoint(b.row for b in found if not b.is_write)


def test_a_chunk_smaller_than_a_burst_takes_a_whole_one() -> None:
    assert AccessPattern(chunk_bytes=16, random=True).useful_share(64) == 0.25
    assert AccessPattern(chunk_bytes=96, random=True).useful_share(64) == 0.75
    assert AccessPattern(chunk_bytes=96).useful_share(64) == 1.0  # one stream has no seams


def test_a_request_is_several_bursts_of_a_narrow_channel_and_one_of_hbm() -> None:
    assert AccessPattern().bursts_per_request(DDR4, 16) == 4
    assert AccessPattern(chunk_bytes=32, random=True).bursts_per_request(DDR4, 16) == 2
    assert AccessPattern().bursts_per_request(HBM2, 32) == 1
