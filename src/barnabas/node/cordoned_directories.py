"""Refuses to cordon directories that this broker does not have (``cordoned.log.dirs``, KIP-1066).

The controller knows the ids of a broker's directories, not their paths, so it cannot judge the change. The
broker that it is about does, where that one is asked, as Kafka's tools do. Wraps IncrementalAlterConfigs.

Source: Kafka's ``DynamicLogConfig.validateReconfiguration``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from barnabas.config.broker import broker_id
from barnabas.config.meta_properties import unknown_paths
from barnabas.metadata.image.image import BROKER
from barnabas.node.logger_configs import answering_own
from barnabas.wire.api_table import ApiKey
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.incremental_alter_configs_response import AlterConfigsResourceResponse

KEY = "cordoned.log.dirs"
EVERY = "*"
SET, APPEND = 0, 2


class CordonedDirectories(NamedTuple):
    """This broker's id and ``log.dirs``."""

    node_id: int
    log_dirs: Sequence[str]

    def serve(self, table: ApiTable) -> None:
        """Wrap the handler in the `table` of one listener, where it has it."""
        entry = table.get(ApiKey.INCREMENTAL_ALTER_CONFIGS)
        if entry is not None:
            handle = answering_own(entry.handle, "responses", self._is_refused, self._refusal)
            table.replace(ApiKey.INCREMENTAL_ALTER_CONFIGS, handle)

    def _unknown(self, resource: Any) -> list[str]:
        if resource.resource_type != BROKER or broker_id(resource.resource_name) != self.node_id:
            return []
        wanted = [
            path.strip()
            for change in resource.configs
            if change.name == KEY and change.config_operation in (SET, APPEND)
            for path in (change.value or "").split(",")
        ]
        if wanted == [EVERY]:
            return []
        return unknown_paths(filter(None, wanted), self.log_dirs)

    def _is_refused(self, resource: Any) -> bool:
        return bool(self._unknown(resource))

    def _refusal(self, resource: Any, request: Any) -> AlterConfigsResourceResponse:
        missing = ", ".join(self._unknown(resource))
        return AlterConfigsResourceResponse(
            resource_type=BROKER,
            resource_name=resource.resource_name,
            error_code=ErrorCode.INVALID_CONFIG,
            error_message=f"Invalid entry in {KEY}: {missing}. All cordoned log dirs must be entries of"
            " log.dirs or log.dir.",
        )
