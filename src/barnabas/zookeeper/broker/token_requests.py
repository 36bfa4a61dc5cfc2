"""CreateDelegationToken, RenewDelegationToken and ExpireDelegationToken in ZooKeeper mode: the broker that a
client asks decides and writes the znode.

The deciders are those of a KRaft controller. They work on this broker's image, after it has read the token's
znode. The write is conditional on that znode's version; if another broker wrote first, the token is read and
the change decided again. The broker that is the controller removes expired tokens.

Source: Kafka 3.9's ``KafkaApis`` (handleCreateTokenRequestZk and its like), ``DelegationTokenManager`` and
``KafkaController`` (its task ``delete-expired-tokens``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from barnabas.config.meta_properties import random_uuid
from barnabas.config.node import NodeConfig
from barnabas.controller.decision import Decision
from barnabas.controller.handlers import (
    create_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from barnabas.controller.security import delegation_tokens
from barnabas.controller.security.change_audit import ChangeAudit
from barnabas.controller.security.delegation_tokens import TokenRequester, TokenSettings
from barnabas.controller.security.token_requests import refusal
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.ports import Ports
from barnabas.security.delegation_tokens import (
    creation_response,
    is_expired,
    tokens_of,
)
from barnabas.types import uuid_text
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_delegation_token_request import CreateDelegationTokenRequest
from barnabas.wire.messages.create_delegation_token_response import CreateDelegationTokenResponse
from barnabas.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from barnabas.wire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from barnabas.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from barnabas.wire.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from barnabas.wire.request import HandlerModule, Parked, Proof, RequestContext
from barnabas.wire.schema import Message
from barnabas.zookeeper.token_store import TokenChange, TokenStore

TokenRequest = RenewDelegationTokenRequest | ExpireDelegationTokenRequest
TokenDecider = Callable[[Any, TokenSettings, TokenRequester, Any], Decision[Any]]


class TokenRequests:
    """Answers clients' requests. `store` is None without ``delegation.token.secret.key``."""

    def __init__(
        self,
        ports: Ports,
        config: NodeConfig,
        store: TokenStore | None,
        image: MetadataImage,
        is_controller: Callable[[], bool],
        audit: ChangeAudit,
    ) -> None:
        """`image` is the broker's, which follows the store."""
        self.image = image
        self._ports = ports
        self._store = store
        self._settings = TokenSettings.of(config)
        self._rng = ports.rng("broker.tokens")
        self._is_controller = is_controller
        self._audit = audit
        self._interval_ms = config.int_value("delegation.token.expiry.check.interval.ms")

    # -- requests ----------------------------------------------------------------------------------

    def create(
        self, request: CreateDelegationTokenRequest, ctx: RequestContext
    ) -> CreateDelegationTokenResponse | Parked:
        if ctx.proof is not Proof.OWN:
            code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            return creation_response(request, ctx.principal, code, ctx.api_version)
        token_id = uuid_text(random_uuid(self._rng.randbytes))
        asked = self._requester(ctx)
        decision = delegation_tokens.create(self, self._settings, asked, request, token_id)
        if not decision.records or self._store is None:
            return decision.response
        failed = creation_response(
            request, ctx.principal, ErrorCode.UNKNOWN_SERVER_ERROR, ctx.api_version
        )
        return self._write(token_id, lambda: decision, failed, ctx.principal)

    def renew(
        self, request: RenewDelegationTokenRequest, ctx: RequestContext
    ) -> RenewDelegationTokenResponse | Parked:
        refused = refusal(ctx, RenewDelegationTokenResponse)
        return refused or self._change(request, ctx, delegation_tokens.renew)

    def expire(
        self, request: ExpireDelegationTokenRequest, ctx: RequestContext
    ) -> ExpireDelegationTokenResponse | Parked:
        refused = refusal(ctx, ExpireDelegationTokenResponse)
        return refused or self._change(request, ctx, delegation_tokens.expire)

    def _requester(self, ctx: RequestContext) -> TokenRequester:
        return TokenRequester(ctx.principal, self._ports.clock.wall_ms(), ctx.api_version)

    def _change(self, request: TokenRequest, ctx: RequestContext, decider: TokenDecider) -> Any:
        """Decide and write a change of the token that the request names by its HMAC."""
        decide = partial(decider, self, self._settings, self._requester(ctx), request)
        decision = decide()
        if not decision.records or self._store is None:
            return decision.response
        change = cast("TokenChange", decision.records[0])
        failed = type(decision.response)(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        return self._write(change.token_id, decide, failed, ctx.principal)

    def _write(
        self, token_id: str, decide: Callable[[], Decision[Any]], failed: Message, by: str
    ) -> Parked:
        """Write the token's part of the decision that the principal `by` asked for. `failed` is the answer if
        the store gives up."""
        store = self._store
        assert store is not None
        parked = Parked()
        made: list[Decision[Any]] = []

        def change() -> TokenChange | None:
            made[:] = [decide()]
            records = made[0].records
            return cast("TokenChange", records[0]) if records else None

        def done(why: str) -> None:
            if why:
                self._ports.log("warning", "zookeeper.token_not_written", reason=why)
                parked.complete(failed)
                return
            if made[0].reason:
                self._ports.log("info", "zookeeper.token_written", reason=made[0].reason)
            self._audit.log_records(made[0].records, by)
            parked.complete(made[0].response)

        store.update(token_id, change, done)
        return parked

    # -- tokens that have expired ------------------------------------------------------------------

    def watch_expiry(self) -> None:
        """Look through the tokens at each interval, for as long as the process lives."""
        if self._store is not None:
            at_ms = self._ports.clock.now_ms() + self._interval_ms
            self._ports.wakeups.call_at(at_ms, self._sweep)

    def _sweep(self) -> None:
        store = self._store
        if store is not None and self._is_controller():
            wall_ms = self._ports.clock.wall_ms()
            for token_id, token in list(tokens_of(self.image).items()):
                if is_expired(token, wall_ms):
                    store.update(token_id, partial(self._if_expired, token_id), self._on_swept)
        self.watch_expiry()

    def _if_expired(self, token_id: str) -> TokenChange | None:
        token = tokens_of(self.image).get(token_id)
        if token is None or not is_expired(token, self._ports.clock.wall_ms()):
            return None  # it was renewed, or removed, meanwhile
        return RemoveDelegationTokenRecord(token_id=token_id)

    def _on_swept(self, why: str) -> None:
        if why:
            self._ports.log("warning", "zookeeper.token_not_written", reason=why)

    # -- a listener's table ------------------------------------------------------------------------

    def modules(self) -> tuple[HandlerModule, ...]:
        """The role is this object."""
        return tuple(
            cast("HandlerModule", SimpleNamespace(API=module.API, handle=handle))
            for module, handle in (
                (create_delegation_token, _create),
                (renew_delegation_token, _renew),
                (expire_delegation_token, _expire),
            )
        )

    def __repr__(self) -> str:
        return f"TokenRequests({self._store})"


def _create(request: Any, ctx: RequestContext, role: TokenRequests) -> Message | Parked:
    return role.create(request, ctx)


def _renew(request: Any, ctx: RequestContext, role: TokenRequests) -> Message | Parked:
    return role.renew(request, ctx)


def _expire(request: Any, ctx: RequestContext, role: TokenRequests) -> Message | Parked:
    return role.expire(request, ctx)
