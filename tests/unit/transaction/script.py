"""Text scripts for transactions: one command per line after ``> ``, what it caused below it.

Producers are single letters, all of the transactional id ``tx`` unless they say ``id=``; each remembers the
producer id and epoch that it was given last. Below each command stand the records that were written (``+``;
``*`` once committed where held), the markers that were sent (``>>``) and the answers that arrived (``=``).
``BARNABAS_REWRITE=1`` rewrites the files; the difference is for the reader to judge.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from barnabas.transaction.machine import record_of
from barnabas.transaction.outcome import TransactionOutcome
from barnabas.transaction.record_codec import decode_record
from barnabas.transaction.transaction import Transaction
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import add_offsets_to_txn_request as offsets
from barnabas.wire.messages import add_partitions_to_txn_request as add
from barnabas.wire.messages import describe_transactions_request as describe
from barnabas.wire.messages import end_txn_request as ending
from barnabas.wire.messages import init_producer_id_request as init
from barnabas.wire.messages import list_transactions_request as listing
from tests.unit.group.world import Pending
from tests.unit.transaction.offsets_script import OffsetCommands
from tests.unit.transaction.world import World


class Producer:
    def __init__(self, name: str) -> None:
        self.name = name
        self.transactional_id = "tx"
        self.producer_id = -1
        self.epoch = -1


class Requests:
    """The commands that send a request."""

    def __init__(self) -> None:
        self.world = World()
        self.producers: dict[str, Producer] = {}
        self.waiting: list[tuple[str, Producer, Pending]] = []

    def do_init(self, name: str, again: str = "", **given: str) -> None:
        """``again``: the producer says which id and epoch it has (KIP-360). ``lost=yes``: it does not get
        the answer."""
        producer = self._producer(name, given)
        request = init.InitProducerIdRequest(
            transactional_id=producer.transactional_id,
            transaction_timeout_ms=int(given.get("timeout", "60000")),
            producer_id=producer.producer_id if again else -1,
            producer_epoch=producer.epoch if again else -1,
            enable2_pc="two_phase" in given,
            keep_prepared_txn="keep" in given,
        )
        told = Producer(f"{name} lost:") if "lost" in given else producer
        self._send("init", told, request, given.get("version", "6"))

    def do_add(self, name: str, *places: str, version: str = "3", **given: str) -> None:
        """``version=5``: by a broker, for a producer of version 2; ``verify=yes`` only asks."""
        producer = self._producer(name, given)
        topics: dict[str, list[int]] = {}
        for place in places:
            topic, _, index = place.partition("/")
            topics.setdefault(topic, []).append(int(index))
        wanted = [
            add.AddPartitionsToTxnTopic(name=topic, partitions=indexes)
            for topic, indexes in topics.items()
        ]
        request = add.AddPartitionsToTxnRequest()
        if int(version) < 4:
            request.v3_and_below_transactional_id = producer.transactional_id
            request.v3_and_below_producer_id = producer.producer_id
            request.v3_and_below_producer_epoch = producer.epoch
            request.v3_and_below_topics = wanted
        else:
            request.transactions = [
                add.AddPartitionsToTxnTransaction(
                    transactional_id=producer.transactional_id,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    verify_only="verify" in given,
                    topics=wanted,
                )
            ]
        self._send("add", producer, request, version)

    def do_verify(self, name: str, *places: str) -> None:
        self.do_add(name, *places, version="5", verify="yes")

    def do_offsets(self, name: str, group: str, version: str = "4") -> None:
        producer = self._producer(name, {})
        request = offsets.AddOffsetsToTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group,
        )
        self._send("offsets", producer, request, version)

    def do_commit(self, name: str, **given: str) -> None:
        self._end(name, True, given)

    def do_abort(self, name: str, **given: str) -> None:
        self._end(name, False, given)

    def _end(self, name: str, commit: bool, given: dict[str, str]) -> None:
        producer = self._producer(name, given)
        request = ending.EndTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=int(given.get("pid", producer.producer_id)),
            producer_epoch=int(given.get("epoch", producer.epoch)),
            committed=commit,
        )
        what = "commit" if commit else "abort"
        self._send(what, producer, request, given.get("version", "4"))

    def do_describe(self, *names: str) -> None:
        request = describe.DescribeTransactionsRequest(transactional_ids=list(names or ("tx",)))
        self._send("describe", self._producer("-", {}), request, "0")

    def do_list(self, **given: str) -> None:
        request = listing.ListTransactionsRequest(
            state_filters=given["states"].split(",") if "states" in given else [],
            producer_id_filters=[int(given["pid"])] if "pid" in given else [],
            duration_filter=int(given.get("longer", "-1")),
            transactional_id_pattern=given.get("like"),
        )
        self._send("list", self._producer("-", {}), request, "2")

    def _producer(self, name: str, given: dict[str, str]) -> Producer:
        producer = self.producers.setdefault(name, Producer(name))
        producer.transactional_id = given.get("id", producer.transactional_id)
        return producer

    def _send(self, what: str, producer: Producer, request: Any, version: str) -> None:
        self.waiting.append((what, producer, self.world.send(request, int(version))))


class Commands(Requests):
    """The commands that move the world."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = self.markers_shown = 0
        self.first_ending: Transaction | None = None

    def do_config(self, level: str = "2", **given: str) -> None:
        """``key=value`` of the broker; begins again."""
        self.world = World(1, int(level), **given)

    def do_topic(self, name: str, **given: str) -> None:
        self.world.topic(name, **{key: int(value) for key, value in given.items()})

    def do_delete_topic(self, name: str) -> None:
        self.world.delete(name)

    def do_lead(self, place: str, leader: str) -> None:
        topic, _, index = place.partition("/")
        self.world.lead(topic, int(index), int(leader))

    def do_level(self, level: str) -> None:
        """The cluster's ``transaction.version`` changes."""
        self.world.level = int(level)

    def do_wait(self, seconds: str) -> None:
        self.world.advance(float(seconds) * 1000)

    def do_epoch(self, name: str, epoch: str) -> None:
        """Many transactions later: the coordinator and the producer have this epoch."""
        producer = self.producers[name]
        coordinators = self.world.coordinators
        machine = coordinators.shards[0].machine
        known = machine.ids.get(producer.transactional_id)
        assert known is not None
        changed = known._replace(producer_epoch=int(epoch))
        record = record_of(machine._level(), producer.transactional_id, changed)
        outcome = TransactionOutcome([record])
        coordinators.write(producer.transactional_id, lambda machine, at: outcome)
        self.world.settle()
        producer.epoch = int(epoch)

    def do_no_ids(self) -> None:
        """The controller gives no producer ids."""
        self.world.no_ids = True

    def do_ids(self) -> None:
        self.world.no_ids = False

    def do_hold(self) -> None:
        """Followers of the coordinator's partition stop to follow."""
        self.world.held = True

    def do_release(self) -> None:
        self.world.held = False
        self.world.settle()

    def do_hold_markers(self) -> None:
        """Leaders do not answer."""
        self.world.leaders.held = True

    def do_answer_markers(self, broker: str = "") -> None:
        """Leaders answer again; with `broker`: only that one does, to what it was asked."""
        if broker:
            self.world.leaders.answer(int(broker))
        else:
            self.world.leaders.held = False
            self.world.leaders.answer()
        self.world.settle()

    def do_complete_again(self, name: str = "tx") -> None:
        """Says once more that the markers of the first transaction that was ended are written."""
        machine = self.world.coordinators.shards[0].machine
        known = machine.ids.get(name)
        if known is not None and self.first_ending is None and known.state.label == "PrepareCommit":
            self.first_ending = known
        ending = self.first_ending
        assert ending is not None
        self.world.coordinators.write(name, lambda machine, at: machine.complete(name, ending, at))
        self.world.settle()

    def do_lose_broker(self, broker: str) -> None:
        """Its connections end."""
        self.world.leaders.silent[int(broker)] = None

    def do_find_broker(self, broker: str) -> None:
        self.world.leaders.silent.pop(int(broker))

    def do_refuse_markers(self, place: str, code: str) -> None:
        """The leader of a partition refuses markers."""
        topic, _, index = place.partition("/")
        self.world.leaders.refusals[topic, int(index)] = ErrorCode[code]

    def do_accept_markers(self) -> None:
        self.world.leaders.refusals.clear()

    def do_refuse(self, code: str) -> None:
        """The coordinator's log refuses appends."""
        self.world.logs[0].refusal = ErrorCode[code]

    def do_accept(self) -> None:
        self.world.logs[0].refusal = None

    def do_resign(self) -> None:
        """Another broker becomes leader, and coordinator."""
        self.world.resign()

    def do_elect(self, how: str = "") -> None:
        """This broker becomes leader again; ``lossy`` where the other one had less."""
        if how:
            self.world.logs[0].truncate()
            self.shown = min(self.shown, len(self.world.logs[0].records()))
        self.world.elect()


