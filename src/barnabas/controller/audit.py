"""Adds the requester of a decision as the reason on its records.

The reason of most records is the event that led to them. A configuration or a feature level changes
because a client asks for it: then the reason names that client's principal and client id.
"""

from __future__ import annotations

from typing import Any

from barnabas.controller.decision import Decision
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.wire.request import RequestContext

CLIENT_ID_CHARS_MAX = 60


def requested_by(ctx: RequestContext) -> str:
    """The author of a request: ``asked by User:ANONYMOUS, client barnabas-cli``."""
    client = (ctx.client_id or "")[:CLIENT_ID_CHARS_MAX]
    return f"asked by {ctx.principal}" + (f", client {client}" if client else "")


def with_requester(decision: Decision[Any], ctx: RequestContext, how: str = "") -> Decision[Any]:
    """Set the requester, after `how`, as the reason on those records of `decision` that have
    none."""
    reason = f"{how} {requested_by(ctx)}" if how else requested_by(ctx)
    for record in decision.records:
        if isinstance(record, (ConfigRecord, FeatureLevelRecord)) and record.reason is None:
            record.reason = reason
    return decision
