"""Refuses to cordon directories that this broker does not have (``cordoned.log.dirs``, KIP-1066).

The controller knows the ids of a broker's directories, not their paths, so it cannot judge the change. The
broker that it is about does, where that one is asked, as Kafka's tools do. Wraps AlterConfigs and
IncrementalAlterConfigs.

The refusal tells which paths are in ``log.dirs``. A principal that may not change configurations gets
none: its request reaches the controller, which refuses it as any other.

Source: Kafka's ``DynamicLogConfig.validateReconfiguration``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from barnabas.config.broker import broker_id
from barnabas.config.meta_properties import unknown_paths
from barnabas.metadata.image.image import BROKER
from barnabas.node.logger_configs import answering_own
from barnabas.security.authorization.acls import CLUSTER_NAME, AclResourceType, Operation
from barnabas.security.authorization.authorizer import Authorizer
from barnabas.wire.api_table import ApiKey
from barnabas.wire.dispatch import ApiTable, Handler
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import alter_configs_response as replacing
from barnabas.wire.messages import incremental_alter_configs_response as incremental
from barnabas.wire.request import Parked, RequestContext
from barnabas.wire.schema import Message

KEY = "cordoned.log.dirs"
EVERY = "*"
SET, APPEND = 0, 2
_RESULTS: dict[ApiKey, type[Message]] = {
    ApiKey.ALTER_CONFIGS: replacing.AlterConfigsResourceResponse,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental.AlterConfigsResourceResponse,
}


class CordonedDirectories(NamedTuple):
    """This broker's id and ``log.dirs``, and its authorizer if it has one."""

    node_id: int
    log_dirs: Sequence[str]
    authorizer: Authorizer | None

    def serve(self, table: ApiTable) -> None:
        """Wrap the two handlers in the `table` of one listener, where it has them."""
        for key, result in _RESULTS.items():
            entry = table.get(key)
            if entry is not None:
                table.replace(key, self._checked(entry.handle, result))

    def _checked(self, handle: Handler, result: type[Message]) -> Handler:
        def refusal(resource: Any, request: Any) -> Message:
            missing = ", ".join(self._unknown(resource))
            return result(
                resource_type=BROKER,
                resource_name=resource.resource_name,
                error_code=ErrorCode.INVALID_CONFIG,
                error_message=f"Invalid entry in {KEY}: {missing}. All cordoned log dirs must be entries"
                " of log.dirs or log.dir.",
            )

        def is_refused(resource: Any) -> bool:
            return bool(self._unknown(resource))

        checked = answering_own(handle, "responses", is_refused, refusal)

        def handled(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
            return (checked if self._may_know(ctx) else handle)(request, ctx, role)

        return handled

    def _may_know(self, ctx: RequestContext) -> bool:
        """Whether the controller would let the principal change a broker's configuration."""
        authorizer = self.authorizer
        if authorizer is None:
            return True
        kind = AclResourceType.CLUSTER
        return authorizer.may(ctx, Operation.ALTER_CONFIGS, kind, CLUSTER_NAME, audited=False)

    def _unknown(self, resource: Any) -> list[str]:
        if resource.resource_type != BROKER or broker_id(resource.resource_name) != self.node_id:
            return []
        wanted = [
            path.strip()
            for change in resource.configs
            if change.name == KEY and getattr(change, "config_operation", SET) in (SET, APPEND)
            for path in (change.value or "").split(",")
        ]
        if wanted == [EVERY]:
            return []
        return unknown_paths(filter(None, wanted), self.log_dirs)
