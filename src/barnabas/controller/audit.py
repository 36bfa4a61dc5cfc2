"""Who asked for a decision, as the reason on its records.

Most records say why by what led to them. A configuration or a feature level changes because somebody
wants it so: then who that was is the reason that people look for.
"""

from __future__ import annotations

from typing import Any

from barnabas.controller.decision import Decision
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.wire.request import RequestContext

CLIENT_ID_CHARS_MAX = 60


def requested_by(ctx: RequestContext) -> str:
    """As ``asked by User:ANONYMOUS, client barnabas-cli``."""
    client = (ctx.client_id or "")[:CLIENT_ID_CHARS_MAX]
    return f"asked by {ctx.principal}" + (f", client {client}" if client else "")


def with_requester(decision: Decision[Any], ctx: RequestContext, how: str = "") -> Decision[Any]:
    """`decision`, with the reason on its records that have none yet; `how` stands before it."""
    reason = f"{how} {requested_by(ctx)}" if how else requested_by(ctx)
    for record in decision.records:
        if isinstance(record, (ConfigRecord, FeatureLevelRecord)) and record.reason is None:
            record.reason = reason
    return decision
