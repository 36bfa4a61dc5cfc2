"""The bytes by owner are about those that are allocated."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.monitoring.sources.memory import kept_by
from barnabas.replication.sessions import FetchSession, SessionCache, SessionPartition
from barnabas.types import Uuid

TOLERANCE = 1.35


def allocated_by(build: Callable[[], object]) -> tuple[object, int]:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    built = build()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return built, after - before


def kept(image: MetadataImage, cache: SessionCache[Any]) -> dict[str, int]:
    files = SimpleNamespace(loaded_bytes=77)
    broker: Any = SimpleNamespace(
        image=image,
        fetches=SimpleNamespace(sessions=cache),
        logs=SimpleNamespace(files=files),
    )
    return dict(kept_by(broker))


def image_of(topics: int, partitions: int) -> MetadataImage:
    image = MetadataImage(track_changes=False)
    for number in range(topics):
        topic_id = Uuid(number.to_bytes(16, "big"))
        image.replay(TopicRecord(name=f"topic-{number}", topic_id=topic_id))
        for index in range(partitions):
            image.replay(
                PartitionRecord(
                    topic_id=topic_id,
                    partition_id=index,
                    replicas=[1, 2, 3],
                    isr=[1, 2, 3],
                    leader=1,
                    directories=[Uuid(bytes(16))] * 3,
                )
            )
    return image


@pytest.mark.slow
@pytest.mark.parametrize(("topics", "partitions"), [(2_000, 1), (4, 2_000)])
def test_the_image_has_about_the_bytes_of_its_figure(topics: int, partitions: int) -> None:
    image, allocated = allocated_by(lambda: image_of(topics, partitions))
    assert isinstance(image, MetadataImage)
    told = kept(image, SessionCache(1))["image"]
    assert allocated / TOLERANCE < told < allocated * TOLERANCE


@pytest.mark.slow
def test_sessions_have_about_the_bytes_of_their_figure() -> None:
    def build() -> SessionCache[Any]:
        cache: SessionCache[Any] = SessionCache(100)
        for number in range(1, 101):
            session: FetchSession[Any] = FetchSession(-1, uses_ids=True, now_ms=0.0)
            for index in range(100):
                key = (Uuid(bytes(16)), index)
                session.partitions[key] = SessionPartition(session, key, "topic")
            cache.add(session, number, 0.0)
        return cache

    cache, allocated = allocated_by(build)
    assert isinstance(cache, SessionCache)
    told = kept(MetadataImage(track_changes=False), cache)
    assert allocated / TOLERANCE < told["sessions"] < allocated * TOLERANCE
    assert told["caches"] == 77
