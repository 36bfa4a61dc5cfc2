"""One directory has one text."""

from __future__ import annotations

import pytest

from barnabas.config.meta_properties import normal_path, unknown_paths
from barnabas.config.node import NodeConfig


@pytest.mark.parametrize(
    "text",
    ["/data/a", "/data/a/", "/data//a", "/data/./a", "/data/b/../a", "//data/a", "/data/a/."],
)
def test_a_directory_has_one_normal_path(text: str) -> None:
    assert normal_path(text) == normal_path(text, "/home") == "/data/a"
    assert unknown_paths([text, "/data/c"], ["/data/a/"]) == ["/data/c"]


def test_a_relative_directory_is_below_the_working_directory() -> None:
    assert normal_path("a/", "/home/b") == "/home/b/a"
    properties = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.listener.names": "C",
        "controller.quorum.voters": "1@localhost:9093",
        "listeners": "PLAINTEXT://localhost:9092,C://localhost:9093",
        "listener.security.protocol.map": "C:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": "one/,/two//logs/",
        "cordoned.log.dirs": "/two/logs",
    }
    config = NodeConfig.from_properties(properties).below("/home")
    assert config.log_dirs == ("/home/one", "/two/logs")
    assert config.metadata_log_dir == "/home/one"
