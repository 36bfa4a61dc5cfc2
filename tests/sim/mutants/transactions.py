"""Bugs of transactions: their coordinator, their markers, what leaders, groups and readers make of them."""

from __future__ import annotations

from typing import Any

from barnabas.broker.fetch import fetch_read
from barnabas.broker.transaction.markers import Markers
from barnabas.broker.transaction.partition_verifier import CoordinatorVerifier
from barnabas.group.offset_table import OffsetTable
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.state.producer_state import TRUSTED, ProducerStates, Verification
from barnabas.sim.run import Plan
from barnabas.transaction import ending as endings
from barnabas.transaction import machine, transaction
from barnabas.transaction.machine import TransactionMachine
from barnabas.transaction.outcome import SendMarkers, TransactionOutcome
from barnabas.transaction.overdue import OpenTransactions
from barnabas.transaction.states import TransactionState
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.sim.mutants.planting import Mutant, Patch


def markers_before_the_decision() -> list[Patch]:
    """They go out while the decision may still be lost."""
    honest = TransactionMachine._prepare

    def at_once(
        self: TransactionMachine,
        transactional_id: str,
        ending: Any,
        reply: Any,
        timed_out: bool = False,
    ) -> TransactionOutcome:
        outcome = honest(self, transactional_id, ending, reply, timed_out)
        if ending.partitions:
            outcome.effects = [SendMarkers(transactional_id, ending)]
            outcome.on_settled = None
        return outcome

    return [(TransactionMachine, "_prepare", at_once)]


def markers_given_up() -> list[Patch]:
    """A leader that did not take its marker is not asked again."""

    honest = Markers._try_later

    def forgets(self: Markers, ending: Any, places: Any) -> None:
        for place in places:
            ending.remaining.pop(place, None)
        honest(self, ending, {})

    return [(Markers, "_try_later", forgets)]


def decisions_forgotten() -> list[Patch]:
    """A new coordinator does not continue with the ends that the one before had decided."""
    honest = TransactionMachine.on_loaded

    def forgets(self: TransactionMachine, at: Any) -> list[TransactionOutcome]:
        honest(self, at)
        return []

    return [(TransactionMachine, "on_loaded", forgets)]


def completed_early() -> list[Patch]:
    """The first leader that has its marker completes the transaction."""
    honest = Markers._on_answers

    def first_is_enough(self: Markers, broker: int, ending: Any, places: Any, answers: Any) -> None:
        honest(self, broker, ending, places, answers)
        if ending.remaining and len(ending.remaining) < len(ending.markers.ending.partitions):
            ending.remaining.clear()
            self._complete(ending)

    return [(Markers, "_on_answers", first_is_enough)]


def aborts_become_commits() -> list[Patch]:
    """What a new coordinator finds undone is committed, whatever was decided."""
    honest = TransactionMachine._fence

    def commits(self: TransactionMachine, *arguments: Any, **named: Any) -> TransactionOutcome:
        outcome = honest(self, *arguments, **named)
        (record,) = outcome.records
        assert record.transaction is not None
        ending = record.transaction._replace(state=TransactionState.PREPARE_COMMIT)
        prepared: TransactionOutcome = self._prepare(record.transactional_id, ending, outcome.reply)
        return prepared

    return [(TransactionMachine, "_fence", commits)]


def fenced_without_an_epoch() -> list[Patch]:
    """Who takes a transactional id over gets the epoch of the one before."""
    honest = transaction.with_next_epoch

    def same_again(before: Any, *arguments: Any, **named: Any) -> Any:
        after = honest(before, *arguments, **named)
        return after._replace(producer_epoch=max(0, before.producer_epoch))

    return [(machine, "with_next_epoch", same_again)]


def open_transactions_taken_over() -> list[Patch]:
    """A new producer continues in the open transaction of the one before."""
    honest = TransactionMachine._init

    def hide_open_transaction(
        self: TransactionMachine, request: Any, fresh_id: Any, at: Any
    ) -> TransactionOutcome:
        known = self.ids.get(request.transactional_id)
        if known is not None and known.state is TransactionState.ONGOING:
            self.ids._newest[request.transactional_id] = known._replace(
                state=TransactionState.COMPLETE_ABORT
            )
        return honest(self, request, fresh_id, at)

    return [(TransactionMachine, "_init", hide_open_transaction)]


