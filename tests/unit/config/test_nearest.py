"""Misspelt keys and what they were meant to be."""

from __future__ import annotations

import pytest

from barnabas.config.broker import nearest_key
from barnabas.config.definition import ConfigError
from barnabas.config.group import check_group_overrides
from barnabas.config.nearest import hint, nearest
from barnabas.config.node import NodeConfig
from barnabas.config.topic import check_topic_overrides


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("num.partition", "num.partitions"),
        ("log_retention_ms", "log.retention.ms"),
        ("LOG.DIRS", "log.dirs"),
        ("auto.create.topic.enable", "auto.create.topics.enable"),
        ("my.company.label", None),
    ],
)
def test_a_misspelt_key_has_the_nearest_one(misspelt: str, meant: str | None) -> None:
    assert nearest_key(misspelt) == meant


def test_the_first_in_the_alphabet_of_equally_near_keys_is_named() -> None:
    assert nearest("abcdefx", ["abcdefz", "abcdefy"]) == "abcdefy"


def test_a_key_that_looks_like_nothing_has_no_hint() -> None:
    assert hint("zzz", ["log.dirs"]) == ""


@pytest.mark.slow
def test_a_nodes_file_tells_unknown_keys_with_their_nearest() -> None:
    config = NodeConfig.from_properties(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": "1@127.0.0.1:9093",
            "num.partition": "7",
            "my.label": "x",
        }
    )
    assert config.unknown_keys() == {"num.partition": "num.partitions", "my.label": None}


def test_refusals_of_dynamic_keys_name_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean retention\.ms\?"):
        check_topic_overrides({"retention.mss": "1"}, {})
    with pytest.raises(ConfigError, match=r"did you mean consumer\.session\.timeout\.ms\?"):
        check_group_overrides({"consumer.session.timeout": "1"}, {})
