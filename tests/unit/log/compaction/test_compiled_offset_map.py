"""Compaction in machine code leaves the same bytes as in plain Python, batch for batch and log for log."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.log.compaction import cleaning_pass
from barnabas.log.compaction.compaction_rules import (
    CompactedBatch,
    CompactionRules,
    OffsetMap,
    TransactionTrail,
    compact_batch,
    note_keys,
)
from barnabas.log.config import LogConfig
from barnabas.log.errors import CorruptLogError
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.record.batch import (
    HEADER_SIZE,
    BatchView,
    CorruptBatchError,
    iterate,
    read_header,
    write_header,
)
from barnabas.record.builder import build_batch
from barnabas.record.compression import Codec
from barnabas.sim.world.disk import SimDisk
from barnabas.types import TopicPartition
from tests.effort import examples
from tests.model.log.test_compaction import Compacted

np = pytest.importorskip("numpy")
compiled_offset_map = pytest.importorskip("barnabas.log.compaction.compiled_offset_map")
if not compiled_offset_map.available():
    pytest.skip("numba is not installed", allow_module_level=True)

pytestmark = pytest.mark.slow
NOW = 1_750_000_000_000
EXAMPLES = examples(150)
fast_map = partial(compiled_offset_map.CompiledOffsetMap, secret=b"0123456789abcdef")
MAPS: tuple[Callable[[int], OffsetMap], ...] = (OffsetMap, fast_map)

keys = st.one_of(
    st.none(),
    st.integers(0, 5).map(lambda n: b"%d" % n),
    st.integers(0, 3).map(lambda n: b"k" * (30 + n)),
    st.just(b""),
)
values = st.one_of(st.none(), st.binary(max_size=40))
names = st.sampled_from(["", "trace", "größe"])
headers = st.lists(st.tuples(names, st.one_of(st.none(), st.binary(max_size=5))), max_size=2)
stamps = st.integers(NOW - 300, NOW + 70_000)
records = st.lists(st.tuples(keys, values, headers, stamps), min_size=1, max_size=30)
batches = st.lists(st.tuples(records, st.sampled_from(list(Codec))), min_size=1, max_size=8)


def views(described: list[tuple[list[tuple[object, ...]], Codec]]) -> list[BatchView]:
    offset, run = 0, bytearray()
    for wanted, codec in described:
        batch = build_batch(wanted, timestamp_ms=NOW, codec=codec, base_offset=offset)
        run += batch
        offset += len(wanted)
    return list(iterate(bytes(run), crc=True))


def compacted(
    make: Callable[[int], OffsetMap],
    given: list[BatchView],
    from_offset: int,
    rounds: int,
    full: int,
) -> list[CompactedBatch]:
    """What is left of `given`, the last round late enough for tombstones to go."""
    outcomes: list[CompactedBatch] = []
    for number in range(rounds):
        known, trail = make(full), TransactionTrail()
        for batch in given:
            if known.is_full():
                break
            note_keys(batch, known, from_offset)
            known.end = batch.header.next_offset
        rules = CompactionRules(NOW + number * 1000, 500, {}, given[-1].header.next_offset)
        outcomes = [compact_batch(batch, known, trail, rules, None) for batch in given]
        kept = [bytes(outcome.data) for outcome in outcomes if outcome.data is not None]
        given = list(iterate(b"".join(kept), crc=True))
        if not given:
            break
    return [outcome._replace(data=outcome.data and bytes(outcome.data)) for outcome in outcomes]


@given(batches, st.integers(0, 40), st.integers(1, 3), st.sampled_from([1, 3, 1000]))
@settings(max_examples=EXAMPLES)
def test_the_same_bytes_stay(
    described: list[tuple[list[tuple[object, ...]], Codec]],
    from_offset: int,
    rounds: int,
    full: int,
) -> None:
    given_batches = views(described)
    plain, fast = (compacted(make, given_batches, from_offset, rounds, full) for make in MAPS)
    assert plain == fast


def files_of(
    make: Callable[[int], OffsetMap], run: bytes, rounds: int, full: int
) -> dict[str, bytes]:
    """Of a log with these batches, after `rounds` of compaction."""
    device = SimDisk(random.Random(1))
    disk = device.open_for_process()
    disk.make_dirs("/data")
    config = LogConfig(
        segment_bytes=1500,
        cleanup_policy=("compact",),
        delete_retention_ms=500,
        index_interval_bytes=200,
    )
    log = open_log(
        FileCache(disk), "/data/t-0", TopicPartition("t", 0), config, LogCheckpoints(clean=False)
    ).log
    log.append_as_follower(run)
    log.roll()
    log.flush()
    log.durability.compactable_to = log.high_watermark = log.log_end_offset
    for number in range(rounds):
        plan = cleaning_pass.make_plan(log, 0, NOW + number * 1000)
        known = cleaning_pass.build_map(plan, full, make)
        trail = cleaning_pass.trail_of(plan)
        for group in cleaning_pass.groups_of(plan, known.end):
            assert cleaning_pass.swap(
                log, plan, cleaning_pass.clean_group(plan, group, known, trail)
            )
    return {path: bytes(file.data) for path, file in device.names.items() if file is not None}


@example(  # the batch that has to be looked at filled the map, uncounted, behind another one
    [
        ([(None, None, [], NOW)], Codec.NONE),
        (
            [(b"0", None, [], NOW), (b"1", None, [], NOW), (b"k", b"", [("größe", None)], NOW)],
            Codec.NONE,
        ),
        ([(None, None, [], NOW)], Codec.NONE),
    ],
    1,
    3,
    False,
)
@given(batches, st.integers(1, 3), st.sampled_from([1, 3, 1000]), st.booleans())
@settings(max_examples=EXAMPLES)
def test_the_same_files_stay(
    described: list[tuple[list[tuple[object, ...]], Codec]], rounds: int, full: int, plain: bool
) -> None:
    if plain:
        described = [(wanted, Codec.NONE) for wanted, _ in described]
    run = b"".join(view.data for view in views(described))
    here, there = (files_of(make, run, rounds, full) for make in MAPS)
    assert here == there


@pytest.mark.parametrize("full", [7, 90, 1000])
def test_the_same_files_stay_of_long_and_short_batches(full: int) -> None:
    """More records than are read ahead at once, in one batch and in many."""
    rng = random.Random(full)
    described: list[tuple[list[tuple[object, ...]], Codec]] = []
    for count in [1, 70, 1, 1, 64, 65, 200, *[1] * 100, 40, 40, 40, 3, *[1] * 30]:
        wanted: list[tuple[object, ...]] = [
            (b"%d" % rng.randrange(120), rng.choice([b"", b"v", b"value"]), [], NOW + at)
            for at in range(count)
        ]
        described.append((wanted, Codec.NONE))
    run = b"".join(view.data for view in views(described))
    here, there = (files_of(make, run, 2, full) for make in MAPS)
    assert here == there
    assert any(path.endswith(".index") and len(data) > 8 for path, data in here.items())


@given(st.data(), batches)
@settings(max_examples=EXAMPLES)
def test_both_stop_at_the_same_broken_byte(
    data: st.DataObject, described: list[tuple[list[tuple[object, ...]], Codec]]
) -> None:
    run = bytearray(b"".join(view.data for view in views(described)))
    at = data.draw(st.integers(0, len(run) - 1))
    run[at] ^= 1 << data.draw(st.integers(0, 7))
    told = []
    for make in MAPS:
        device = SimDisk(random.Random(1))
        disk = device.open_for_process()
        disk.make_dirs("/data")
        file = disk.open("/data/00000000000000000000.log", create=True)
        file.append([run])
        source = cleaning_pass.SourceSegment(0, 1000, len(run), 0)
        plan = cleaning_pass.CleaningPlan(
            disk, "/data", LogConfig(), 0, (source,), 0, 1000, len(run), 0, 0, NOW, {}, (source,)
        )
        try:
            known = cleaning_pass.build_map(plan, 1000, make)
            cleaning_pass.clean_group(plan, [source], known, cleaning_pass.trail_of(plan))
            told.append(("", {p: bytes(f.data) for p, f in device.names.items() if f}))
        except CorruptLogError as error:
            told.append((str(error), {}))
    assert told[0] == told[1]


def result_of(make: Callable[[int], OffsetMap], batch: BatchView) -> object:
    known = make(1000)
    try:
        note_keys(batch, known, 0)
        known.end = batch.header.next_offset
        rules = CompactionRules(NOW, 500, {}, 1 << 40)
        outcome = compact_batch(batch, known, TransactionTrail(), rules, None)
    except CorruptBatchError as error:
        return error.why
    return outcome.data and bytes(outcome.data)


@given(records, st.data())
@settings(max_examples=EXAMPLES)
def test_both_say_the_same_of_broken_records(
    wanted: list[tuple[object, ...]], data: st.DataObject
) -> None:
    batch = bytearray(build_batch(wanted, timestamp_ms=NOW))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
        batch[at] = data.draw(
            st.one_of(st.sampled_from([0, 1, 127, 128, 255]), st.integers(0, 255))
        )
    header = read_header(batch)
    count = data.draw(st.sampled_from([len(wanted), len(wanted) + 1, 0x7FFFFFFF, 0]))
    write_header(batch, header._replace(record_count=count))
    (view,) = iterate(bytes(batch), crc=True)
    assert result_of(OffsetMap, view) == result_of(fast_map, view)


@pytest.mark.parametrize("seed", range(20))
def test_a_round_over_a_log_leaves_the_same_files(seed: int) -> None:
    left = []
    for make in MAPS:
        model = Compacted(seed)
        for round_ in range(6):
            model.write([1, 2, 3, 4], False, round_ % 5, -1)
        model.write([1, 2], True, 0, -1)
        model.write([5], False, 0, 1)
        model.end(1, False)
        model.write([6], False, 0, 2)
        model.end(2, True)
        for _ in range(3):
            model.now += 1000
            model.log.roll()
            model.sync()
            plan = cleaning_pass.make_plan(model.log, 0, model.now)
            known = cleaning_pass.build_map(plan, 3 + seed, make)
            trail = cleaning_pass.trail_of(plan)
            for group in cleaning_pass.groups_of(plan, known.end):
                done = cleaning_pass.clean_group(plan, group, known, trail)
                assert cleaning_pass.swap(model.log, plan, done)
        files = model.device.names
        left.append({p: bytes(f.data) for p, f in files.items() if f is not None})
    assert left[0] == left[1]


def test_siphash_has_the_values_of_its_authors() -> None:
    from barnabas.record import key_kernels

    secret = bytes(range(16))
    k0, k1 = (np.uint64(int.from_bytes(secret[at : at + 8], "little")) for at in (0, 8))
    expected = {
        0: "a3817f04ba25a8e66df67214c7550293",
        1: "da87c1d86b99af44347659119b22fc45",
        15: "5493e99933b0a8117e08ec0f97cfc3d9",
    }
    for size, text in expected.items():
        data = np.frombuffer(bytes(range(size)), np.uint8)
        data.flags.writeable = False
        low, high = key_kernels.sip_hash(data, 0, size, k0, k1)
        assert b"".join(int(word).to_bytes(8, "little") for word in (low, high)).hex() == text
