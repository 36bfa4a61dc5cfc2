"""Lines of files and of standard input: any bytes, with a delimiter between them."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from barnabas.cli.confirming import USAGE
from barnabas.cli.failure import Failure

CHUNK_BYTES = 1 << 18
LINE_FEED = b"\n"
STANDARD_INPUT = Path("-")


def lines_of(files: Sequence[Path], delimiter: bytes = LINE_FEED) -> Iterator[bytes | None]:
    """Lines without their ends; None where standard input has nothing yet. Raises `Failure`."""
    for file in files or (STANDARD_INPUT,):
        if file == STANDARD_INPUT:
            yield from _lines_of_input(sys.stdin.fileno(), delimiter)
            continue
        with _opened(file) as descriptor:
            yield from split(
                iter(lambda: os.read(descriptor.fileno(), CHUNK_BYTES), b""), delimiter
            )


def contents_of(files: Sequence[Path]) -> Iterator[bytes | None]:
    """Each file whole. Raises `Failure`."""
    for file in files:
        if file == STANDARD_INPUT:
            with open(sys.stdin.fileno(), "rb", closefd=False) as source:
                yield source.read()
            continue
        with _opened(file) as source:
            yield source.read()


def split(chunks: Iterator[bytes], delimiter: bytes) -> Iterator[bytes]:
    """The lines of `chunks`, which are cut anywhere; what follows the last delimiter is a line unless it is
    empty."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(delimiter)
        yield from lines
    if rest:
        yield rest


def _lines_of_input(descriptor: int, delimiter: bytes) -> Iterator[bytes | None]:
    """Yield lines as they come: what was typed or piped in is sent while the next line is awaited."""
    rest = b""
    while True:
        if not select.select([descriptor], [], [], 0)[0]:
            yield None
            continue
        data = os.read(descriptor, CHUNK_BYTES)
        if not data:
            break
        *lines, rest = (rest + data).split(delimiter)
        yield from lines
    if rest:
        yield rest


def _opened(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}", USAGE) from error
