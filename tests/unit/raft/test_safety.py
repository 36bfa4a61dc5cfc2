"""What a replica must not forget or say too early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from barnabas.raft.core import events as on
from barnabas.raft.core import messages
from barnabas.raft.core.batches import data_batch
from barnabas.raft.core.election_state import FILE_NAME, ElectionState
from barnabas.raft.core.voters import ReplicaKey, VoterHistory, VoterSet
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.raft.storage.bootstrap import open_replica
from barnabas.raft.storage.fetched_snapshot import FetchedSnapshot
from barnabas.raft.storage.replica_log import DIRECTORY, PartitionRaftLog
from barnabas.raft.storage.snapshot_files import (
    SnapshotFile,
    SnapshotWriter,
    file_name,
    write_checkpoint,
)
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.world import World
from barnabas.types import Endpoint, Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.vote_response import VoteResponse
from barnabas.wire.schema import Message
from tests.unit.raft.quorum_world import Quorum, QuorumNode
from tests.unit.raft.script import Script

STATE = f"/data/{DIRECTORY}/{FILE_NAME}"


def key(node: int) -> ReplicaKey:
    return ReplicaKey(node, Uuid(bytes([node]) * 16))


def ask_vote(
    node: QuorumNode, epoch: int, candidate: int | ReplicaKey
) -> list[messages.VoteResponse]:
    """What `node` answers to a request for its vote, in a list that is empty until it does."""
    answers: list[messages.VoteResponse] = []

    def keep(response: messages.Response) -> Message:
        assert isinstance(response, messages.VoteResponse)
        answers.append(response)
        return VoteResponse()

    assert node.replica is not None
    last = OffsetAndEpoch(100, epoch - 1)
    who = key(candidate) if isinstance(candidate, int) else candidate
    node.replica.ask(messages.VoteRequest(epoch, who, None, last), keep)
    return answers


def saved(node: QuorumNode) -> ElectionState:
    return ElectionState.from_json(node.machine.disk.open_for_process().read_file(STATE))


@pytest.mark.parametrize("observer", [False, True])
def test_a_vote_survives_a_power_loss_and_is_not_given_twice(observer: bool) -> None:
    quorum = Quorum(voters=3, observers=1)
    node = quorum.nodes[4 if observer else 3]
    node.start()
    granted = ask_vote(node, 5, candidate=1)
    quorum.run_until(lambda: bool(granted))
    assert granted[0].granted
    node.kill(power_loss=True)
    node.start()
    assert saved(node).voted is not None and saved(node).epoch == 5
    other, same = ask_vote(node, 5, candidate=2), ask_vote(node, 5, candidate=1)
    quorum.run_until(lambda: bool(other and same))
    assert not other[0].granted
    assert same[0].granted


def test_nothing_is_said_of_a_vote_before_it_is_on_disk() -> None:
    quorum = Quorum(voters=3)
    node = quorum.nodes[3]
    node.start()
    process = node.process
    assert process is not None
    held: list[tuple[Callable[[], object], Callable[[object], None]]] = []
    run = process.background.run

    def hold(queue: str, job: Callable[[], object], done: Callable[[object], None]) -> None:
        if queue == "raft-election":
            held.append((job, done))
        else:
            run(queue, job, done)

    process.background.run = hold  # type: ignore[method-assign, assignment]
    answers = ask_vote(node, 5, candidate=1)
    quorum.world.run(quorum.world.now_ms + 500)
    assert held and not answers
    # A request that comes meanwhile waits behind it, too: it would tell of epoch 5.
    later = ask_vote(node, 4, candidate=2)
    quorum.world.run(quorum.world.now_ms + 500)
    assert not later
    while held:
        job, done = held.pop(0)
        done(job())
    assert answers[0].granted and saved(node).epoch == 5
    assert later[0].error is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("synced", [False, True])
def test_a_new_leader_tells_no_high_watermark_before_it_knows_one(synced: bool) -> None:
    """It may know less than its followers learned from the last leader, and those of Apache Kafka end where
    a leader's high watermark goes back."""
    script = Script()
    before = "> voters 1 2 3\n> start 1 2 3\n> run 3000\n> propose 1 2\n> run 100\n"
    script.run(before + "> disk 2 slow\n> disk 3 slow\n> die 1\n> run 3000\n")
    node = next(
        n for n in script.nodes.values() if n.machine and n.machine.leader_id == n.settings.node_id
    )
    machine = node.machine
    assert machine is not None and 0 < machine.high_watermark < machine.log.end_offset
    if synced:
        script.run("> disk 2 fast\n> disk 3 fast\n> run 1000\n")
        assert machine.high_watermark == machine.log.end_offset

    def ask(request: messages.Request) -> list[messages.Response]:
        answers: list[messages.Response] = []
        node.tickets[999] = answers.append
        script._step(node, on.Asked(999, request))
        return answers

    known = machine.high_watermark if synced else -1
    asker = ReplicaKey(9, Uuid(b"9" * 16))
    from_start = messages.FetchRequest(machine.epoch, asker, 0, 0, 500, 1 << 20, high_watermark=-1)
    (fetched,) = ask(from_start)
    assert isinstance(fetched, messages.FetchResponse)
    assert fetched.error is ErrorCode.NONE and fetched.high_watermark == known
    (described,) = ask(messages.DescribeRequest())
    assert isinstance(described, messages.DescribeResponse) and described.high_watermark == known
    at_end = from_start._replace(offset=machine.log.end_offset, last_epoch=machine.epoch)
    waiting = ask(at_end)
    script._step(node, on.Tick())
    assert [a.high_watermark for a in waiting if isinstance(a, messages.FetchResponse)] == (
        [known] if synced else []
    )


