"""Delegation tokens at the controller: who may create, renew and expire them, and when they end."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.metadata.features import METADATA_VERSION
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.snapshot import image_records, load_records
from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.security.delegation_tokens import TokenSecrets
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from barnabas.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from barnabas.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from barnabas.wire.request import Proof
from tests.unit.controller.harness import World

KEY = {
    "delegation.token.secret.key": "a-key-of-the-cluster",
    "delegation.token.max.lifetime.ms": "10000",
    "delegation.token.expiry.time.ms": "4000",
    "delegation.token.expiry.check.interval.ms": "1000",
}
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"


def ask(harness: World, request: Any, principal: str = ALICE, proof: Proof = Proof.OWN) -> Any:
    return harness.ask(request, principal=principal, proof=proof)


def created(harness: World, principal: str = ALICE, **fields: Any) -> Any:
    answer = ask(harness, CreateDelegationTokenRequest(**fields), principal)
    assert answer.error_code == 0
    return answer


def renewal(harness: World, hmac: bytes, principal: str = ALICE, period_ms: int = -1) -> Any:
    return ask(
        harness, RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), principal
    )


def expiry(harness: World, hmac: bytes, principal: str = ALICE, period_ms: int = -1) -> Any:
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    return ask(harness, request, principal)


def test_a_token_is_a_record_without_its_secret() -> None:
    harness = World(KEY)
    now_ms = harness.controller.wall_ms()
    renewers = [CreatableRenewers(principal_type="User", principal_name="bob")]
    answer = created(harness, renewers=renewers, max_lifetime_ms=-1)
    record = harness.image.delegation_tokens[answer.token_id]
    assert isinstance(record, DelegationTokenRecord)
    assert (record.owner, record.requester, record.renewers) == (ALICE, ALICE, [BOB])
    assert (answer.principal_name, answer.token_requester_principal_name) == ("alice", "alice")
    assert answer.issue_timestamp_ms == record.issue_timestamp == now_ms
    assert answer.max_timestamp_ms == record.max_timestamp == now_ms + 10_000
    assert answer.expiry_timestamp_ms == record.expiration_timestamp == now_ms + 4_000
    assert answer.hmac == TokenSecrets("a-key-of-the-cluster").hmac_of(answer.token_id)
    assert answer.hmac not in b"".join(bytes(v) for b in harness.quorum.batches for v in b.values)


def test_a_short_lifetime_bounds_both_ends() -> None:
    answer = created(World(KEY), max_lifetime_ms=500)
    assert answer.expiry_timestamp_ms == answer.max_timestamp_ms == answer.issue_timestamp_ms + 500


def test_a_token_of_another_owner_names_its_requester() -> None:
    harness = World(KEY)
    answer = created(harness, owner_principal_type="User", owner_principal_name="carol")
    assert harness.image.delegation_tokens[answer.token_id].owner == CAROL  # type: ignore[attr-defined]
    assert (answer.principal_name, answer.token_requester_principal_name) == ("carol", "alice")
    assert (
        renewal(harness, answer.hmac, ALICE).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    )
    assert renewal(harness, answer.hmac, CAROL).error_code == 0


@pytest.mark.parametrize("proof", [Proof.NONE, Proof.TOKEN])
def test_strangers_and_tokens_may_not_ask_for_tokens(proof: Proof) -> None:
    harness = World(KEY)
    token = created(harness)
    for request in (
        CreateDelegationTokenRequest(),
        RenewDelegationTokenRequest(hmac=token.hmac),
        ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1),
    ):
        answer = ask(harness, request, proof=proof)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert answer.expiry_timestamp_ms == -1
    assert list(harness.image.delegation_tokens) == [token.token_id]


def test_delegation_tokens_need_a_secret_key() -> None:
    harness = World()
    for request in (
        CreateDelegationTokenRequest(),
        RenewDelegationTokenRequest(hmac=b"h"),
        ExpireDelegationTokenRequest(hmac=b"h"),
    ):
        code = ask(harness, request).error_code
        assert code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_metadata_before_3_6_holds_no_tokens() -> None:
    old = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=13)]
    harness = World(KEY, bootstrap=old)
    code = ask(harness, CreateDelegationTokenRequest()).error_code
    assert code == ErrorCode.UNSUPPORTED_VERSION


def test_renewers_are_users() -> None:
    group = [CreatableRenewers(principal_type="Group", principal_name="g")]
    answer = ask(World(KEY), CreateDelegationTokenRequest(renewers=group))
    assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_a_renewal_counts_from_now_up_to_the_longest_lifetime() -> None:
    harness = World(KEY)
    token = created(harness)
    harness.advance(1_000)
    assert renewal(harness, token.hmac).expiry_timestamp_ms == token.issue_timestamp_ms + 5_000
    asked = renewal(harness, token.hmac, period_ms=100)
    assert asked.expiry_timestamp_ms == token.issue_timestamp_ms + 1_100
    for _ in range(4):
        renewal(harness, token.hmac)
        harness.advance(2_000)
    assert renewal(harness, token.hmac).expiry_timestamp_ms == token.max_timestamp_ms


def test_owners_and_renewers_only_change_a_token() -> None:
    harness = World(KEY)
    bob = [CreatableRenewers(principal_type="User", principal_name="bob")]
    token = created(harness, renewers=bob)
    assert renewal(harness, token.hmac, BOB).error_code == 0
    assert (
        expiry(harness, token.hmac, CAROL).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    )
    assert renewal(harness, b"x" * 64).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert renewal(harness, b"").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    now_ms = harness.controller.wall_ms()
    assert expiry(harness, token.hmac, BOB).expiry_timestamp_ms == now_ms
    assert not harness.image.delegation_tokens
    assert renewal(harness, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_an_expiry_in_some_time_keeps_the_token_until_then() -> None:
    harness = World(KEY)
    token = created(harness)
    answer = expiry(harness, token.hmac, period_ms=500)
    assert answer.expiry_timestamp_ms == token.issue_timestamp_ms + 500
    assert token.token_id in harness.image.delegation_tokens
    harness.advance(501)
    expired = ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert renewal(harness, token.hmac).error_code == expired
    assert expiry(harness, token.hmac, period_ms=5).error_code == expired
    mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert expiry(harness, token.hmac, CAROL).error_code == mismatch
    assert expiry(harness, token.hmac).error_code == 0
    assert not harness.image.delegation_tokens


def test_a_lifetime_without_end_fits_into_a_record() -> None:
    longest = {"delegation.token.max.lifetime.ms": str(2**63 - 1)}
    token = created(World(KEY | longest), max_lifetime_ms=2**63 - 1)
    assert token.max_timestamp_ms == 2**63 - 1


def test_expired_tokens_are_removed_by_the_controller() -> None:
    harness = World(KEY)
    first = created(harness)
    harness.advance(3_000)
    second = created(harness)
    harness.advance(2_100)
    assert list(harness.image.delegation_tokens) == [second.token_id]
    assert renewal(harness, first.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    harness.failover()
    harness.advance(5_000)
    assert not harness.image.delegation_tokens


def test_tokens_outlive_a_snapshot_and_a_failover() -> None:
    harness = World(KEY)
    token = created(harness)
    copy = MetadataImage()
    load_records(copy, list(image_records(harness.image)), 10, 1)
    assert list(copy.delegation_tokens) == [token.token_id]
    harness.failover()
    assert renewal(harness, token.hmac).error_code == 0
