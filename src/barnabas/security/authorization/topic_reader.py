"""Whether the consumer behind one fetch may read a topic, asked whenever its session is looked at."""

from __future__ import annotations

from typing import Any

from barnabas.security.authorization.access_rules import denied
from barnabas.security.authorization.acls import AclResourceType, Operation
from barnabas.security.authorization.authorizer import Authorizer
from barnabas.types import Uuid
from barnabas.wire.request import RequestContext


class TopicReader:
    """One request's principal and host."""

    __slots__ = ("_authorizer", "_ctx")

    def __init__(self, authorizer: Authorizer, ctx: RequestContext) -> None:
        self._authorizer = authorizer
        self._ctx = ctx

    @property
    def version(self) -> int:
        """The version of the entries from which the answers are made."""
        return self._authorizer.version

    def check(self, topic: Any) -> None:
        """`topic` is a name or an id. Raises TOPIC_AUTHORIZATION_FAILED; an id that no topic has passes."""
        if not isinstance(topic, str):
            known = self._authorizer.image.topics_by_id.get(Uuid(topic))
            if known is None:
                return
            topic = known.name
        if not self._authorizer.may(self._ctx, Operation.READ, AclResourceType.TOPIC, topic):
            raise denied(AclResourceType.TOPIC)
