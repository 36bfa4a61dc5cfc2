"""Produce and fetch against one broker: acks, errors, offsets, bounds, sessions, waiting."""

from __future__ import annotations

import gc

import pytest

from barnabas.broker.fetch.delayed_fetch import DelayedFetch
from barnabas.client.network.connection import ChannelError
from barnabas.record.builder import build_batch
from barnabas.record.compression import Codec
from barnabas.types import Uuid
from barnabas.wire.messages.fetch_request import FetchPartition, FetchTopic, ForgottenTopic
from barnabas.wire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata_request import MetadataRequest
from barnabas.wire.messages.produce_request import ProduceRequest
from tests.unit.broker.world import Cluster, code, values_of


@pytest.fixture(scope="module")
def shared() -> Cluster:
    """One node for tests that bring their own topics."""
    return Cluster(1)


def topic(cluster: Cluster, name: str, **configs: str) -> str:
    cluster.create_topic(name, 2, 1, **configs)
    return name


class TestProduce:
    @pytest.mark.parametrize("version", [3, 7, 8, 9, 12, 13])
    def test_every_version_appends_and_answers(self, shared: Cluster, version: int) -> None:
        name = topic(shared, f"versions-{version}")
        first = shared.produce([b"a", b"b"], topic=name, version=version)
        second = shared.produce([b"c"], topic=name, version=version, acks=1)
        assert (first.error_code, first.base_offset) == (0, 0)
        assert (second.error_code, second.base_offset) == (0, 2)
        assert values_of(shared.fetch(topic=name)) == [b"a", b"b", b"c"]

    def test_acks_0_has_no_answer(self, shared: Cluster) -> None:
        name = topic(shared, "acks-0")
        shared.ask_later(shared.produce_request([b"a"], topic=name, acks=0), version=9)
        shared.until(lambda: shared.partition(1, name).high_watermark == 1)

    def test_acks_0_that_fails_ends_the_connection(self, shared: Cluster) -> None:
        name = topic(shared, "acks-0-bad")
        request = shared.produce_request([b"a"], topic=name, acks=0, batch=b"x" * 70)
        shared.ask_later(request, version=9, purpose="doomed")
        with pytest.raises(ChannelError):
            answer = shared.ask_later(
                shared.produce_request([b"a"], topic=name), version=9, purpose="doomed"
            )
            shared.until(lambda: answer.is_there)
            raise answer.value
        assert shared.partition(1, name).high_watermark == 0

    def test_acks_that_do_not_exist(self, shared: Cluster) -> None:
        name = topic(shared, "acks-2")
        assert (
            code(shared.produce([b"a"], topic=name, acks=2).error_code) == "INVALID_REQUIRED_ACKS"
        )

    def test_zstd_from_version_7(self, shared: Cluster) -> None:
        name = topic(shared, "zstd")
        batch = build_batch(
            [(b"k", b"a")], timestamp_ms=shared.client.clock.wall_ms(), codec=Codec.ZSTD
        )
        refused = shared.produce([], topic=name, version=6, batch=batch)
        assert code(refused.error_code) == "UNSUPPORTED_COMPRESSION_TYPE"
        assert shared.produce([], topic=name, version=7, batch=batch).error_code == 0

    def test_unknown_topics_by_name_and_by_id(self, shared: Cluster) -> None:
        name = topic(shared, "known")
        request = shared.produce_request([b"a"], topic=name)
        request.topic_data[0].name = "unknown"
        by_name = shared.ask(request, version=12).responses[0].partition_responses[0]
        assert code(by_name.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
        request.topic_data[0].topic_id = Uuid(bytes(range(16)))
        request.topic_data[0].name = ""
        by_id = shared.ask(request, version=13).responses[0].partition_responses[0]
        assert code(by_id.error_code) == "UNKNOWN_TOPIC_ID"

    def test_an_error_of_one_partition_leaves_the_others(self, shared: Cluster) -> None:
        name = topic(shared, "half")
        request: ProduceRequest = shared.produce_request([b"a"], topic=name)
        good = request.topic_data[0].partition_data[0]
        bad = type(good)(index=7, records=good.records)
        request.topic_data[0].partition_data = [bad, good]
        answers = shared.ask(request, version=12).responses[0].partition_responses
        assert [code(a.error_code) for a in answers] == ["UNKNOWN_TOPIC_OR_PARTITION", "NONE"]

    def test_corrupt_old_and_oversized_batches(self, shared: Cluster) -> None:
        name = topic(shared, "bad", max_message_bytes="200")
        batch = bytearray(build_batch([(b"k", b"v")], timestamp_ms=0))
        batch[-1] ^= 1
        assert code(shared.produce([], topic=name, batch=bytes(batch)).error_code) == (
            "CORRUPT_MESSAGE"
        )
        batch[16] = 1
        old = shared.produce([], topic=name, batch=bytes(batch))
        assert code(old.error_code) == "INVALID_RECORD"
        assert code(shared.produce([b"x" * 300], topic=name).error_code) == "MESSAGE_TOO_LARGE"
        assert shared.partition(1, name).high_watermark == 0

    def test_internal_topics_are_closed_to_clients(self, shared: Cluster) -> None:
        shared.create_topic("__consumer_offsets", 2, 1)
        answer = shared.produce([b"a"], topic="__consumer_offsets")
        assert code(answer.error_code) == "INVALID_TOPIC_EXCEPTION"

    def test_an_idempotent_producer_repeats_itself_unharmed(self, shared: Cluster) -> None:
        name = topic(shared, "twice")
        now = shared.client.clock.wall_ms()

        def batch(sequence: int) -> bytes:
            return build_batch(
                [(b"k", b"v")], timestamp_ms=now, producer_id=9, producer_epoch=0,
                base_sequence=sequence,
            )  # fmt: skip

        assert shared.produce([], topic=name, batch=batch(0)).base_offset == 0
        assert shared.produce([], topic=name, batch=batch(1)).base_offset == 1
        again = shared.produce([], topic=name, batch=batch(0))
        assert (again.error_code, again.base_offset) == (0, 0)
        gap = shared.produce([], topic=name, batch=batch(5))
        assert code(gap.error_code) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
        assert shared.partition(1, name).high_watermark == 2


class TestFetch:
    def test_a_fetch_below_and_beyond_the_log(self, shared: Cluster) -> None:
        name = topic(shared, "range")
        shared.produce([b"a", b"b"], topic=name)
        assert code(shared.fetch(3, topic=name).error_code) == "OFFSET_OUT_OF_RANGE"
        assert code(shared.fetch(-1, topic=name).error_code) == "OFFSET_OUT_OF_RANGE"
        assert not shared.fetch(2, topic=name).records

    def test_bytes_are_bounded_but_one_batch_always_comes(self, shared: Cluster) -> None:
        name = topic(shared, "bounds")
        for _ in range(4):
            shared.produce([b"x" * 500], topic=name)
        whole = shared.fetch(topic=name)
        assert len(values_of(whole)) == 4
        assert len(values_of(shared.fetch(topic=name, max_bytes=10))) == 1
        assert len(values_of(shared.fetch(topic=name, partition_bytes=10))) == 1

    def test_a_fetch_of_a_peer_that_does_not_read_its_answers_gets_one_batch(
        self, shared: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = topic(shared, "pressed")
        for _ in range(4):
            shared.produce([b"x" * 500], topic=name)
        monkeypatch.setattr("barnabas.broker.fetch.session_reader.UNSENT_BYTES_TOTAL", -1)
        assert len(values_of(shared.fetch(topic=name))) == 1

    def test_epochs_are_checked(self, shared: Cluster) -> None:
        name = topic(shared, "epochs")
        shared.produce([b"a"], topic=name)
        assert code(shared.fetch(topic=name, leader_epoch=0).error_code) == "NONE"
        assert code(shared.fetch(topic=name, leader_epoch=5).error_code) == "UNKNOWN_LEADER_EPOCH"
        diverged = shared.fetch(1, topic=name, last_fetched_epoch=0)
        assert diverged.diverging_epoch.epoch == -1
        shared.until(lambda: True)
        beyond = shared.fetch(5, topic=name, last_fetched_epoch=0)
        assert (beyond.diverging_epoch.epoch, beyond.diverging_epoch.end_offset) == (0, 1)

    def test_it_waits_for_data_no_longer_than_asked(self, shared: Cluster) -> None:
        name = topic(shared, "waits")
        request = shared.fetch_request(0, topic=name, max_wait_ms=1000)
        answer = shared.ask_later(request, purpose="parked")
        shared.run(200)
        assert not answer.is_there
        shared.produce([b"a"], topic=name)
        shared.until(lambda: answer.is_there, 100)
        assert values_of(answer.value.responses[0].partitions[0]) == [b"a"]
        began = shared.world.now_ms
        empty = shared.ask(shared.fetch_request(1, topic=name, max_wait_ms=400))
        assert 400 <= shared.world.now_ms - began < 450
        assert not empty.responses[0].partitions[0].records

    @pytest.mark.slow
    def test_a_later_answer_of_its_connection_waits_with_it(self, shared: Cluster) -> None:
        """As in Kafka: aiokafka's own test of ``fetch.min.bytes`` rests on it."""
        name = topic(shared, "holds-up")
        request = shared.fetch_request(0, topic=name, max_wait_ms=1000)
        fetched = shared.ask_later(request, purpose="one connection")
        shared.run(200)
        told = shared.ask_later(MetadataRequest(topics=[]), purpose="one connection")
        shared.run(500)
        assert not told.is_there and not fetched.is_there
        shared.until(lambda: told.is_there and fetched.is_there)

    def test_it_does_not_hold_up_another_answer_after_a_death(
        self, shared: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """aiokafka asks for metadata and its coordinator on the connection that it fetches by: after a death
        each of them waited for a fetch of 500 ms, 2.5 s in all."""
        monkeypatch.setattr(shared.broker().fetches, "brokers_died", lambda: [9])
        name = topic(shared, "after-a-death")
        request = shared.fetch_request(0, topic=name, max_wait_ms=5000)
        fetched = shared.ask_later(request, purpose="one connection")
        shared.run(200)
        assert not fetched.is_there
        told = shared.ask_later(MetadataRequest(topics=[]), purpose="one connection")
        shared.until(lambda: told.is_there and fetched.is_there, 100)
        assert not fetched.value.responses[0].partitions[0].records

    @pytest.mark.slow
    def test_it_is_freed_with_its_answer(self, shared: Cluster) -> None:
        """A cycle of references kept its records, megabytes each, until the next collection."""
        name = topic(shared, "freed")
        gc.collect()
        gc.disable()
        try:
            fetched = shared.ask_later(shared.fetch_request(0, topic=name, max_wait_ms=300))
            shared.until(lambda: fetched.is_there)
            assert not [it for it in gc.get_objects() if isinstance(it, DelayedFetch)]
        finally:
            gc.enable()

    def test_it_does_not_wait_at_the_end_of_a_full_segment(self, shared: Cluster) -> None:
        name = topic(shared, "segments", internal_segment_bytes="1200")
        for _ in range(3):
            shared.produce([b"x" * 500], topic=name)
        began, waits = shared.world.now_ms, 400
        for offset, expected, wait_ms in ((0, 2, 0), (1, 1, 0), (2, 1, waits)):
            request = shared.fetch_request(offset, topic=name, max_wait_ms=waits, min_bytes=100_000)
            answer = shared.ask(request).responses[0].partitions[0]
            assert len(values_of(answer)) == expected
            took, began = shared.world.now_ms - began, shared.world.now_ms
            assert wait_ms <= took < wait_ms + 100

    def test_it_waits_for_as_many_bytes_as_asked(self, shared: Cluster) -> None:
        name = topic(shared, "min-bytes")
        request = shared.fetch_request(0, topic=name, max_wait_ms=5000, min_bytes=1200)
        answer = shared.ask_later(request, purpose="parked")
        shared.produce([b"x" * 500], topic=name)
        shared.run(100)
        assert not answer.is_there
        shared.produce([b"x" * 700], topic=name)
        shared.until(lambda: answer.is_there, 100)
        assert len(values_of(answer.value.responses[0].partitions[0])) == 2

    @pytest.mark.parametrize(("max_bytes", "given"), [(600, [571, 0]), (1142, [571, 571])])
    def test_a_full_answer_does_not_wait_for_more_bytes_than_it_may_have(
        self, shared: Cluster, max_bytes: int, given: list[int]
    ) -> None:
        name = topic(shared, f"full-{max_bytes}")
        for index in (0, 0, 1, 1):
            shared.produce([b"x" * 500], topic=name, index=index)
        request = shared.fetch_request(
            0, topic=name, max_wait_ms=5000, min_bytes=100_000, max_bytes=max_bytes,
            partition_bytes=571,
        )  # fmt: skip
        request.topics[0].partitions = [
            *request.topics[0].partitions,
            FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=571),
        ]
        answer = shared.ask_later(request, purpose="parked")
        shared.until(lambda: answer.is_there, 100)
        assert [len(data.records) for data in answer.value.responses[0].partitions] == given

    def test_cold_bytes_are_fetched_in_the_background(self) -> None:
        cluster = Cluster(1)
        cluster.create_topic("t")
        cluster.produce([b"a"])
        cluster.sim.nodes[1].machine.disk.cold_read_rate = 1.0
        assert values_of(cluster.fetch()) == [b"a"]


class TestSessions:
    def test_an_idle_session_gets_an_empty_answer(self, shared: Cluster) -> None:
        name = topic(shared, "session")
        full = shared.ask(shared.fetch_request(topic=name, session=(0, 0)))
        assert full.session_id > 0
        assert len(full.responses[0].partitions) == 1
        request = shared.fetch_request(topic=name, session=(full.session_id, 1))
        request.topics = []
        assert shared.ask(request).responses == []
        shared.produce([b"a"], topic=name)
        request.session_epoch = 2
        told = shared.ask(request)
        assert values_of(told.responses[0].partitions[0]) == [b"a"]

    def test_the_marks_of_an_answer_that_is_not_used_are_sent_again(self, shared: Cluster) -> None:
        """Who cuts its log for a divergence, or has heard of another leader epoch, takes nothing else."""
        name = topic(shared, "session-marks")
        shared.produce([b"a"], topic=name)
        beyond = shared.fetch_request(5, topic=name, session=(0, 0), last_fetched_epoch=0)
        full = shared.ask(beyond)
        assert full.responses[0].partitions[0].diverging_epoch.end_offset == 1
        request = shared.fetch_request(1, topic=name, session=(full.session_id, 1), leader_epoch=0)
        told = shared.ask(request).responses[0].partitions[0]
        assert (told.high_watermark, told.log_start_offset) == (1, 0)
        request.topics, request.session_epoch = [], 2
        assert shared.ask(request).responses == []

    def test_epochs_and_ids_of_sessions_are_checked(self, shared: Cluster) -> None:
        name = topic(shared, "session-errors")
        full = shared.ask(shared.fetch_request(topic=name, session=(0, 0)))
        wrong = shared.ask(shared.fetch_request(topic=name, session=(full.session_id, 5)))
        assert code(wrong.error_code) == "INVALID_FETCH_SESSION_EPOCH"
        unknown = shared.ask(shared.fetch_request(topic=name, session=(12345, 1)))
        assert code(unknown.error_code) == "FETCH_SESSION_ID_NOT_FOUND"
        other = shared.ask(
            shared.fetch_request(topic=name, session=(full.session_id, 1)), version=12
        )
        assert code(other.error_code) == "FETCH_SESSION_TOPIC_ID_ERROR"

    def test_forgetting_everything_ends_the_session(self, shared: Cluster) -> None:
        name = topic(shared, "session-end")
        full = shared.ask(shared.fetch_request(topic=name, session=(0, 0)))
        request = shared.fetch_request(topic=name, session=(full.session_id, 1))
        request.forgotten_topics_data = [
            ForgottenTopic(topic_id=request.topics[0].topic_id, partitions=[0])
        ]
        request.topics = []
        assert shared.ask(request).session_id == 0
        assert shared.broker().fetches.sessions.get(full.session_id) is None

    @pytest.mark.parametrize("epoch", [0, -1])
    def test_a_full_fetch_ignores_what_it_lists_as_forgotten(
        self, shared: Cluster, epoch: int
    ) -> None:
        name = topic(shared, f"full-forgets{epoch}")
        shared.produce([b"x"], topic=name)
        request = shared.fetch_request(topic=name, session=(0, epoch))
        request.forgotten_topics_data = [
            ForgottenTopic(topic_id=request.topics[0].topic_id, partitions=[0])
        ]
        assert shared.ask(request).responses[0].partitions[0].records

    def test_partitions_that_found_no_room_come_first_next_time(self, shared: Cluster) -> None:
        name = topic(shared, "fair")
        for index in (0, 1):
            shared.produce([b"x" * 600], topic=name, index=index)
            shared.produce([b"x" * 600], topic=name, index=index)
        request = shared.fetch_request(topic=name, session=(0, 0), max_bytes=700)
        topic_id = request.topics[0].topic_id
        both = [
            FetchPartition(partition=i, fetch_offset=0, partition_max_bytes=700) for i in (0, 1)
        ]
        request.topics = [FetchTopic(topic_id=topic_id, partitions=both)]
        full = shared.ask(request)
        served = [p.partition_index for p in full.responses[0].partitions if p.records]
        assert served == [0]
        moved = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=700)
        request.topics = [FetchTopic(topic_id=topic_id, partitions=[moved])]
        request.session_id, request.session_epoch = full.session_id, 1
        second = shared.ask(request)
        served = [p.partition_index for p in second.responses[0].partitions if p.records]
        assert served == [1]

    def test_a_partition_that_found_no_room_is_sent_though_nothing_moves(
        self, shared: Cluster
    ) -> None:
        name = topic(shared, "room")
        full = shared.ask(shared.fetch_request(topic=name, session=(0, 0)))
        request = shared.fetch_request(topic=name, session=(full.session_id, 1), max_bytes=700)
        topic_id = request.topics[0].topic_id
        both = [
            FetchPartition(partition=i, fetch_offset=0, partition_max_bytes=700) for i in (0, 1)
        ]
        request.topics = [FetchTopic(topic_id=topic_id, partitions=both)]
        for index in (0, 1):
            shared.produce([b"x" * 600], topic=name, index=index)
        told: list[int] = []
        for _ in range(4):
            response = shared.ask(request)
            for found in response.responses:
                told += [p.partition_index for p in found.partitions if p.records]
            moved = [
                FetchPartition(partition=i, fetch_offset=1, partition_max_bytes=700) for i in told
            ]
            request.topics = [FetchTopic(topic_id=topic_id, partitions=moved)]
            request.session_epoch += 1
        assert told == [0, 1]

    def test_a_full_fetch_that_waited_names_every_partition(self, shared: Cluster) -> None:
        name = topic(shared, "whole")
        request = shared.fetch_request(topic=name, max_wait_ms=500)
        both = [
            FetchPartition(partition=i, fetch_offset=0, partition_max_bytes=700) for i in (0, 1)
        ]
        request.topics[0].partitions = both
        answer = shared.ask_later(request, purpose="parked")
        shared.run(50)
        shared.produce([b"x"], topic=name, index=1)
        shared.until(lambda: answer.is_there, 100)
        partitions = answer.value.responses[0].partitions
        assert sorted(p.partition_index for p in partitions) == [0, 1]
        assert [bool(p.records) for p in sorted(partitions, key=lambda p: p.partition_index)] == [
            False,
            True,
        ]

    def test_deleting_a_topic_ends_waiting_with_an_error(self) -> None:
        cluster = Cluster(1)
        cluster.create_topic("t")
        from barnabas.wire.messages.delete_topics_request import (
            DeleteTopicsRequest,
            DeleteTopicState,
        )

        answer = cluster.ask_later(
            cluster.fetch_request(max_wait_ms=20_000, session=(0, 0)), purpose="parked"
        )
        cluster.run(100)
        cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000))
        cluster.until(lambda: answer.is_there, 1000)
        assert code(answer.value.responses[0].partitions[0].error_code) == "UNKNOWN_TOPIC_ID"


