"""Offset syncs and group checkpoints have MirrorMaker's bytes; what is none of them is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.mirror.offset_formats import (
    GroupCheckpoint,
    OffsetSync,
    checkpoint_from,
    sync_from,
)
from barnabas.types import TopicPartition

OF = TopicPartition("ab", 3)
CHECKPOINT = GroupCheckpoint("g", OF, 5, 7)


def test_bytes_are_mirror_makers() -> None:
    sync = OffsetSync(OF, 5, 7)
    assert sync.key().hex() == "0002616200000003"
    assert sync.value().hex() == "00000000000000050000000000000007"
    assert CHECKPOINT.key().hex() == "0001670002616200000003"
    assert CHECKPOINT.value().hex() == "0000000000000000000500000000000000070000"


@pytest.mark.slow
@given(
    st.text(max_size=20), st.text(max_size=20), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)
)
def test_written_offsets_are_read_back(group: str, topic: str, partition: int, offset: int) -> None:
    of = TopicPartition(topic, partition)
    sync, checkpoint = OffsetSync(of, offset, 1), GroupCheckpoint(group, of, 0, offset)
    assert sync_from(sync.key(), sync.value()) == sync
    assert checkpoint_from(checkpoint.key(), checkpoint.value()) == checkpoint


@pytest.mark.slow
@given(st.binary(max_size=40), st.binary(max_size=40))
def test_foreign_records_are_errors_or_values(key: bytes, value: bytes) -> None:
    for read in (sync_from, checkpoint_from):
        try:
            read(key, value)
        except PipelineError:
            continue


def test_a_later_version_is_refused() -> None:
    with pytest.raises(PipelineError, match="version 1"):
        checkpoint_from(CHECKPOINT.key(), b"\0\1" + CHECKPOINT.value()[2:])