def prepared_times_out() -> list[Patch]:
    """It gets a short one."""
    honest = machine._timeout_ms

    def short(request: Any, settings: Any) -> int:
        return 1_000 if request.enable2_pc else honest(request, settings)

    return [(machine, "_timeout_ms", short)]


def time_never_over() -> list[Patch]:
    return [(OpenTransactions, "find_overdue", lambda self, known, at: [])]


def ends_known_by_name_only() -> list[Patch]:
    """EndTxn takes any epoch of the producer id."""
    honest = endings.decide_end

    def any_epoch(now: Any, wish: Any, wall_ms: int) -> Any:
        return honest(now, wish._replace(producer_epoch=now.producer_epoch), wall_ms)

    return [(machine, "decide_end", any_epoch)]


def writes_unasked() -> list[Patch]:
    """A leader takes a transaction's first batch without asking the coordinator."""

    def yes(
        self: CoordinatorVerifier,
        name: str,
        producer_id: int,
        epoch: int,
        places: Any,
        **named: Any,
    ) -> None:
        named["on_done"](dict.fromkeys(places, ErrorCode.NONE))

    return [(CoordinatorVerifier, "verify", yes)]


def aborted_not_named() -> list[Patch]:
    """Fetch answers leave out which transactions were aborted."""
    return [(fetch_read, "_aborted", lambda *arguments: [])]


def open_ones_readable() -> list[Patch]:
    """Readers of committed records get everything below the high watermark."""
    stable = property(lambda self: self.high_watermark)
    return [(PartitionLog, "last_stable_offset", stable)]


def offsets_apply_at_once() -> list[Patch]:
    """A group's offsets hold before their transaction is committed."""

    def at_once(
        self: OffsetTable, producer_id: int, group_id: str, place: Any, offset: Any
    ) -> None:
        self.put(group_id, place, offset)

    return [(OffsetTable, "put_pending", at_once)]


def offsets_never_apply() -> list[Patch]:
    """A group's offsets are forgotten when their transaction ends, however it ends."""
    honest = OffsetTable.end_transaction

    def drops(self: OffsetTable, producer_id: int, committed: bool) -> None:
        honest(self, producer_id, False)

    return [(OffsetTable, "end_transaction", drops)]


def pending_offsets_hidden() -> list[Patch]:
    """``require_stable`` answers what was committed before, though a transaction has more to say."""
    return [(OffsetTable, "is_pending", lambda self, group_id, place: False)]


def open_ones_forgotten() -> list[Patch]:
    """A snapshot of the producers does not say which transactions are open."""
    honest = ProducerStates.load

    def forgets(self: ProducerStates, *arguments: Any, **named: Any) -> Any:
        result = honest(self, *arguments, **named)
        self.open_transactions.clear()
        for entry in self.entries.values():
            entry.transaction_start = None
        return result

    return [(ProducerStates, "load", forgets)]


EAGER = Plan(eager=True)


def questions_voided_by_any_marker() -> list[Patch]:
    """Whatever is written of a producer voids the question about its next transaction."""
    return [(Verification, "is_voided_by", lambda self, header: True)]


def questions_kept_behind_their_marker() -> list[Patch]:
    """No marker voids a question, and no epoch is too low for a batch."""
    honest = ProducerStates.check

    def lenient(self: ProducerStates, header: Any, verification: Any = TRUSTED) -> Any:
        entry = self.entries.get(header.producer_id)
        if entry is None or header.producer_epoch >= entry.epoch:
            return honest(self, header, verification)
        return None

    keeps = (Verification, "is_voided_by", lambda self, header: not header.is_control)
    return [keeps, (ProducerStates, "check", lenient)]


