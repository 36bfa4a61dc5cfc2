"""A change of this broker's own dynamic configuration under a controller of Kafka 3.9: the broker writes it.

That controller answers for itself only; every broker of Kafka 3.9 writes its own znode, with a notification
that all brokers read. The change is judged as the controller would judge it, on what the znode has, and is
written on condition of the znode's version.

Source: Kafka 3.9's ``ZkAdminManager.alterBrokerConfigs`` (KIP-226).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from barnabas.config.node import NodeConfig
from barnabas.controller.configs.alter_configs import incremental_alter, replace_configs
from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.metadata.image.image import BROKER, MetadataImage
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.register_broker_record import RegisterBrokerRecord
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.request import Api, Parked
from barnabas.wire.schema import Message
from barnabas.zookeeper.config.settings import GENERATED
from barnabas.zookeeper.errors import BadVersion, MultiFailed, NodeExists, NoNode, ZooKeeperError
from barnabas.zookeeper.layout.config_znodes import ConfigChangeZnode, ConfigZnode
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.operations import Create, GetData, Multi, NodeData, Operation, SetData
from barnabas.zookeeper.session_keeper import SessionKeeper

ATTEMPTS = 5
DECIDERS: dict[ApiKey, Any] = {
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter,
    ApiKey.ALTER_CONFIGS: replace_configs,
}


class OwnConfigs:
    """Requests that change the configuration of this broker alone."""

    def __init__(self, sessions: SessionKeeper, config: NodeConfig) -> None:
        assert config.node_id != GENERATED
        self._sessions = sessions
        self._config = config
        self._name = str(config.node_id)
        self._entity = f"brokers/{self._name}"

    def concerns(self, api: Api, request: Any) -> bool:
        """Whether the request changes this broker's configuration and no other."""
        return api.key in DECIDERS and all(
            (one.resource_type, one.resource_name) == (BROKER, self._name)
            for one in request.resources
        )

    def handle(self, api: Api, request: Any) -> Parked:
        parked = Parked()
        self._read(api, request, parked, ATTEMPTS)
        return parked

    def _read(self, api: Api, request: Any, parked: Parked, attempts: int) -> None:
        path = ConfigZnode(self._entity, {}).path
        self._sessions.ask(GetData(path), partial(self._decide, api, request, parked, attempts))

    def _decide(
        self,
        api: Api,
        request: Any,
        parked: Parked,
        attempts: int,
        node: NodeData | ZooKeeperError,
    ) -> None:
        znode = ConfigZnode(self._entity, {})
        if isinstance(node, ZooKeeperError) and not isinstance(node, NoNode):
            self._refuse(api, request, parked, str(node))
            return
        try:
            if isinstance(node, NodeData):
                znode = ConfigZnode.decode(znode.path, node.data)
        except MalformedZnode as error:
            self._refuse(api, request, parked, str(error))
            return
        decision: Decision[Message] = DECIDERS[api.key](self._context(znode), request)
        values = dict(znode.config)
        for record in decision.records:
            assert isinstance(record, ConfigRecord)
            if record.value is None:
                values.pop(record.name, None)
            else:
                values[record.name] = record.value
        if not decision.records:
            parked.complete(decision.response)
            return
        data = ConfigZnode(self._entity, values).encode()
        write: Operation = Create(znode.path, data)
        if isinstance(node, NodeData):
            write = SetData(znode.path, data, node.stat.version)
        change = ConfigChangeZnode(self._entity)
        notify = Create(change.path, change.encode(), sequential=True)

        def on_done(result: object) -> None:
            lost = isinstance(result, MultiFailed) and isinstance(
                result.cause, (BadVersion, NodeExists, NoNode)
            )
            if not isinstance(result, ZooKeeperError):
                parked.complete(decision.response)
            elif lost and attempts > 1:  # another change came first
                self._read(api, request, parked, attempts - 1)
            else:
                self._refuse(api, request, parked, str(result))

        self._sessions.submit(Multi((write, notify)), on_done)

    def _context(self, znode: ConfigZnode) -> ControllerContext:
        """With this broker and what the znode has, and nothing else."""
        image = MetadataImage(track_changes=False)
        image.replay(RegisterBrokerRecord(broker_id=int(self._name), end_points=[]))
        for key, value in znode.config.items():
            image.replay(
                ConfigRecord(resource_type=BROKER, resource_name=self._name, name=key, value=value)
            )
        return ControllerContext(image, self._config.controller, self._config.properties)

    def _refuse(self, api: Api, request: Any, parked: Parked, why: str) -> None:
        parked.complete(api.error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR, why))

    def __repr__(self) -> str:
        return f"OwnConfigs({self._entity})"
