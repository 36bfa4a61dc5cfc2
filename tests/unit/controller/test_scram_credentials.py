"""SCRAM credentials at the controller: one request changes a user by each mechanism at most once."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.unit.controller.harness import World

SHA_256, SHA_512 = 1, 2
SIZES = {SHA_256: 32, SHA_512: 64}


def upsertion(mechanism: int) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name="alice",
        mechanism=mechanism,
        iterations=4096,
        salt=b"salt",
        salted_password=bytes(SIZES[mechanism]),
    )


def deletion(mechanism: int) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name="alice", mechanism=mechanism)


def outcome(harness: World, *items: Any) -> int:
    request = AlterUserScramCredentialsRequest(
        upsertions=[item for item in items if isinstance(item, ScramCredentialUpsertion)],
        deletions=[item for item in items if isinstance(item, ScramCredentialDeletion)],
    )
    [result] = harness.ask(request).results
    return int(result.error_code)


@pytest.fixture
def harness() -> World:
    return World()


def test_both_mechanisms_of_a_user_are_set_by_one_request(harness: World) -> None:
    """`kafka-configs --add-config 'SCRAM-SHA-256=[...],SCRAM-SHA-512=[...]'` sends this."""
    assert outcome(harness, upsertion(SHA_256), upsertion(SHA_512)) == ErrorCode.NONE
    assert outcome(harness, deletion(SHA_256), upsertion(SHA_512)) == ErrorCode.NONE
    assert outcome(harness, deletion(SHA_256)) == ErrorCode.RESOURCE_NOT_FOUND
    assert outcome(harness, deletion(SHA_512)) == ErrorCode.NONE


def test_one_mechanism_twice_changes_nothing(harness: World) -> None:
    twice = outcome(harness, upsertion(SHA_256), upsertion(SHA_256), upsertion(SHA_512))
    assert twice == ErrorCode.DUPLICATE_RESOURCE
    for mechanism in (SHA_256, SHA_512):
        assert outcome(harness, deletion(mechanism)) == ErrorCode.RESOURCE_NOT_FOUND
