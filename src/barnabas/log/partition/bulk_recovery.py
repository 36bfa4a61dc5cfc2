"""Checking very many small batches without producers, as the quorum's log has them, in few steps each.

A metadata log may have a million batches of one record, all of which a node reads that starts after a crash.
This module does what :mod:`barnabas.log.partition.crash_recovery` does for any batch, for plain batches only:
an unusual batch ends the stretch, and `crash_recovery` checks it.
"""

from __future__ import annotations

from crc32c import crc32c

from barnabas.log.config import FOREVER_MS
from barnabas.log.segments.segment import Indexed, Segment
from barnabas.log.state.epoch_runs import EpochRuns
from barnabas.record.batch import (
    CRC_FROM,
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX,
    MAGIC,
    OFFSET_AND_LENGTH,
)

WINDOW_BYTES = 1024 * 1024


def check_plain(
    segment: Segment,
    position: int,
    least: int,
    most: int,
    epochs: EpochRuns,
    reach: int = FOREVER_MS,
) -> tuple[int, int]:
    """Pass the sound batches without a producer from `position` on, whose offsets begin at `least` (at
    `reach` at the latest, and from there on without a gap, where one is given) and end before `most`;
    makes their index entries and notes them in `epochs`. The position behind them, and the offset."""
    ahead = WINDOW_BYTES
    while segment.size - position >= HEADER_SIZE:
        window = memoryview(segment.file().read_at(position, ahead))
        size, least = _check_window(segment, window, position, least, most, epochs, reach)
        position += size
        if size:
            reach = least if reach < FOREVER_MS else reach
            ahead = WINDOW_BYTES
            continue
        whole = LENGTH_PREFIX + HEADER.unpack_from(window)[1]
        if not ahead < whole <= segment.size - position:
            break
        ahead = whole
    return position, least


def _check_window(
    segment: Segment,
    window: memoryview,
    start: int,
    least: int,
    most: int,
    epochs: EpochRuns,
    reach: int,
) -> tuple[int, int]:
    """The bytes that pass and the offset behind them, as `check_plain`, within what was read at `start`."""
    _, interval, since, stamp, stamp_offset = segment.indexing()
    entries: list[list[int]] = []
    unpack, total, at = HEADER.unpack_from, len(window), 0
    most = min(most, segment.base_offset + 0x7FFFFFFF + 1)
    known, is_new = -1, True
    """The epoch that was noted, and whether its second batch has yet to be noted: more add nothing."""
    while total - at >= HEADER_SIZE:
        base, length, epoch, magic, crc, _, delta, _, latest, producer, _, _, count = unpack(
            window, at
        )
        end, next_offset = at + LENGTH_PREFIX + length, base + delta + 1
        if (
            magic != MAGIC
            or length < HEADER_SIZE - LENGTH_PREFIX
            or end > total
            or base < least
            or base > reach
            or delta < 0
            or next_offset > most
            or producer >= 0
            or count < 0
            or crc32c(window[at + CRC_FROM : end]) != crc
            or (base > least and _is_passed(window, end, next_offset))
        ):
            break
        if epoch != known or is_new:
            epochs.assign(epoch, base)
            known, is_new = epoch, epoch != known
        if latest > stamp and length > HEADER_SIZE - LENGTH_PREFIX:
            stamp, stamp_offset = latest, next_offset - 1
        if since > interval:
            entries.append([next_offset - 1, start + at, stamp, stamp_offset])
            since = 0
        since += end - at
        at, least = end, next_offset
        if reach < FOREVER_MS:
            reach = least
    if at and segment.first_timestamp is None:
        segment.first_timestamp = unpack(window, 0)[8]
    segment.note_indexed(Indexed(entries, since, stamp, stamp_offset))
    return at, least


def _is_passed(window: memoryview, following: int, next_offset: int) -> bool:
    """Whether a batch behind a gap may reach beyond the batch at `following`: no CRC covers
    offsets."""
    if following + OFFSET_AND_LENGTH.size > len(window):
        return True
    return bool(OFFSET_AND_LENGTH.unpack_from(window, following)[0] < next_offset)
