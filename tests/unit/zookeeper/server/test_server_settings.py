"""A zoo.cfg: ZooKeeper's keys and defaults, what is named, what is refused."""

from __future__ import annotations

import pytest

from barnabas.types import Endpoint
from barnabas.zookeeper.server.server_settings import (
    ServerSettings,
    SettingsError,
    server_settings,
)

ALONE = {"dataDir": "/data", "clientPort": "2181"}
THREE = {**ALONE, **{f"server.{n}": f"z{n}:2888:3888" for n in (1, 2, 3)}}


def read(properties: dict[str, str], my_id: str = "2\n") -> ServerSettings:
    return server_settings(properties, lambda path: my_id)


def test_defaults_are_those_of_zookeeper() -> None:
    settings = read({**ALONE, "autopurge.purgeInterval": "1", "initLimit": "5"})
    assert not settings.has_ensemble
    assert settings.client_endpoint == Endpoint("", 2181)
    assert (settings.tick_ms, settings.session_timeout_ms) == (3_000, (6_000, 60_000))
    assert settings.connections_per_address_max == 60
    assert settings.frame_bytes_max == 0xFFFFF
    assert settings.whitelist == {"srvr"}
    assert settings.unread == ("autopurge.purgeInterval", "initLimit")


def test_an_ensemble_is_made_of_its_lines_and_myid() -> None:
    settings = read({**THREE, "tickTime": "2000", "maxSessionTimeout": "90000"})
    assert settings.server_id == 2
    assert settings.quorum_endpoints[3] == Endpoint("z3", 2888)
    assert settings.link_endpoints[1] == Endpoint("z1", 3888)
    assert settings.session_timeout_ms == (4_000, 90_000)
    by_address = read({**THREE, "server.3": "[::1]:1:2:participant"})
    assert by_address.link_endpoints[3].host == "::1"
    assert dict(by_address.describe())["server.3"] == "[::1]:1:2"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dataDir": ""}, "dataDir is missing"),
        ({"clientPort": "x"}, "clientPort must be a number"),
        ({"clientPort": "0"}, "must be 1 at least"),
        ({"minSessionTimeout": "9000", "maxSessionTimeout": "8000"}, "must not be larger"),
        ({"jute.maxbuffer": "0x10000000"}, "4194304 at most"),
        ({"secureClientPort": "2182"}, "clients cannot come by TLS"),
        ({"authProvider.1": "a.B"}, "world, digest and ip"),
        ({"quorum.auth.enableSasl": "true"}, "by SASL"),
        ({"peerType": "observer"}, "every server votes"),
        ({"server.1": "z1:2888"}, "host:port:port"),
        ({"server.1": "z1:2888:3888;2181"}, "host:port:port"),
        ({"server.200": "z1:2888:3888"}, "from 1 to 127"),
    ],
)
def test_unserved_keys_and_wrong_values_stop_the_start(changes: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read({**THREE, **changes})


def test_an_own_number_without_a_line_stops_the_start() -> None:
    for text, said in (("4", "there is no server.4"), ("", "myid must be a number")):
        with pytest.raises(SettingsError, match=said):
            read(THREE, text)
    with pytest.raises(SettingsError, match="two servers at least"):
        read({**ALONE, "server.1": "z1:2888:3888"})
    assert not read({**ALONE, "quorum.auth.enableSasl": "false"}).has_ensemble
