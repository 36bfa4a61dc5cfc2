"""Bugs in who may do what, found in secured seeds."""

from __future__ import annotations

from barnabas.security.authorization import acl_index
from barnabas.security.authorization.acl_index import AclIndex
from barnabas.security.authorization.acls import WILDCARD_PRINCIPAL, Acl, Permission
from barnabas.security.authorization.authorizer import Authorizer
from barnabas.security.delegation_tokens import TokenCredentials
from barnabas.security.scram import TokenCredential
from barnabas.sim.run import Plan
from tests.sim.mutants.planting import Mutant, Patch

SECURED = Plan(secured=True)


def answers_outlive_changes() -> list[Patch]:
    def keeps_answers(self: Authorizer) -> None:
        self._index.follow(self._records())
        self._version = self.image.acl_version

    return [(Authorizer, "_follow", keeps_answers)]


def an_allowance_beats_a_denial() -> list[Patch]:
    def any_allows(
        self: AclIndex,
        principal: str,
        host: str,
        operation: int,
        resource_type: int,
        name: str,
        *,
        unnamed: bool = False,
    ) -> bool:
        return any(
            acl.permission_type == Permission.ALLOW
            and acl_index._applies(acl, principal, host, operation)
            for acl in self.entries_for(resource_type, name)
        )

    return [(AclIndex, "decide", any_allows)]


def hosts_are_overlooked() -> list[Patch]:
    def from_anywhere(acl: Acl, principal: str, host: str) -> bool:
        return acl.principal in (principal, WILDCARD_PRINCIPAL)

    return [(acl_index, "_is_from", from_anywhere)]


def removed_entries_stay() -> list[Patch]:
    return [(AclIndex, "_remove", lambda self, acl: None)]


def sessions_outlive_their_token() -> list[Patch]:
    find = TokenCredentials.find

    def without_end(
        self: TokenCredentials, mechanism: str, token_id: str
    ) -> TokenCredential | None:
        found = find(self, mechanism, token_id)
        return None if found is None else found._replace(ends_at_ms=1 << 50)

    return [(TokenCredentials, "find", without_end)]


MUTANTS = (
    Mutant("answers-outlive-changes", "answers given before an ACL changed are given on",
           answers_outlive_changes, SECURED),
    Mutant("allow-beats-deny", "one entry that allows is enough", an_allowance_beats_a_denial, SECURED),
    Mutant("hosts-overlooked", "an entry for one host holds for all", hosts_are_overlooked, SECURED),
    Mutant("removed-entries-stay", "an entry that was removed is still obeyed",
           removed_entries_stay, SECURED),
    Mutant("sessions-outlive-tokens", "a session by a delegation token has no end",
           sessions_outlive_their_token, SECURED),
)  # fmt: skip
