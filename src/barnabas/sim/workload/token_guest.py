"""A guest of a secured seed that authenticates by delegation tokens, and the keeper who gives it these.

Each token is used by one client until after its end. The judge: no request that is sent after the last end
that the cluster can have given a token is answered by a node whose clock was never touched. The keeper
creates tokens of the guest, renews them, ends them early or lets them expire, while things break.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.client.client import Client
from barnabas.client.delegation_tokens import (
    DelegationToken,
    create_token,
    expire_token,
    renew_token,
)
from barnabas.client.network.channels import ChannelError
from barnabas.sim.history import Violation
from barnabas.sim.secured import ADMIN_PRINCIPAL, GUEST_PRINCIPAL, security_of_token
from barnabas.sim.world.world import START_WALL_MS
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.metadata_request import MetadataRequest

if TYPE_CHECKING:
    from barnabas.sim.workload.workload import Workload

NAME, KEEPER = "guest token", "token keeper"
REQUEST_TIMEOUT_MS = 4_000.0
PAUSE_MS = 400.0
"""Between two requests of the guest, at most."""
LIVES_MS = (1_500, 4_000, 12_000)
LAST_LIFE_MS = 60_000
AFTER_END_MS = 2_500.0
"""The time for which the guest knocks in vain with a token that has ended."""
SLACK_MS = 100.0
"""Clocks are read in steps, and dates are whole milliseconds."""


class TokenGuest:
    """One client after the other, each with its own token."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.keeper = workload.cluster.client(KEEPER)
        self.rng = workload.cluster.world.rng(NAME)
        self.passed_ms = -1.0
        """When a request that was answered was sent, the latest."""

    async def run(self) -> None:
        while not self.is_served_at_last():
            try:
                await self._use(await self._new_token())
            except (ChannelError, KafkaError) as error:
                self.workload.cluster.world.note(f"{KEEPER}: {error}")
                await self.keeper.tasks.sleep(200)

    def is_served_at_last(self) -> bool:
        gatekeeper = self.workload.gatekeeper
        return gatekeeper is not None and 0 <= gatekeeper.open_ms < self.passed_ms

    async def _new_token(self) -> DelegationToken:
        life_ms = LAST_LIFE_MS if self.workload.stopped else self.rng.choice(LIVES_MS)
        return await create_token(
            self.keeper, owner=GUEST_PRINCIPAL, renewers=[ADMIN_PRINCIPAL], lifetime_ms=life_ms
        )

    async def _use(self, token: DelegationToken) -> None:
        """Use a token by a client of its own, until after its end."""
        cluster = self.workload.cluster
        client = cluster.client(NAME, security=security_of_token(token))
        user = TokenUser(self, client, token)
        cluster.world.totals["guests' tokens"] += 1
        try:
            while not user.is_done():
                await client.tasks.sleep(self.rng.uniform(1, PAUSE_MS))
                if self.rng.random() < 0.1:
                    await self._change(user)
                await user.ask_once()
        finally:
            client.channels.close()

    async def _change(self, user: TokenUser) -> None:
        """Renew the token, or end it early; a lost answer leaves the end open, up to the longest."""
        token, before_ms = user.token, user.ends_ms
        user.ends_ms = token.max_ms
        try:
            if self.rng.random() < 0.6:
                said_ms = await renew_token(self.keeper, token.hmac)
            else:
                said_ms = await expire_token(self.keeper, token.hmac, self.rng.choice([100, 1_000]))
        except KafkaError:
            user.ends_ms = token.max_ms  # it may have been written before a retry was refused
        except ChannelError:
            pass
        else:
            user.ends_ms = max(said_ms, before_ms)  # sessions last until the end that they had


class TokenUser:
    """One token at work; `ends_ms` is the last date at which it can be valid."""

    def __init__(self, guest: TokenGuest, client: Client, token: DelegationToken) -> None:
        self.guest = guest
        self.client = client
        self.token = token
        self.ends_ms = token.expires_ms

    def is_done(self) -> bool:
        """Whether it has ended for long enough, or is of no more use: where the controller's date was ahead
        it may last for an hour."""
        passed_ms = self._date_ms() - self.ends_ms
        used_up = self._date_ms() > self.token.issued_ms + LAST_LIFE_MS + AFTER_END_MS
        return passed_ms > AFTER_END_MS or used_up or self.guest.is_served_at_last()

    def _date_ms(self) -> float:
        return START_WALL_MS + self.guest.workload.cluster.world.now_ms

    async def ask_once(self) -> None:
        """Any broker; the answer counts, whatever it says."""
        cluster = self.guest.workload.cluster
        node = self.guest.rng.choice(list(cluster.topology.broker_ids))
        began_ms, date_ms, ends_ms = cluster.world.now_ms, self._date_ms(), self.ends_ms
        try:
            await self.client.cluster.refresh([], timeout_ms=REQUEST_TIMEOUT_MS)
            began_ms, date_ms = cluster.world.now_ms, self._date_ms()
            await self.client.ask_node(
                node, MetadataRequest(topics=[]), timeout_ms=REQUEST_TIMEOUT_MS
            )
        except (ChannelError, KafkaError):
            cluster.world.totals["guests' tokens refused"] += 1
            return
        cluster.world.totals["guests' tokens let pass"] += 1
        self.guest.passed_ms = began_ms
        machine = cluster.nodes[node].machine
        if machine.is_steady and not machine.was_set and date_ms > ends_ms + SLACK_MS:
            raise Violation(
                f"node {node} answered a guest {date_ms - ends_ms:.0f} ms after the end of its token"
                f" {self.token.token_id}"
            )
