"""The nodes of a cluster share their modules and the codecs of the first messages.

A process loads it once and forks the nodes. Three nodes would otherwise load the same modules and compile the
same readers and writers side by side, while the first elections wait for them, and each would have pages of
its own for them.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.register_broker_record import RegisterBrokerRecord
from barnabas.metadata.records.register_controller_record import RegisterControllerRecord
from barnabas.wire.api_table import API_SCHEMAS, ApiKey
from barnabas.wire.codec import reader_for, writer_for
from barnabas.wire.messages.leader_change_message import LeaderChangeMessage
from barnabas.wire.messages.snapshot_footer_record import SnapshotFooterRecord
from barnabas.wire.messages.snapshot_header_record import SnapshotHeaderRecord
from barnabas.wire.schema import Message

APIS = (
    ApiKey.API_VERSIONS,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.FETCH,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.METADATA,
)
"""The requests that nodes send each other until all of them are in service, and a client's first one."""
RECORDS: tuple[type[Message], ...] = (
    ConfigRecord,
    FeatureLevelRecord,
    RegisterControllerRecord,
    RegisterBrokerRecord,
    BrokerRegistrationChangeRecord,
    SnapshotHeaderRecord,
    SnapshotFooterRecord,
    LeaderChangeMessage,
)
"""The records of the metadata log with which a cluster begins."""


def load_node(*, monitored: bool) -> None:
    """Load what a node needs, and keep it where forked children share it. `monitored`: the nodes serve
    metrics."""
    import gc

    import barnabas.host.main

    if monitored:
        import barnabas.host.tls_contexts
        import barnabas.monitoring.monitoring  # noqa: F401
    _compile_codecs()
    gc.freeze()


@cache
def _compile_codecs() -> None:
    """Once in a process: a template has done it before its children ask for it."""
    for cls in _messages():
        version = cls.VALID[1]
        reader_for(cls, version)
        writer_for(cls, version)


def _messages() -> list[type[Message]]:
    found: list[type[Message]] = []
    for key in APIS:
        schema = API_SCHEMAS[key]
        for module, kind in (
            (schema.request_module, "Request"),
            (schema.response_module, "Response"),
        ):
            found.append(
                getattr(import_module(f"barnabas.wire.messages.{module}"), f"{schema.name}{kind}")
            )
    return [*found, *RECORDS]
