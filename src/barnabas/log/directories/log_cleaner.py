"""When and what to compact: one log at a time, the dirtiest first, in the background, throttled.

Reading and writing run through ``ports.background``; between two groups of segments the round waits as
``log.cleaner.io.max.bytes.per.second`` asks. Progress is kept in ``cleaner-offset-checkpoint`` per directory.
A log whose batches are corrupt is left alone until they are mended, with the reason in `uncleanable`; one
that cannot be compacted for any other reason, until the next start.

Source: ``LogCleaner`` and ``LogCleanerManager`` of Apache Kafka 4.3 for behaviour.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

from barnabas.config.settings import LogManagerSettings
from barnabas.log import checkpoints
from barnabas.log.compaction import cleaning_pass
from barnabas.log.compaction.compaction_rules import KEY_COST
from barnabas.log.compaction.compactor import Compactor, HelpedCompactor, LocalCompactor
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.directories.log_listener import LogEvents
from barnabas.log.directories.log_selection import Candidates, MissingCheckpoint, dirtiest
from barnabas.log.errors import CorruptLogError
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.ports import HasHelper, HelperDied, Ports, Wakeup
from barnabas.types import TopicPartition

T = TypeVar("T")
HELPER_DEATHS_MAX = 2
"""In a row: then this process compacts itself."""


class CleanableLogs(Candidates, Protocol):
    """The part of the log directories that compaction needs."""

    def remove_later(self, log: PartitionLog) -> None: ...
    def checkpoint(
        self, name: str, only: LogDirectory | None = None, done: Callable[[], None] | None = None
    ) -> None: ...
    @property
    def events(self) -> LogEvents: ...


class Round:
    """One log being compacted."""

    def __init__(
        self, log: PartitionLog, directory: LogDirectory, plan: cleaning_pass.CleaningPlan
    ) -> None:
        self.log = log
        self.compactor: Compactor = LocalCompactor()
        self.end = 0
        """Up to which the round compacts."""
        self.directory = directory
        self.plan = plan
        self.groups: list[list[cleaning_pass.SourceSegment]] = []
        self.writes = -1
        """Base offset of the group that is being rewritten."""
        self.bytes_read = self.bytes_written = self.records = 0
        self.started_ms = 0.0


class LogCleaner:
    """Compacts the logs whose ``cleanup.policy`` asks for it."""

    def __init__(self, ports: Ports, settings: LogManagerSettings, logs: CleanableLogs) -> None:
        self._ports = ports
        self.settings = settings
        """May be replaced at any time; read again at each use."""
        self._logs = logs
        self._round: Round | None = None
        self._wakeup: Wakeup | None = None
        self._checkpoint = MissingCheckpoint(
            lambda directory, done: logs.checkpoint(checkpoints.RECOVERY_POINT, directory, done),
            lambda: self._tick(may_checkpoint=False),
        )
        self._paused: set[TopicPartition] = set()
        self.first_dirty: dict[TopicPartition, int] = {}
        self.uncleanable: dict[TopicPartition, str] = {}
        self._misread: dict[TopicPartition, str] = {}
        """The reasons why a log that is sound on disk was left alone."""
        self.rounds = 0
        self.helped_rounds = 0
        self.helper_deaths = 0
        self._had_helper = False

    @property
    def under_way(self) -> Round | None:
        """The round that is being done now."""
        return self._round

    def load(self, directory: LogDirectory) -> None:
        """Load how far compaction of the directory's logs, which are open, has come."""
        self.first_dirty.update(directory.compacted())

    def start(self) -> None:
        if self.settings.cleaner:
            self._arm(self.settings.cleaner_backoff_ms)

    def stop(self) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
        self._round = None
        self._checkpoint.cancel()
        self._end_helper()

    def forget(self, partition: TopicPartition) -> None:
        """Its log is gone; another one may come by the same name."""
        self.give_up_on(partition)
        self._paused.discard(partition)
        self.first_dirty.pop(partition, None)
        self.on_mended(partition)

    def on_mended(self, partition: TopicPartition) -> None:
        """Nothing of what a round found in this log is there any more."""
        self.uncleanable.pop(partition, None)
        self._misread.pop(partition, None)

    def on_sound(self, partition: TopicPartition) -> None:
        """The batch is intact on disk: either it was a transient read error, and the next round succeeds; or
        the batch has a valid CRC over invalid records, and the next round fails again."""
        reason = self.uncleanable.get(partition)
        if reason is not None and self._misread.get(partition) != reason:
            self._misread[partition] = reason
            del self.uncleanable[partition]

    def pause(self, partition: TopicPartition) -> None:
        """No compaction of this log until `resume`: it is being copied."""
        self._paused.add(partition)
        self.give_up_on(partition)

    def resume(self, partition: TopicPartition) -> None:
        self._paused.discard(partition)

    def give_up_on(self, partition: TopicPartition) -> None:
        """Give up on a round of this log, if one is under way: what it read is not what is there now."""
        if self._round is not None and self._round.log.partition == partition:
            self._give_up(self._round)

    def _arm(self, delay_ms: float) -> None:
        when = self._ports.clock.now_ms() + max(delay_ms, 1.0)
        self._wakeup = self._ports.wakeups.call_at(when, self._tick)

    def _tick(self, *, may_checkpoint: bool = True) -> None:
        begun = self._round is not None
        try:
            begun = begun or self._begin_dirtiest(may_checkpoint=may_checkpoint)
        finally:  # a fault of one log must not be the end of all compaction
            if not begun:
                self._end_helper()
                self._arm(self.settings.cleaner_backoff_ms)

    def _end_helper(self) -> None:
        """Nothing to do for now: its memory goes back."""
        if self._had_helper and isinstance(self._ports, HasHelper):
            self._ports.helper.close()

    # -- choosing --------------------------------------------------------------------------------

    def _begin_dirtiest(self, *, may_checkpoint: bool) -> bool:
        """Begin a round on the log that needs it most, or write the checkpoint that alone holds one back
        (it comes once in ``log.flush.offset.checkpoint.interval.ms``); False where no round is due."""
        left_alone = {*self.uncleanable, *self._paused}
        chosen = dirtiest(self._ports, self._logs, self.first_dirty, left_alone)
        if chosen is not None:
            self._begin(Round(*chosen))
            return True
        if not may_checkpoint:
            return False
        held = dirtiest(self._ports, self._logs, self.first_dirty, left_alone, as_checkpointed=True)
        if held is not None:
            self._checkpoint.write(held.directory)
        return held is not None

    def _begin(self, work: Round) -> None:
        self._round = work
        work.started_ms = self._ports.clock.now_ms()
        keys_max = max(self.settings.cleaner_dedupe_bytes // KEY_COST, 1)
        plan = work.plan

        work.compactor = compactor = self._compactor_for(plan)

        def job() -> int:
            return compactor.begin(plan, keys_max)

        def done(end: int) -> None:
            work.end = end
            work.bytes_read = plan.dirty_bytes
            work.groups = cleaning_pass.groups_of(plan, end)
            self._next_group(work)

        self._run(work, job, done)

    def _compactor_for(self, plan: cleaning_pass.CleaningPlan) -> Compactor:
        ports = self._ports
        if plan.dirty_bytes + plan.clean_bytes < ports.bounds.logs.helped_from_bytes:
            return LocalCompactor()
        if self.helper_deaths >= HELPER_DEATHS_MAX or not isinstance(ports, HasHelper):
            return LocalCompactor()
        if not self._had_helper:
            self._had_helper = True
            ports.log(
                "info",
                "log.compaction_helper_starts",
                note="with the extra [fast] it compiles for half a minute once per installation",
            )
        return HelpedCompactor(ports.helper)

    # -- a round ---------------------------------------------------------------------------------

    def _next_group(self, work: Round) -> None:
        if work.log.generations.truncation_count != work.plan.truncation_count:
            # Cut while the round was throttled: its plan says nothing of what came since.
            self._give_up(work)
            return
        if not work.groups:
            self._finish(work)
            return
        group = work.groups.pop(0)
        work.writes = group[0].base_offset

        def done(result: cleaning_pass.Cleaned) -> None:
            if not cleaning_pass.swap(work.log, work.plan, result):
                self._give_up(work)
                return
            self._logs.remove_later(work.log)
            work.bytes_read += result.bytes_read
            work.bytes_written += result.size
            work.records += result.records
            self._after(self._throttle_ms(work), lambda: self._next_group(work))

        self._run(work, lambda: work.compactor.clean(group), done)

    def _throttle_ms(self, work: Round) -> float:
        """How long to wait so that reading and writing stay below what is allowed."""
        rate = self.settings.cleaner_bytes_per_second_max
        wanted = (work.bytes_read + work.bytes_written) / rate * 1000 if rate > 0 else 0.0
        return wanted - (self._ports.clock.now_ms() - work.started_ms)

    def _after(self, delay_ms: float, action: Callable[[], None]) -> None:
        if delay_ms <= 0:
            action()
        else:
            when = self._ports.clock.now_ms() + delay_ms
            self._wakeup = self._ports.wakeups.call_at(when, action)

    def _finish(self, work: Round) -> None:
        partition = work.log.partition
        self.first_dirty[partition] = work.end
        work.log.generations.forget_cuts()
        self.rounds += 1
        if isinstance(work.compactor, HelpedCompactor):
            self.helped_rounds += 1
            self.helper_deaths = 0
        self._ports.log(
            "info",
            "log.compacted",
            partition=str(partition),
            up_to=work.end,
            bytes_before=work.plan.dirty_bytes + work.plan.clean_bytes,
            bytes_after=work.bytes_written,
            records=work.records,
            helped=isinstance(work.compactor, HelpedCompactor),
            took_ms=round(self._ports.clock.now_ms() - work.started_ms),
        )

        def saved() -> None:
            if self._round is work:
                self._round = None
                self._tick()

        self._save(work.directory, saved)

    def _save(self, directory: LogDirectory, done: Callable[[], None]) -> None:
        """Say durably how far the directory's logs are compacted; also where the round was given up
        meanwhile, since its gaps are there."""
        write = directory.compaction_job(self.first_dirty)

        def finish(result: object) -> None:
            try:
                if isinstance(result, BaseException):
                    raise result
                if not write.finish():  # a log was cut, or recreated
                    self._save(directory, done)
                    return
            except OSError as error:
                self._logs.fail(directory, f"writing {checkpoints.CLEANER} failed: {error}")
            done()

        self._ports.background.run(f"clean {directory.path}", write.job, finish)

    def _give_up(self, work: Round) -> None:
        self._round = None
        if self._wakeup is not None:
            self._wakeup.cancel()  # of a throttled round
        self._arm(self.settings.cleaner_backoff_ms)

    def _run(self, work: Round, job: Callable[[], T], done: Callable[[T], None]) -> None:
        """A step of `work` in the background; what goes wrong ends the round."""

        def step() -> T:
            if self._round is not work:  # it must not start another helper process, either
                raise HelperDied("the round was given up")
            return job()

        def finish(result: T | BaseException) -> None:
            if self._round is not work:
                _remove_cleaned(self._ports, work, self._round)
                return
            if isinstance(result, BaseException):
                self._on_error(work, result)
                return
            try:
                done(result)
            except Exception as error:  # noqa: BLE001 - told there as what it is
                self._on_error(work, error)

        self._ports.background.run(f"clean {work.directory.path}", step, finish)

    def _on_error(self, work: Round, error: BaseException) -> None:
        partition = work.log.partition
        gone = (
            self._logs.logs.get(partition) is not work.log
            or work.log.generations.truncation_count != work.plan.truncation_count
        )
        if gone or isinstance(error, FileNotFoundError):
            pass  # deleted, cut or retained away while it was read
        elif isinstance(error, CorruptLogError):
            self._leave_alone(partition, str(error))
            self._logs.events.corrupt(partition, error)
        elif isinstance(error, HelperDied):
            self._on_helper_died(error)
            self._give_up(work)
            _remove_cleaned(self._ports, work, self._round)
            return
        elif isinstance(error, OSError):
            self._logs.fail(work.directory, f"compacting {partition} failed: {error}")
        else:
            self._leave_alone(partition, repr(error))
            self._give_up(work)
            raise error  # a fault of this program: told as one, and other logs are compacted
        self._give_up(work)

    def _leave_alone(self, partition: TopicPartition, reason: str) -> None:
        self.uncleanable[partition] = reason
        self._ports.log("error", "log.uncleanable", partition=str(partition), reason=reason)

    def _on_helper_died(self, error: HelperDied) -> None:
        """Start the round again: the segments that it has swapped already stay."""
        self.helper_deaths += 1
        if self.helper_deaths == HELPER_DEATHS_MAX:
            self._ports.log("warning", "log.compacting_without_helper", reason=str(error))


def _remove_cleaned(ports: Ports, work: Round, now: Round | None) -> None:
    """Remove the files of the abandoned round `work`, which are never swapped in. (The round that runs `now`
    removes leftovers itself where it writes, and its later groups are not written yet.)"""
    plan, base = work.plan, work.writes
    writes = now is not None and now.plan.directory == plan.directory and now.writes == base
    if base >= 0 and not writes:

        def job() -> None:
            with suppress(OSError):  # the next start removes it
                cleaning_pass.remove_cleaned(plan, base)

        ports.background.run(f"clean {work.directory.path}", job, lambda _: None)
