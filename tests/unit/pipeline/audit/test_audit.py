"""An audit of folders names partition, offsets, file and what is wrong; and says nothing of whole ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.pipeline.audit.comparison import differences
from barnabas.pipeline.audit.log_files import check_folder, partitions_in
from barnabas.pipeline.audit.replica_check import Finding
from barnabas.record.builder import build_batch

SEGMENTS = ((0, 5), (5, 10))
RECORDS = 3


def batch(
    number: int, *, epoch: int = 1, value: bytes = b"v", deltas: list[int] | None = None
) -> bytes:
    return build_batch(
        [(b"k", value)] * (RECORDS if deltas is None else len(deltas)),
        timestamp_ms=number,
        base_offset=number * RECORDS,
        leader_epoch=epoch,
        offset_deltas=deltas,
    )


def replica(folder: Path, **changed: bytes) -> str:
    """Ten batches of three records in two segments; `changed` replaces some (b7=...)."""
    directory = folder / "t-0"
    directory.mkdir(parents=True)
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    for first, end in SEGMENTS:
        data = b"".join(changed.get(f"b{n}", batch(n)) for n in range(first, end))
        (directory / f"{first * RECORDS:020}.log").write_bytes(data)
    return str(folder)


def findings(*folders: str) -> list[Finding]:
    reports = [check_folder(each, "t", 0) for each in folders]
    return [*(one for each in reports for one in each.findings), *differences(reports)]


def test_whole_and_equal_replicas_have_no_findings(tmp_path: Path) -> None:
    first, second = replica(tmp_path / "1"), replica(tmp_path / "2", b9=b"")
    assert partitions_in(first) == [("t", 0)]
    assert findings(first, second) == []
    report = check_folder(first, "t", 0)
    assert (report.start, report.end, report.records) == (0, 30, 30)


@pytest.mark.parametrize("byte", [62, -1])
def test_a_rotten_batch_is_named_with_file_and_offsets(tmp_path: Path, byte: int) -> None:
    rotten = bytearray(batch(6))
    rotten[byte] ^= 1
    folder = replica(tmp_path / "1", b6=bytes(rotten))
    (found,) = findings(folder, replica(tmp_path / "2"))
    assert (found.first, found.last, found.replica) == (18, 20, folder)
    assert found.what == "the CRC does not match"
    assert (found.file, found.position) == (f"{folder}/t-0/{15:020}.log", len(batch(5)))


@pytest.mark.parametrize(
    ("changed", "what", "first", "last"),
    [
        ({"b3": b""}, "offsets are missing", 9, 11),
        ({"b5": b""}, "offsets are missing", 15, 17),
        ({"b3": batch(3, deltas=[0, 2])}, "the batch has 2 records for 3 offsets", 9, 11),
        ({"b3": batch(2)}, "offsets go back: the batch before ends at 9", 6, 8),
        ({"b8": batch(8, epoch=0)}, "the leader epoch goes back from 1 to 0", 24, 26),
    ],
)
def test_offsets_and_epochs_are_followed(
    tmp_path: Path, changed: dict[str, bytes], what: str, first: int, last: int
) -> None:
    found = findings(replica(tmp_path, **changed))
    assert (what, first, last) in [(each.what, each.first, each.last) for each in found]


def test_a_replica_that_differs_is_named_from_the_first_offset_on(tmp_path: Path) -> None:
    first = replica(tmp_path / "1")
    other = replica(tmp_path / "2", b4=batch(4, value=b"w"), b9=b"")
    (found,) = findings(first, other)
    assert (found.first, found.last, found.replica) == (12, 14, other)
    assert found.what == f"another batch than on {first}"
    assert found.file == f"{other}/t-0/{0:020}.log"
    (found,) = findings(first, replica(tmp_path / "3", b4=batch(4, epoch=2), b9=b"", b5=batch(5, epoch=2),
                        b6=batch(6, epoch=2), b7=batch(7, epoch=2), b8=batch(8, epoch=2)))  # fmt: skip
    assert (found.what, found.first) == (f"leader epoch 2, on {first} 1", 12)


def test_a_cut_off_end_and_foreign_bytes_are_distinguished(tmp_path: Path) -> None:
    (cut,) = findings(replica(tmp_path / "1", b9=batch(9)[:-1]))
    assert "recovery removes it" in cut.what
    assert cut.first == 27
    found = findings(replica(tmp_path / "2", b1=b"x" * 100))
    assert "no record batch" in found[0].what
    assert found[0].position == len(batch(0))


def test_a_compacted_partition_may_lack_offsets(tmp_path: Path) -> None:
    folder = replica(tmp_path, b3=b"", b4=batch(4, deltas=[0, 2]))
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 15\n")
    assert findings(folder) == []
