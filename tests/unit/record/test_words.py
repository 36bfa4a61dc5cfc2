"""Loops over bytes and the instructions in their place give the same."""

from __future__ import annotations

import crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.record import words
from barnabas.record.columnar_kernels import Bytes, compiled, frozen


@pytest.mark.slow
@given(st.binary(min_size=1, max_size=100), st.data())
def test_a_crc_is_that_of_the_library(data: bytes, draw: st.DataObject) -> None:
    start = draw.draw(st.integers(0, len(data)))
    end = draw.draw(st.integers(start, len(data)))
    expected = crc32c.crc32c(data[start:end])
    array = frozen(np.frombuffer(data, np.uint8))
    assert words.crc32c(array, start, end) == expected
    assert words.crc32c_by_tables(array, start, end) == expected


@pytest.mark.slow
@given(st.binary(min_size=8, max_size=30), st.data())
def test_words_equal_the_bytes_in_the_array(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data) - 8))
    array = frozen(np.frombuffer(data, np.uint8))
    little = int.from_bytes(data[at : at + 8], "little")
    big = int.from_bytes(data[at : at + 8], "big", signed=True)
    half = int.from_bytes(data[at : at + 4], "big", signed=True)
    assert int(words.little_endian(array, at)) == int(loaded_little(array, at)) == little
    assert words.big_endian_64(array, at) == loaded_big(array, at) == big
    assert words.big_endian_32(array, at) == loaded_half(array, at) == half


@compiled
def loaded_little(data: Bytes, at: int) -> np.uint64:
    return words.little_64(data, at)


@compiled
def loaded_big(data: Bytes, at: int) -> int:
    return words.big_64(data, at)


@compiled
def loaded_half(data: Bytes, at: int) -> int:
    return words.big_32(data, at)
