"""Decides AlterUserScramCredentials (KIP-554).

Each user of a request succeeds or fails alone. Clients salt passwords and never send them. Source:
Kafka's ``ScramControlManager``.
"""

from __future__ import annotations

from collections import Counter

from barnabas.controller.decision import Decision, Record
from barnabas.controller.decision_context import ControllerContext
from barnabas.metadata import features as levels
from barnabas.metadata.records.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from barnabas.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, credential_of
from barnabas.security.scram_credentials import MECHANISM_OF, SIZES
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

SCRAM_METADATA_VERSION = 11
"""3.5-IV2 has the record."""


def alter(
    cluster: ControllerContext, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    """Decide the request. Raises UNSUPPORTED_VERSION if the metadata version has no credentials."""
    if cluster.image.features.get(levels.METADATA_VERSION, 0) < SCRAM_METADATA_VERSION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current metadata.version does not support SCRAM; it needs 3.5-IV2",
        )
    items: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [
        *request.deletions,
        *request.upsertions,
    ]
    counts = Counter((item.name, item.mechanism) for item in items)
    problems: dict[str, KafkaError] = {}
    records: dict[str, list[Record]] = {}
    for item in items:
        records.setdefault(item.name, [])
        try:
            if counts[item.name, item.mechanism] > 1:
                raise KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            records[item.name].append(_record(cluster, item))
        except KafkaError as error:
            problems.setdefault(item.name, error)
    results = [_result(name, problems.get(name)) for name in records]
    written = [record for name, own in records.items() if name not in problems for record in own]
    names = ", ".join(sorted(name for name in records if name not in problems))
    response = AlterUserScramCredentialsResponse(results=results)
    return Decision(response, written, f"SCRAM credentials of {names}" if written else "")


def _record(
    cluster: ControllerContext, item: ScramCredentialDeletion | ScramCredentialUpsertion
) -> Record:
    """The record of one change. Raises ``KafkaError``."""
    if not item.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = MECHANISM_OF.get(item.mechanism)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(item, ScramCredentialDeletion):
        if (item.mechanism, item.name) not in cluster.image.scram_credentials:
            text = "Attempt to delete a user credential that does not exist"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text)
        return RemoveUserScramCredentialRecord(name=item.name, mechanism=item.mechanism)
    if item.iterations < MIN_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if item.iterations > MAX_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not item.salt or len(item.salted_password) != SIZES[mechanism]:
        text = f"{mechanism} needs a salt and a salted password of {SIZES[mechanism]} bytes"
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
    salt, salted = bytes(item.salt), bytes(item.salted_password)
    credential = credential_of(mechanism, salted, salt, item.iterations)
    return UserScramCredentialRecord(
        name=item.name,
        mechanism=item.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def _result(name: str, problem: KafkaError | None) -> AlterUserScramCredentialsResult:
    if problem is None:
        return AlterUserScramCredentialsResult(user=name, error_message=None)
    return AlterUserScramCredentialsResult(
        user=name, error_code=problem.code, error_message=problem.message
    )
