"""A cluster takes writes when every broker lists all of them and names the controller."""

from __future__ import annotations

import pytest

from barnabas.cli.local.readiness import is_whole
from barnabas.wire.messages.metadata_response import MetadataResponse, MetadataResponseBroker

WANTED = [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("listed", "controller", "whole"),
    [
        (WANTED, 2, True),
        (WANTED[::-1], 1, True),
        (WANTED[:1], 1, False),
        (WANTED, -1, False),
    ],
)
def test_an_answer_is_whole(listed: list[tuple[str, int]], controller: int, whole: bool) -> None:
    brokers = [MetadataResponseBroker(node_id=port, host=host, port=port) for host, port in listed]
    answer = MetadataResponse(brokers=brokers, controller_id=controller)
    assert is_whole(answer, WANTED) is whole