class Script(OffsetCommands, Commands):
    """Runs a text, and shows what happened."""

    def run(self, text: str) -> str:
        out: list[str] = []
        for line in text.splitlines():
            if line.startswith(("#", "> ")) or not line.strip():
                out.append(line)
            if line.startswith("> "):
                out += self._command(line[2:].split("#")[0].split())
        return "\n".join(out) + "\n"

    def _command(self, words: list[str]) -> list[str]:
        plain = [word for word in words[1:] if "=" not in word]
        given = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        told = getattr(self, f"do_{words[0].replace('-', '_')}")(*plain, **given)
        for shard in self.world.coordinators.shards.values():
            if shard.active:
                shard.machine.validate()
        said = [f"= {line}" for line in told or ()]
        return [*self._records(), *self._markers(), *said, *self._answers()]

    # -- what is shown ---------------------------------------------------------------------------

    def _records(self) -> list[str]:
        log = self.world.logs[0]
        records = log.records()
        new, self.shown = records[self.shown :], len(records)
        return [f"  {'*' if r.offset < log.high_watermark else '+'} {_record(r)}" for r in new]

    def _markers(self) -> list[str]:
        seen = self.world.leaders.seen
        new, self.markers_shown = seen[self.markers_shown :], len(seen)
        lines = []
        for broker, marker in new:
            what = "commit" if marker.transaction_result else "abort"
            places = [f"{t.name}/{index}" for t in marker.topics for index in t.partition_indexes]
            lines.append(
                f"  >> {broker}: {what} {marker.producer_id}/{marker.producer_epoch}"
                f" {' '.join(places)}, coordinator epoch {marker.coordinator_epoch},"
                f" version {marker.transaction_version}"
            )
        return lines

    def _answers(self) -> list[str]:
        lines, waiting = [], []
        for what, producer, pending in self.waiting:
            if pending.answer is None:
                waiting.append((what, producer, pending))
            else:
                tell = getattr(self, f"_tell_{what}", self._tell_code)
                lines += [f"= {line}" for line in tell(what, producer, pending.answer)]
        self.waiting = waiting
        return lines

    def _tell_init(self, what: str, producer: Producer, answer: Any) -> list[str]:
        if answer.error_code:
            return self._tell_code(what, producer, answer)
        producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch
        return [f"{producer.name} is {answer.producer_id}/{answer.producer_epoch}"]

    def _tell_add(self, what: str, producer: Producer, answer: Any) -> list[str]:
        topics = [
            *answer.results_by_topic_v3_and_below,
            *(topic for result in answer.results_by_transaction for topic in result.topic_results),
        ]
        return [
            f"{producer.name} {topic.name}/{part.partition_index}"
            f" {ErrorCode(part.partition_error_code).name}"
            for topic in topics
            for part in topic.results_by_partition
        ]

    def _tell_end(self, what: str, producer: Producer, answer: Any) -> list[str]:
        if answer.error_code or answer.producer_id < 0:
            return self._tell_code(what, producer, answer)
        producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch
        return [f"{producer.name} {what} NONE, is {answer.producer_id}/{answer.producer_epoch}"]

    _tell_commit = _tell_abort = _tell_end

    def _tell_describe(self, what: str, producer: Producer, answer: Any) -> list[str]:
        lines = []
        for one in answer.transaction_states:
            if one.error_code:
                lines.append(f"{one.transactional_id} {ErrorCode(one.error_code).name}")
                continue
            places = [f"{t.topic}/{index}" for t in one.topics for index in t.partitions]
            lines.append(
                f"{one.transactional_id} {one.transaction_state}"
                f" {one.producer_id}/{one.producer_epoch}"
                f" time-out {one.transaction_timeout_ms} {' '.join(places)}".rstrip()
            )
        return lines

    def _tell_list(self, what: str, producer: Producer, answer: Any) -> list[str]:
        if answer.error_code:
            return self._tell_code(what, producer, answer)
        lines = [
            f"{one.transactional_id} {one.transaction_state} {one.producer_id}"
            for one in answer.transaction_states
        ]
        return lines + [f"unknown state {name}" for name in answer.unknown_state_filters]

    def _tell_code(self, what: str, producer: Producer, answer: Any) -> list[str]:
        return [f"{producer.name} {what} {ErrorCode(answer.error_code).name}"]


def _record(raw: Any) -> str:
    record = decode_record(raw.key, raw.value)
    assert record is not None
    known = record.transaction
    if known is None:
        return f"{record.transactional_id} deleted"
    places = " ".join(f"{place.topic}/{place.partition}" for place in known.partitions)
    following = "" if known.next_producer_id < 0 else f", then {known.next_producer_id}"
    return (
        f"{record.transactional_id} {known.state.label} {known.producer_id}/{known.producer_epoch}"
        f" {places}".rstrip()
        + following
        + ("" if record.version else ", value 0")
    )


def run_file(path: Path) -> tuple[str, str]:
    """What the script file contains, and what it should."""
    present = path.read_text()
    return present, Script().run(present)
