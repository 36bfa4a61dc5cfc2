"""The states of a listener's connection, and the tables of their moves.

A connection has two states. Its `Stage` says who the peer is, and so what a frame means. Its `Intake` says
whether the next frame is served. `docs/state-tables.md` shows both tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class Stage(Enum):
    """Who the peer is, as far as the connection knows."""

    CONNECTING = "connecting"
    """There is no stream yet."""
    AUTHENTICATING = "authenticating"
    """SASL has no principal yet. A frame is a token, or a request that the authenticator serves."""
    AUTHENTICATED = "authenticated"
    """SASL found the principal, and may be asked again (KIP-368)."""
    IDENTIFIED = "identified"
    """The principal is known without SASL: a certificate's, or User:ANONYMOUS."""
    ENDING = "ending"
    """This node has ended the connection. Frames are dropped until the stream reports its end."""
    ENDED = "ended"
    """The stream is gone."""


class Intake(Enum):
    """Whether the next frame is served."""

    READING = "reading"
    """The stream is read. A frame is served, unless a request under way must not be overtaken."""
    PAUSED = "paused"
    """The stream is not read. Frames that came before wait in the backlog until there is room for them."""
    THROTTLED = "throttled"
    """The client has exceeded a quota. Nothing is read or served before its throttle time is over."""


STAGE_MOVES: Mapping[Stage, Mapping[Stage, str]] = MappingProxyType(
    {
        Stage.CONNECTING: {
            Stage.AUTHENTICATING: "the stream is open, and the listener asks for SASL",
            Stage.IDENTIFIED: "the stream is open, and the listener asks for no SASL",
            Stage.ENDING: "too many peers authenticate",
            Stage.ENDED: "the stream never opened",
        },
        Stage.AUTHENTICATING: {
            Stage.AUTHENTICATED: "SASL succeeded",
            Stage.ENDING: "a request of another kind, malformed bytes, or too late",
            Stage.ENDED: "the stream ended",
        },
        Stage.AUTHENTICATED: {
            Stage.AUTHENTICATED: "SASL succeeded again",
            Stage.ENDING: "the session expired, or the peer's fault",
            Stage.ENDED: "the stream ended",
        },
        Stage.IDENTIFIED: {
            Stage.ENDING: "the peer's fault, or it was idle for too long",
            Stage.ENDED: "the stream ended",
        },
        Stage.ENDING: {Stage.ENDED: "the stream ended"},
        Stage.ENDED: {},
    }
)
INTAKE_MOVES: Mapping[Intake, Mapping[Intake, str]] = MappingProxyType(
    {
        Intake.READING: {
            Intake.PAUSED: "a request has to wait, responses are not read, or the node does not serve yet",
            Intake.THROTTLED: "a response says that the client exceeded a quota",
        },
        Intake.PAUSED: {
            Intake.READING: "the backlog is served, and there is room",
            Intake.THROTTLED: "a response says that the client exceeded a quota",
        },
        Intake.THROTTLED: {Intake.PAUSED: "the throttle time is over; the backlog comes first"},
    }
)
OPEN_STAGES = frozenset({Stage.AUTHENTICATING, Stage.AUTHENTICATED, Stage.IDENTIFIED})
