"""Names in a log directory that only look like those of logs and segments."""

from __future__ import annotations

import pytest

from barnabas.log.directories.log_directory import partition_of
from barnabas.log.file_names import offset_of
from barnabas.types import TopicPartition


@pytest.mark.parametrize("name", ["t-²", "t-٣", "t-", "-1", "t", f"t-{'9' * 200}"])
def test_a_folder_without_a_partitions_number_is_no_log(name: str) -> None:
    """``str.isdigit`` accepts ``²``, at which ``int`` raises: a broker with such a folder did not start."""
    assert partition_of(name) is None
    assert partition_of("t-3") == TopicPartition("t", 3)


def test_a_file_without_an_offset_is_no_segment() -> None:
    assert offset_of("²" * 20 + ".log") is None
    assert offset_of(f"{7:020}.log") == 7
