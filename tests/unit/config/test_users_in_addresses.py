"""Users and passwords in addresses: where they are found, and where they are left out."""

from __future__ import annotations

import pytest

from barnabas.config.definition import ConfigError, without_user
from barnabas.host.structured_log import format_line
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.views.metadata_tree import cat
from barnabas.pipeline.formats.schema_registry import split_user


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://ann:secret@h:1/v1", "https://(secret)@h:1/v1"),
        (
            "a http://token@h and http://u:p@g, too",
            "a http://(secret)@h and http://(secret)@g, too",
        ),
        ("http://h/a@b", "http://h/a@b"),
        ("1@127.0.0.1:9093,2@h:1", "1@127.0.0.1:9093,2@h:1"),
        ("PLAINTEXT://:9092", "PLAINTEXT://:9092"),
    ],
)
def test_users_of_addresses_are_left_out(text: str, shown: str) -> None:
    assert without_user(text) == shown


def test_an_address_is_parted_from_its_user() -> None:
    assert split_user("https://an%40n:s%3At@h:1/v1?a=b") == ("https://h:1/v1?a=b", "an@n", "s:t")
    assert split_user("http://h:1") == ("http://h:1", "", "")


def test_neither_logs_nor_errors_nor_trees_tell_a_user_of_an_address() -> None:
    address = "https://ann:hush@h:1"
    line = format_line(
        0, "warning", "otel.export_failed", {"endpoint": address, "why": f"{address} x"}
    )
    assert "hush" not in line and line.count("https://(secret)@h:1") == 2
    assert "hush" not in str(ConfigError("otel.endpoint", address, "it must be one"))
    image = MetadataImage()
    key = "sasl.oauthbearer.jwks.endpoint.url"
    image.replay(ConfigRecord(resource_type=4, resource_name="", name=key, value=address))
    assert "hush" not in str(cat(image, "/configs")) and "(secret)@h" in str(cat(image, "/configs"))