def test_a_leader_that_lost_its_disk_does_not_learn_that_it_leads() -> None:
    """Apache Kafka's ends at such an answer, each time it is started, though its vote may be needed."""
    script = Script()
    script.run("> voters 1 2\n> saved 2 5 leader 1\n> start 2\n")
    node = script.nodes[2]
    for asker, told in ((1, -1), (7, 1)):
        for request in (
            messages.FetchRequest(0, key(asker), 0, 0, 500, 1),
            messages.SnapshotRequest(0, key(asker), OffsetAndEpoch(0, 0), 0, 1),
            messages.VoteRequest(4, key(asker), None, OffsetAndEpoch(9, 4), pre_vote=True),
        ):
            answers: list[messages.Response] = []
            node.tickets[999] = answers.append
            script._step(node, on.Asked(999, request))
            (answer,) = answers
            assert not isinstance(answer, messages.FeaturesResponse)
            assert answer.error is ErrorCode.FENCED_LEADER_EPOCH and answer.epoch == 5
            assert answer.leader_id == told, request


@pytest.mark.parametrize("known", [False, True])
def test_no_leader_is_named_without_saying_where_it_is(known: bool) -> None:
    """A replica of Apache Kafka that does not know it either ends at such an answer."""
    script = Script()
    script.run("> voters 1 2 3 observers 4\n> saved 4 5 leader 1\n> start 4\n")
    node = script.nodes[4]
    assert node.machine is not None
    if not known:
        node.machine.history = VoterHistory(VoterSet.of())
    told = (1, Endpoint("n1", 1)) if known else (-1, None)
    position = OffsetAndEpoch(0, 0)
    asked: list[messages.Request] = [
        messages.VoteRequest(5, key(2), None, OffsetAndEpoch(9, 4)),
        messages.FetchRequest(5, key(2), 0, 0, 500, 1),
        messages.SnapshotRequest(5, key(2), position, 0, 1),
        messages.EndEpochRequest(4, 2, (), {}),
        messages.BeginEpochRequest(4, 2, None, {}),
        messages.UpdateVoterRequest(5, key(2), {}, (0, 1)),
    ]
    for request in asked:
        answers: list[messages.Response] = []
        node.tickets[999] = answers.append
        script._step(node, on.Asked(999, request))
        (answer,) = answers
        assert not isinstance(answer, messages.FeaturesResponse)
        assert (answer.leader_id, answer.leader_endpoint) == told, request


def test_a_log_that_contradicts_an_installed_snapshot_is_dropped() -> None:
    """The crash came between the snapshot's new name and the cut of the log."""
    disk = SimDisk(World(1).rng("disk")).open_for_process()
    folder = f"/data/{DIRECTORY}"
    disk.make_dirs(folder)
    log = PartitionRaftLog.open(
        disk, folder, start_offset=0, segment_bytes=1 << 20, segment_ms=1 << 40
    )
    log.append(b"".join(data_batch([b"lost"] * 5, base, 1, 1) for base in (0, 5, 10)))
    job, on_synced = log.sync_job()
    job()
    on_synced()
    log.close(clean=False)
    settings = Quorum().nodes[1].settings
    same = OffsetAndEpoch(10, 1)
    disk.write_atomic(f"{folder}/{file_name(same)}", write_checkpoint([b"kept"], 1))
    opened = open_replica(disk, replace(settings), "/data")
    assert (opened.log_metadata.end_offset, opened.log_metadata.last_epoch) == (15, 1)
    opened.log.close(clean=False)
    other = OffsetAndEpoch(10, 3)
    disk.remove(f"{folder}/{file_name(same)}")
    disk.write_atomic(f"{folder}/{file_name(other)}", write_checkpoint([b"kept"], 1))
    opened = open_replica(disk, replace(settings), "/data")
    assert (opened.log_metadata.start_offset, opened.log_metadata.end_offset) == (10, 10)
    assert opened.log_metadata.last == other


