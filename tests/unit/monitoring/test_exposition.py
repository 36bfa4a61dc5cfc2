"""The text of a scrape: names, labels, values that are hostile, and what the parsers of others read."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from barnabas.monitoring.exposition import Exposition, labels_text
from barnabas.monitoring.metric import Metric, MetricType, by_mbean, prometheus_name
from barnabas.monitoring.table import metrics

HOSTILE = 'a"b\\c\nd\u2028e'


@pytest.mark.parametrize(
    ("mbean", "is_counter", "name"),
    [
        (
            "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions",
            False,
            "kafka_server_replicamanager_underreplicatedpartitions",
        ),
        (
            "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=*",
            True,
            "kafka_server_brokertopicmetrics_bytesin_total",
        ),
        (
            "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec:Count",
            True,
            "kafka_controller_controllerstats_uncleanleaderelections_total",
        ),
        (
            "kafka.server:type=raft-metrics,name=high-watermark",
            False,
            "kafka_server_raftmetrics_high_watermark",
        ),
        ("kafka_topic_partitions{topic}", False, "kafka_topic_partitions"),
    ],
)  # fmt: skip
def test_names_are_those_of_the_jmx_exporters_usual_rules(
    mbean: str, is_counter: bool, name: str
) -> None:
    assert prometheus_name(mbean, is_counter=is_counter)[0] == name


def test_every_metric_of_a_name_has_one_type_and_is_said_once() -> None:
    types: dict[str, set[MetricType]] = {}
    series: set[tuple[str, object]] = set()
    for metric in metrics().values():
        types.setdefault(metric.name, set()).add(metric.type)
        series.add((metric.name, metric.labels))
        assert metric.meaning
    assert all(len(found) == 1 for found in types.values())
    assert len(series) == len(metrics())


def page() -> Exposition:
    table = by_mbean(
        [
            Metric("a.b:type=T,name=Gauge,topic=*", MetricType.GAUGE, 'says "yes"\\no', ""),
            Metric("a.b:type=T,name=EventsPerSec:Count", MetricType.COUNTER, "events", ""),
            Metric("a.b:type=T,name=Silent", MetricType.GAUGE, "has no value", ""),
        ]
    )
    found = Exposition(table)
    found.add("a.b:type=T,name=Gauge,topic=*", 1.5, labels_text({"topic": HOSTILE}))
    found.add_named("a.b:type=T,name=Gauge,topic=plain", -2)
    found.add("a.b:type=T,name=EventsPerSec:Count", 7)
    return found


@pytest.mark.parametrize("is_open", [False, True])
def test_parsers_of_others_read_what_was_written(is_open: bool) -> None:
    parse = open_metrics if is_open else prometheus
    families = {family.name: family for family in parse(page().text(open_metrics=is_open).decode())}
    assert list(families) == ["a_b_t_gauge", "a_b_t_events"]
    gauge, events = families["a_b_t_gauge"], families["a_b_t_events"]
    assert [(sample.labels["topic"], sample.value) for sample in gauge.samples] == [
        (HOSTILE, 1.5),
        ("plain", -2.0),
    ]
    assert (events.type, events.samples[0].name, events.samples[0].value) == (
        "counter",
        "a_b_t_events_total",
        7.0,
    )
    assert gauge.documentation == 'says "yes"\\no'


def test_a_metric_that_the_table_lacks_is_an_error() -> None:
    with pytest.raises(KeyError):
        page().add("a.b:type=T,name=Other", 1)
