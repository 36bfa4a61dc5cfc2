"""meta.properties: what is written is read, and why a directory cannot be used is one sentence."""

from __future__ import annotations

import pytest

from barnabas.config.meta_properties import (
    DirectoryError,
    MetaProperties,
    parse_meta_properties,
)
from barnabas.types import NodeId, Uuid

META = MetaProperties("4L6g3nShT-eMCtK--X86sw", NodeId(3), Uuid(bytes(range(16))))


def test_what_is_written_is_read() -> None:
    text = META.format_text()
    assert "version=1\n" in text
    assert "cluster.id=4L6g3nShT-eMCtK--X86sw\n" in text
    assert parse_meta_properties(text) == META


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "meta.properties has version 0; only version 1 is understood"),
        ("version=2", "meta.properties has version 2; only version 1 is understood"),
        ("version=1\nnode.id=1", "meta.properties has no cluster.id"),
        ("version=1\ncluster.id=x\nnode.id=one", "meta.properties cannot be read"),
        ("version=1\ncluster.id=x\nnode.id=1\ndirectory.id=!", "meta.properties cannot be read"),
    ],
)
def test_what_cannot_be_used(text: str, sentence: str) -> None:
    with pytest.raises(DirectoryError) as caught:
        parse_meta_properties(text)
    assert str(caught.value).startswith(sentence)