class TestListOffsets:
    def ask(
        self, cluster: Cluster, topic: str, timestamp: int, version: int = 11
    ) -> tuple[str, int]:
        response = cluster.ask(
            ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)],
                    )
                ],
            ),
            version=version,
        )
        found = response.topics[0].partitions[0]
        return code(found.error_code), found.offset

    def test_special_timestamps_and_times(self, shared: Cluster) -> None:
        name = topic(shared, "offsets")
        base = shared.client.clock.wall_ms() - 10_000
        for step in (0, 2000, 1000):
            batch = build_batch([(b"k", b"v")], timestamp_ms=base + step)
            shared.produce([], topic=name, batch=batch)
        assert self.ask(shared, name, -1) == ("NONE", 3)
        assert self.ask(shared, name, -2) == ("NONE", 0)
        assert self.ask(shared, name, -3) == ("NONE", 1)
        assert self.ask(shared, name, -4) == ("NONE", 0)
        assert self.ask(shared, name, -5) == ("NONE", -1)
        assert self.ask(shared, name, base) == ("NONE", 0)
        assert self.ask(shared, name, base + 1) == ("NONE", 1)
        assert self.ask(shared, name, base + 2001) == ("NONE", -1)

    @pytest.mark.slow
    def test_a_batch_that_unpacks_to_very_much_is_answered_by_its_first_offset(
        self, shared: Cluster
    ) -> None:
        """Two such searches at once took 2 GB."""
        name = topic(shared, "offsets-bomb")
        base = shared.client.clock.wall_ms()
        shared.produce([b"a"], topic=name)
        records = [(b"k", bytes(33 << 20)), (b"l", bytes(33 << 20))]
        batch = build_batch(records, timestamp_ms=base + 5000, codec=Codec.ZSTD)
        assert shared.produce([], topic=name, batch=batch).error_code == 0
        assert self.ask(shared, name, base + 4000) == ("NONE", 1)

    def test_special_timestamps_of_later_versions(self, shared: Cluster) -> None:
        name = topic(shared, "offsets-old")
        assert self.ask(shared, name, -3, version=6) == ("UNSUPPORTED_VERSION", -1)
        assert self.ask(shared, name, -4, version=7) == ("UNSUPPORTED_VERSION", -1)
        assert self.ask(shared, name, -7) == ("UNSUPPORTED_VERSION", -1)
        assert self.ask(shared, name, -(2**63)) == ("UNSUPPORTED_VERSION", -1)
        assert self.ask(shared, "nowhere", -1) == ("UNKNOWN_TOPIC_OR_PARTITION", -1)
