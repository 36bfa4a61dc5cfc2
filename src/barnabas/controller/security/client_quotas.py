"""Decides AlterClientQuotas (KIP-546, KIP-612).

Each entity of a request succeeds or fails alone. Setting a value that is set already, and removing
one that is not set, write no record. An address has to be numeric: looking up a name would block.

Source: Kafka's ``ClientQuotaControlManager``.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

from barnabas.config.group import ADDRESS_QUOTAS, CLIENT_QUOTAS
from barnabas.controller.decision import Decision, Record
from barnabas.controller.decision_context import ControllerContext
from barnabas.metadata.records.client_quota_record import ClientQuotaRecord
from barnabas.metadata.records.client_quota_record import EntityData as RecordEntity
from barnabas.security.quotas.quota_table import CLIENT_ID, CONNECTIONS, IP, USER, Entity
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from barnabas.wire.messages.alter_client_quotas_response import (
    AlterClientQuotasResponse,
)
from barnabas.wire.messages.alter_client_quotas_response import EntityData as AnswerEntity
from barnabas.wire.messages.alter_client_quotas_response import EntryData as AnswerEntry

KEYS = {
    (CLIENT_ID,): CLIENT_QUOTAS,
    (USER,): CLIENT_QUOTAS,
    (CLIENT_ID, USER): CLIENT_QUOTAS,
    (IP,): ADDRESS_QUOTAS,
}
"""The keys that may be set on each kind of entity."""
RATES = frozenset(("request_percentage", "controller_mutation_rate"))
"""Quotas that may be fractions."""
FRACTION_MAX = 1e-6
INT_MAX, LONG_MAX = 0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF
RECORDS_MAX = 10_000


def alter(
    cluster: ControllerContext, request: AlterClientQuotasRequest
) -> Decision[AlterClientQuotasResponse]:
    """Decide the request. Raises INVALID_REQUEST if it has too many changes."""
    answers: dict[tuple[tuple[str, str | None], ...], AnswerEntry] = {}
    records: list[Record] = []
    for entry in request.entries:
        named = tuple((part.entity_type, part.entity_name) for part in entry.entity)
        answer = AnswerEntry(entity=_answer_entity(entry.entity), error_message=None)
        try:
            if named in answers:
                text = f"Ignoring duplicate entity {_text(named)}"
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)
            records += _records(cluster, entry)
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
        answers[named] = answer
    if len(records) > RECORDS_MAX:
        text = f"The request is for {len(records)} changes; one request may make {RECORDS_MAX}."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    if request.validate_only:
        records = []
    entities = ", ".join(sorted(_text(named) for named in answers))
    response = AlterClientQuotasResponse(entries=list(answers.values()))
    return Decision(response, records, f"quotas of {entities}" if records else "")


def _answer_entity(parts: Sequence[EntityData]) -> list[AnswerEntity]:
    """The entity of an answer in Kafka's order: client-id before user."""
    parts = sorted(parts, key=lambda part: part.entity_type)
    return [AnswerEntity(entity_type=p.entity_type, entity_name=p.entity_name) for p in parts]


def _text(named: tuple[tuple[str, str | None], ...]) -> str:
    return " ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in named)


def _records(cluster: ControllerContext, entry: EntryData) -> list[Record]:
    """Raises INVALID_REQUEST."""
    entity = checked_entity([(part.entity_type, part.entity_name) for part in entry.entity])
    current = cluster.image.client_quotas.get(entity, {})
    seen: dict[str, None] = {}
    records: list[Record] = []
    for op in entry.ops:
        if op.key in seen:
            raise _refused(f"Duplicate quota key {op.key} not updating quota for this entity")
        seen[op.key] = None
        if op.remove:
            if op.key in current:
                records.append(_record(entity, op))
            continue
        check_value(entity, op.key, op.value)
        if current.get(op.key) != op.value:
            records.append(_record(entity, op))
    return records


def _record(entity: Entity, op: OpData) -> ClientQuotaRecord:
    return ClientQuotaRecord(
        entity=[RecordEntity(entity_type=kind, entity_name=name) for kind, name in entity],
        key=op.key,
        value=0.0 if op.remove else op.value,
        remove=op.remove,
    )


def checked_entity(parts: Sequence[tuple[str, str | None]]) -> Entity:
    """The entity that `parts` name, sorted by type. Raises INVALID_REQUEST."""
    found: dict[str, str | None] = {}
    for kind, name in parts:
        if kind in found:
            text = f"Invalid empty client quota entity, duplicate entity entry {kind}"
            raise _refused(text)
        if kind not in (USER, CLIENT_ID, IP):
            raise _refused(f"Unhandled client quota entity type: {kind}")
        if name is not None and not name:
            raise _refused(f"Empty {kind} not supported")
        found[kind] = name
    entity = tuple(sorted(found.items()))
    if tuple(kind for kind, _ in entity) not in KEYS:
        raise _refused("Invalid empty client quota entity")
    address = found.get(IP)
    if address is not None and not _is_address(address):
        raise _refused(f"{address} is not a valid IP or resolvable host.")
    return entity


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def check_value(entity: Entity, key: str, value: float) -> None:
    """Raises INVALID_REQUEST."""
    if key not in KEYS[tuple(kind for kind, _ in entity)]:
        raise _refused(f"Invalid configuration key {key}")
    if not value > 0:
        raise _refused(f"Quota {key} must be greater than 0")
    if key in RATES:
        return
    kind, most = ("an INT", INT_MAX) if key == CONNECTIONS else ("a LONG", LONG_MAX)
    if value > most:
        raise _refused(f"Proposed value for {key} is too large for {kind}.")
    if abs(value % 1.0) > FRACTION_MAX:
        raise _refused(f"{key} cannot be a fractional value.")


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
