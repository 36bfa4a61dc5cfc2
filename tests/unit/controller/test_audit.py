"""The records that change configurations and levels name who asked, and events show it."""

from __future__ import annotations

from barnabas.controller.audit import requested_by, with_requester
from barnabas.controller.decision import Decision
from barnabas.metadata.image.codec import decode_record, encode_record
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.views.cluster_events import EventReader
from barnabas.wire.request import RequestContext


def context(client_id: str | None = "tool", principal: str = "User:ann") -> RequestContext:
    return RequestContext(api_key=0, api_version=0, client_id=client_id, principal=principal)


def test_it_names_the_principal_and_its_client() -> None:
    assert requested_by(context()) == "asked by User:ann, client tool"
    assert requested_by(context(client_id=None)) == "asked by User:ann"
    assert len(requested_by(context(client_id="x" * 30_000))) < 100


def test_records_that_have_a_reason_keep_it_and_others_have_none() -> None:
    own = ConfigRecord(resource_type=2, resource_name="t", name="a", value="1", reason="mine")
    bare = ConfigRecord(resource_type=2, resource_name="t", name="b", value="1")
    level = FeatureLevelRecord(name="group.version", feature_level=1)
    decision = Decision(None, [own, bare, level, TopicRecord(name="t")])
    assert with_requester(decision, context()) is decision
    assert own.reason == "mine"
    assert bare.reason == level.reason == "asked by User:ann, client tool"


def test_it_is_written_and_read_and_shown() -> None:
    records = [
        ConfigRecord(resource_type=2, resource_name="t", name="b", value="1"),
        FeatureLevelRecord(name="group.version", feature_level=1),
    ]
    with_requester(Decision(None, records), context())
    values = [encode_record(record, 0) for record in records]
    assert [getattr(decode_record(value), "reason", None) for value in values] == [
        "asked by User:ann, client tool"
    ] * 2
    told = list(EventReader().feed(values, 0, 0))
    assert [(event.kind, event.reason) for event in told] == [
        ("config", "asked by User:ann, client tool"),
        ("feature", "asked by User:ann, client tool"),
    ]


def test_records_without_a_requester_have_kafkas_bytes() -> None:
    record = FeatureLevelRecord(name="group.version", feature_level=1)
    assert b"asked" not in encode_record(record, 0)
    assert getattr(decode_record(encode_record(record, 0)), "reason", 1) is None
