"""Frames come out whole, in order, read-only, whatever pieces the bytes arrive in."""

from __future__ import annotations

import sys
from random import Random
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.wire import frames
from barnabas.wire.codec import MalformedError
from barnabas.wire.frames import SIZE, SMALL_BUFFER_BYTES, FrameReader
from tests.effort import examples


def feed(reader: FrameReader, data: bytes, step: int) -> None:
    position = 0
    while position < len(data):
        buffer = reader.get_buffer()
        assert len(buffer) > 0
        taken = min(len(buffer), step, len(data) - position)
        buffer[:taken] = data[position : position + taken]
        position += taken
        reader.buffer_updated(taken)


sizes = st.one_of(
    st.integers(0, 40),
    st.integers(frames.SMALL_BUFFER_BYTES // 2 - 8, frames.SMALL_BUFFER_BYTES + 8),
    st.integers(frames.LARGE_BUFFER_BYTES // 2 - 8, frames.LARGE_BUFFER_BYTES + 8),
)


@settings(max_examples=examples(150))
@given(st.lists(sizes, max_size=12), st.integers(1, 100_000), st.integers(0, 1 << 32))
def test_any_split_gives_the_same_frames(lengths: list[int], step: int, seed: int) -> None:
    step = max(step, sum(lengths) // 2000 + 1)
    contents = Random(seed)
    sent = [contents.randbytes(n) for n in lengths]
    got: list[memoryview] = []
    reader = FrameReader(got.append, 1 << 20)
    feed(reader, b"".join(pack(">i", len(f)) + f for f in sent), step)
    assert [bytes(f) for f in got] == sent  # after everything came: no buffer was used again
    assert all(f.readonly for f in got)
    assert reader.pending_bytes == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_an_impossible_size_is_malformed(size: int) -> None:
    reader = FrameReader(lambda frame: None, 100)
    with pytest.raises(MalformedError):
        feed(reader, pack(">i", size), 4)


def test_memory_follows_bytes_not_claims() -> None:
    got: list[memoryview] = []
    reader = FrameReader(got.append, 100 << 20)
    feed(reader, pack(">i", 50 << 20) + b"x" * 1000, 1004)
    assert len(reader.get_buffer()) <= frames.FIRST_STEP_BYTES
    body = bytes(range(256)) * ((5 << 20) // 256)
    got.clear()
    reader = FrameReader(got.append, 100 << 20)
    feed(reader, pack(">i", len(body)) + body, 1 << 16)
    assert bytes(got[0]) == body


def test_a_frame_survives_an_error_of_its_taker() -> None:
    seen: list[bytes] = []

    def take(frame: memoryview) -> None:
        seen.append(bytes(frame))
        if bytes(frame) == b"bad":
            raise MalformedError("bad")

    reader = FrameReader(take, 100)
    with pytest.raises(MalformedError):
        feed(reader, pack(">i", 3) + b"bad" + pack(">i", 1) + b"x", 100)
    assert seen == [b"bad"]


def test_a_large_frame_that_was_handed_on_is_kept_no_longer() -> None:
    """An idle connection would hold its last request, however large, for as long as it lives."""
    taken: list[memoryview] = []
    reader = FrameReader(taken.append, 1 << 24)
    data = pack(">i", 1 << 20) + bytes(1 << 20)
    while data:
        buffer = reader.get_buffer()
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        data = data[size:]
        del buffer
        reader.buffer_updated(size)
    frame = taken.pop().obj
    assert isinstance(frame, bytearray)
    assert len(frame) == 1 << 20
    assert sys.getrefcount(frame) <= 2  # this name, and before Python 3.14 the argument


def test_a_stranger_gets_memory_as_it_sends() -> None:
    """Before authentication frames are small; many peers that claim the largest take little."""
    frames: list[bytes] = []
    reader = FrameReader(lambda frame: frames.append(bytes(frame)), 512 * 1024)
    sent = SIZE.pack(500_000) + bytes(range(250)) * 2_000
    rooms = []
    at = 0
    while at < len(sent):
        room = reader.get_buffer()
        rooms.append(len(room))
        size = min(len(room), len(sent) - at)
        room[:size] = sent[at : at + size]
        reader.buffer_updated(size)
        at += size
        assert len(room) <= max(at, SMALL_BUFFER_BYTES)
    assert frames == [sent[4:]]