def rot_for(late: QuorumNode, end: int) -> None:
    """Damage what `late` needs next, on everybody else."""
    for node in late.quorum.nodes.values():
        disk = node.machine.disk
        if node is not late:
            names = [name for name in disk.names if name.endswith(".log")]
            path = max(name for name in names if int(name[-24:-4]) <= end + 5)
            disk.rot(path, len(disk.content(path)) - 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("snapshot_bytes", "restart_after"), [(1_500, False), (1_500, True), (1 << 30, False)]
)
def test_rotten_log_is_not_handed_on_and_its_readers_get_a_snapshot(
    snapshot_bytes: int, restart_after: bool
) -> None:
    """Noticed when it is read for a follower, or opened; also where no snapshot covers it yet."""
    quorum = Quorum(
        bytes_between_snapshots=snapshot_bytes, segment_bytes=1_024, retention_bytes=1 << 30
    )
    quorum.start()
    for number in range(30):
        quorum.commit(b"%90d" % number)
    quorum.settle()
    late = next(node for node in quorum.nodes.values() if node is not quorum.elect())
    assert late.replica is not None
    end = late.replica.log_end_offset
    late.kill()
    for number in range(30, 90):
        quorum.commit(b"%90d" % number)
    quorum.world.run(quorum.world.now_ms + 100)
    others = [node for node in quorum.nodes.values() if node is not late]
    for node in others:
        node.kill()
        node.start()
    quorum.elect()
    quorum.run_until(lambda: all(len(node.journal.values) == 90 for node in others))
    rot_for(late, end)
    for node in others if restart_after else []:
        node.kill()
        node.start()
    quorum.elect()
    late.start()
    quorum.settle()
    assert [int(value) for value in late.journal.values] == list(range(90))
    assert late.installed == 1 and not quorum.halts


def test_a_replica_without_directory_id_is_no_voter_with_one() -> None:
    quorum = Quorum(first_voters=3)
    quorum.start()
    quorum.commit(b"1")
    node = quorum.elect()
    replica = node.replica
    assert replica is not None
    other = next(n for n in quorum.nodes if n != node.id)
    for n in quorum.nodes.values():
        if n is not node:
            n.kill()
    before = replica.high_watermark
    replica.append([b"2"])
    quorum.world.run(quorum.world.now_ms + 50)
    end = replica.log_end_offset
    claim = messages.FetchRequest(replica.epoch, ReplicaKey(other), end, replica.epoch, 0, 1, end)
    replica.ask(claim, lambda _: VoteResponse())
    assert replica.high_watermark == before


def test_a_second_vote_goes_to_no_replica_without_directory_id() -> None:
    quorum = Quorum(first_voters=3)
    quorum.nodes[1].start()
    answers = [ask_vote(quorum.nodes[1], 5, who) for who in (key(2), ReplicaKey(2), key(2))]
    quorum.run_until(lambda: all(answers))
    assert [answer.granted for [answer] in answers] == [True, False, True]


def test_an_interrupted_fetch_and_an_own_snapshot_of_one_id_are_two_files() -> None:
    disk = SimDisk(World(1).rng("disk")).open_for_process()
    disk.make_dirs("/data")
    fetched, same = FetchedSnapshot(disk, "/data"), OffsetAndEpoch(7, 2)
    fetched.store(same, 0, b"a piece")
    own = SnapshotWriter(disk, "/data", same, 0, (), 0)
    own.add([b"value"], 0)
    fetched.store(OffsetAndEpoch(9, 2), 0, b"another")
    own.freeze_job(0)()
    [values] = SnapshotFile(disk, f"/data/{file_name(same)}", same).values()
    assert [bytes(value) for value in values] == [b"value"]
    fetched.store(same, 0, b"")
    fetched.abandon()
    assert disk.list_dir("/data") == [file_name(same)]


def test_a_snapshot_for_whose_header_there_is_no_room_leaves_no_file() -> None:
    disk = SimDisk(World(1).rng("disk"))
    view = disk.open_for_process()
    view.make_dirs("/data")
    for number in range(2, 4):  # the first one opens it
        disk.fail_call(number)
        with pytest.raises(OSError):
            SnapshotWriter(view, "/data", OffsetAndEpoch(7, 2), 0, (), 0)
        assert disk.fault_was_hit and view.list_dir("/data") == []


@pytest.mark.slow
def test_a_damaged_snapshot_is_not_installed_and_not_asked_for_in_a_hurry() -> None:
    quorum = Quorum(
        bytes_between_snapshots=1_500,
        segment_bytes=1_024,
        retention_bytes=1_000,
        fetch_snapshot_bytes_max=500,
    )
    late = quorum.nodes[3]
    quorum.nodes[1].start()
    quorum.nodes[2].start()
    for number in range(60):
        quorum.commit(b"%90d" % number)
    quorum.world.run(quorum.world.now_ms + 100)
    for node in (quorum.nodes[1], quorum.nodes[2]):
        disk = node.machine.disk
        path = max(name for name in disk.names if name.endswith(".checkpoint"))
        disk.rot(path, len(disk.content(path)) // 2)
    late.start()
    quorum.world.run(quorum.world.now_ms + 3_000)
    process = late.process
    assert process is not None
    refused = [line for line in process.log_lines if "raft.snapshot_refused" in line]
    assert 1 <= len(refused) <= 10
    assert late.installed == 1 and len(late.journal.values) == 60, "another was taken in its place"
    for number in range(60, 90):
        quorum.commit(b"%90d" % number)
    quorum.settle()
    assert [int(value) for value in late.journal.values] == list(range(90))
    assert late.installed == 1 and not quorum.halts