def ends_refused_while_ending() -> list[Patch]:
    """EndTxn with the next epoch is refused while the markers of the transaction before are on their way."""
    honest = endings.decide_end

    def by_epoch(now: Any, wish: Any, wall_ms: int) -> Any:
        if now.is_ending and now.producer_epoch != wish.producer_epoch + 1:
            raise KafkaError(ErrorCode.PRODUCER_FENCED, "planted")
        return honest(now, wish, wall_ms)

    return [(machine, "decide_end", by_epoch)]


def ids_compared_while_ending() -> list[Patch]:
    """A producer's next id is unknown while the markers of its last epoch are on their way."""
    honest = TransactionMachine.add_partitions

    def by_id(
        self: TransactionMachine,
        transactional_id: str,
        producer_id: int,
        *arguments: Any,
        **named: Any,
    ) -> TransactionOutcome:
        known = self.ids.get(transactional_id)
        if known is not None and known.producer_id != producer_id:
            return TransactionOutcome(
                reply=KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "planted")
            )
        return honest(self, transactional_id, producer_id, *arguments, **named)

    return [(TransactionMachine, "add_partitions", by_id)]


def late_markers_end_the_next_transaction() -> list[Patch]:
    """A marker that is delivered once more ends the transaction that is open by then."""
    honest = ProducerStates.check_marker

    def any_version(
        self: ProducerStates, header: Any, coordinator_epoch: int, transaction_version: int = 0
    ) -> None:
        honest(self, header, coordinator_epoch, 0)

    return [(ProducerStates, "check_marker", any_version)]


MUTANTS = (
    Mutant("markers-before-decision", "markers go out before the end is committed to the coordinator's log",
           markers_before_the_decision),
    Mutant("markers-given-up", "a marker that a leader did not take is not sent again", markers_given_up),
    Mutant("decisions-forgotten", "a new coordinator does not continue with ends that were decided",
           decisions_forgotten),
    Mutant("completed-early", "a transaction is complete when the first leader has its marker",
           completed_early),
    Mutant("fenced-is-committed", "what a fenced producer left open is committed", aborts_become_commits),
    Mutant("fenced-without-epoch", "a new producer of a transactional id gets the epoch of the former one",
           fenced_without_an_epoch),
    Mutant("open-taken-over", "a new producer continues in the former one's open transaction",
           open_transactions_taken_over),
    Mutant("time-never-over", "a transaction whose time is over is not aborted", time_never_over),
    Mutant("prepared-times-out", "a transaction in two-phase commit has a time-out", prepared_times_out),
    Mutant("any-epoch-ends", "EndTxn is taken from a producer of a former epoch", ends_known_by_name_only),
    Mutant("written-unasked", "a batch is taken into a transaction without asking its coordinator",
           writes_unasked),
    Mutant("aborted-not-named", "Fetch does not say which transactions were aborted", aborted_not_named),
    Mutant("open-readable", "readers of committed records see open transactions", open_ones_readable),
    Mutant("offsets-at-once", "offsets of a transaction hold before it is committed",
           offsets_apply_at_once),
    Mutant("offsets-never", "offsets of a committed transaction are forgotten", offsets_never_apply),
    Mutant("pending-hidden", "offsets are answered as stable while a transaction is pending",
           pending_offsets_hidden),
    Mutant("open-forgotten", "a snapshot of producers forgets open transactions", open_ones_forgotten),
    Mutant("question-voided", "the marker of a transaction voids the question about the next one",
           questions_voided_by_any_marker, EAGER),
    Mutant("end-refused", "EndTxn with the next epoch is refused while the markers are on their way",
           ends_refused_while_ending, EAGER),
    Mutant("next-id-refused", "a producer's next id is refused while the markers are on their way",
           ids_compared_while_ending, EAGER),
    Mutant("late-marker-ends", "a marker that comes once more ends the next transaction",
           late_markers_end_the_next_transaction, EAGER),
    Mutant("question-kept", "a batch is taken behind the marker of its transaction",
           questions_kept_behind_their_marker, EAGER),
)  # fmt: skip
