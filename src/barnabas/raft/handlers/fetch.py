"""Fetch of ``__cluster_metadata`` from its leader, on the controller listener.

Behaviour: answers with batches up to the log's end, committed or not; with the point where the logs
part; or with the id of a snapshot. Where nothing is new it waits, until something is appended, the
high watermark has passed what the follower knows (KIP-1166), or `max_wait_ms` is over. The fetch
offset tells what the follower has on disk and moves the high watermark. No sessions.
Version notes: up to v12 the topic has a name, from v13 an id; the replica's id moves at v15; v17
has the directory id and says where the leader is, v18 the follower's high watermark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from barnabas.raft.core.messages import Response
from barnabas.raft.handlers.answering import check_cluster
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.wire.fetch_codec import FetchAnswer, FetchMessage
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch_response import FetchResponse
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

API = Api(
    ApiKey.FETCH,
    FetchMessage,
    top_level_error(FetchResponse),
    "cluster",
    "cluster-action",
    waits=True,
)


def handle(request: FetchMessage, ctx: RequestContext, role: RaftNode) -> Message | Parked:
    error = check_cluster(request.cluster_id, role)
    asked = request.request
    if error or asked is None:
        return FetchResponse(error_code=error or ErrorCode.INVALID_REQUEST)
    return role.ask(asked, _ENCODE)


_ENCODE = cast("Callable[[Response], Message]", FetchAnswer)
"""A fetch is answered by nothing else."""
