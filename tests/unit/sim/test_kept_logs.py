"""A broker that was merely killed and comes back with less than it had is found out at its next start."""

from __future__ import annotations

import pytest

from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.sim.run import Plan, play_seed


@pytest.mark.slow
def test_recovery_that_drops_the_last_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    add_log = LogDirectories.add_log

    def adopt_less(self: LogDirectories, directory: LogDirectory, log: PartitionLog) -> None:
        if not directory.was_clean and log.log_end_offset > 10:
            log.truncate_to(log.log_end_offset - 1)
        add_log(self, directory, log)

    monkeypatch.setattr(LogDirectories, "add_log", adopt_less)
    result = play_seed(1, Plan(nodes=3, faults=frozenset({"kill"})))
    assert result.judge == "kept_logs" and "comes back with an end of" in result.failure
