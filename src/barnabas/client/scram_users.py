"""Lists, adds and removes SCRAM credentials. A password never leaves this process: it is salted here.

Source: KIP-554.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from barnabas.client.client import Client, raise_for
from barnabas.security.scram import salted_password
from barnabas.security.scram_credentials import MECHANISM_OF
from barnabas.wire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

ITERATIONS = 8192
CODE_OF = {name: code for code, name in MECHANISM_OF.items()}


class ScramUser(NamedTuple):
    """One credential of a user."""

    name: str
    mechanism: str
    iterations: int


async def list_users(client: Client, names: Sequence[str] = ()) -> list[ScramUser]:
    """The credentials of all users, or of those with these names, sorted. Raises `KafkaError`."""

    def check(response: Any) -> None:
        raise_for(response.error_code, response.error_message)
        for result in response.results:
            raise_for(result.error_code, result.error_message)

    response = await client.ask_any(
        lambda: DescribeUserScramCredentialsRequest(users=[UserName(name=n) for n in names]), check
    )
    return sorted(
        ScramUser(result.user, MECHANISM_OF.get(info.mechanism, "unknown"), info.iterations)
        for result in response.results
        for info in result.credential_infos
    )


async def set_password(
    client: Client, name: str, mechanism: str, password: str, salt: bytes, iterations: int
) -> None:
    """Add or replace a credential. Raises `KafkaError`."""
    salted = salted_password(mechanism, password.encode(), salt, iterations)
    wanted = ScramCredentialUpsertion(
        name=name,
        mechanism=CODE_OF[mechanism],
        iterations=iterations,
        salt=salt,
        salted_password=salted,
    )
    await _alter(client, AlterUserScramCredentialsRequest(upsertions=[wanted]))


async def remove_user(client: Client, name: str, mechanisms: Sequence[str]) -> None:
    """Remove credentials of a user. Raises `KafkaError`."""
    gone = [ScramCredentialDeletion(name=name, mechanism=CODE_OF[m]) for m in mechanisms]
    await _alter(client, AlterUserScramCredentialsRequest(deletions=gone))


async def _alter(client: Client, request: AlterUserScramCredentialsRequest) -> None:
    def check(response: Any) -> None:
        for result in response.results:
            raise_for(result.error_code, result.error_message)

    await client.ask_any(lambda: request, check)
