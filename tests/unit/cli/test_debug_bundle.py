"""The files of a debug bundle: no secret and no record is in them, and what is missing says why."""

from __future__ import annotations

import json
from pathlib import Path

from barnabas.cli.reports.debug_bundle import (
    HEADERS_MAX,
    NodePlace,
    end_of,
    last_headers,
    node_files,
    page,
    versions,
    without_secrets,
)
from barnabas.record.builder import build_batch

PROPERTIES = """
node.id=1
log.dirs={data}
ssl.keystore.password=hush1
listener.name.clients.plain.sasl.jaas.config=hush2
metrics.bearer.token=hush3
my.own.key=hush4
"""


def write_segment(file: Path, batches: int) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(
        b"".join(
            build_batch([(b"key", b"hush-value")], timestamp_ms=at, base_offset=at)
            for at in range(batches)
        )
    )


def test_a_nodes_files_have_no_secret_and_no_record(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "server.properties"
    write_segment(data / "orders-0" / "00000000000000000000.log", 3)
    (data / "meta.properties").write_text("node.id=1\n")
    (data / "bootstrap.checkpoint").write_text("hush5")
    file.write_text(PROPERTIES.format(data=data))
    log = tmp_path / "node.log"
    log.write_text("line\n")
    found = dict(node_files(NodePlace("1", file, log, None)))
    assert list(found) == [
        "node-1/server.properties",
        "node-1/node.log",
        "node-1/data/meta.properties",
        "node-1/data/orders-0/00000000000000000000.headers",
    ]
    assert b"hush" not in b"".join(found.values())
    assert b"node.id=1" in found["node-1/server.properties"]


def test_credentials_in_addresses_are_hidden() -> None:
    given = {"sasl.oauthbearer.jwks.endpoint.url": "https://u:p@h:1/keys?key=k", "node.id": "1"}
    assert without_secrets(given) == {
        "sasl.oauthbearer.jwks.endpoint.url": "https://(secret)@h:1/keys?(secret)",
        "node.id": "1",
    }


def test_headers_are_those_of_the_last_batches(tmp_path: Path) -> None:
    segment = tmp_path / "t-0" / "00000000000000000000.log"
    write_segment(segment, HEADERS_MAX + 5)
    rows = [json.loads(line) for line in last_headers(segment).splitlines()]
    assert [row["base_offset"] for row in rows] == list(range(5, HEADERS_MAX + 5))
    segment.write_bytes(segment.read_bytes() + bytes(61))
    assert "damaged" in json.loads(last_headers(segment).splitlines()[-1])


def test_a_part_that_is_missing_says_why(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert b"No such file" in end_of(missing, 10)
    assert b"refused" in page("http://127.0.0.1:1/metrics", "")
    [(name, content)] = node_files(NodePlace("7", missing, None, None))
    assert name == "node-7/server.properties" and b"No such file" in content
    assert b"unreadable" in last_headers(missing)


def test_the_end_of_a_long_log_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"a" * 100 + b"end")
    assert end_of(log, 3) == b"end"


def test_versions_name_the_packages() -> None:
    _, content = versions()
    assert "crc32c" in json.loads(content)["packages"]
