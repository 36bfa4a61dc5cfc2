"""Text of bytes that may not be UTF-8, as Java decodes them.

Apache Kafka decodes every string by ``new String(bytes, UTF_8)``, which never fails: each malformed sequence
becomes U+FFFD. `java_text` does the same. Python's ``errors="replace"`` differs from Java in one case: for
an encoded surrogate (``ED A0 80``) Java gives one U+FFFD and Python three.

`KEPT_AS_BYTES` are the strings that a node stores and returns but never interprets. Their malformed bytes
become lone surrogates (``errors="surrogateescape"``) and are written as the same bytes again.
"""

from __future__ import annotations

import re

from barnabas.types import Buffer

KEPT_AS_BYTES = frozenset(
    {
        "OffsetCommitRequestPartition.committed_metadata",
        "TxnOffsetCommitRequestPartition.committed_metadata",
        "OffsetCommitValue.metadata",
        "LegacyOffsetCommitValue.metadata",
        "OffsetFetchResponsePartition.metadata",
        "OffsetFetchResponsePartitions.metadata",
    }
)
"""Fields, by structure and name, whose bytes stay as the client sent them."""

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""A surrogate in the form of UTF-8, or the beginning of one."""
_MALFORMED = b"\xff"
"""A byte that is malformed alone: one U+FFFD."""


def java_text(data: Buffer) -> str:
    """The text that Java's ``new String(data, UTF_8)`` gives."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub(_MALFORMED, bytes(data)).decode(errors="replace")


def kept_text(data: Buffer) -> str:
    """The text of a field of `KEPT_AS_BYTES`."""
    return str(data, "utf-8", "surrogateescape")
