"""Endpoint and keys of an S3 store: Spark's settings for S3A first, then the variables of AWS's tools."""

from __future__ import annotations

import pytest

from barnabas.pipeline.places.s3_settings import PREFIX, S3Settings, settings_from, shared_out

ENVIRONMENT = {
    "AWS_ENDPOINT_URL": "http://store:9000",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_ACCESS_KEY_ID": "environment",
    "AWS_SECRET_ACCESS_KEY": "secret",
}


def test_sparks_settings_go_before_the_environment() -> None:
    spark = {PREFIX + "access.key": "spark", PREFIX + "endpoint": "other:9000"}
    found = settings_from(spark.get, ENVIRONMENT)
    assert found == S3Settings("https://other:9000", "eu-west-1", "spark", "secret")
    plain = {**spark, PREFIX + "connection.ssl.enabled": "false"}
    assert settings_from(plain.get, {}).endpoint == "http://other:9000"


@pytest.mark.parametrize("given", ["http://store:9000", "https://store"])
def test_deltalake_and_pyiceberg_get_what_is_set(given: str) -> None:
    found = S3Settings(endpoint=given, access_key="key", secret_key="secret")
    delta = found.for_delta()
    assert (delta["AWS_ENDPOINT_URL"], delta["AWS_REGION"]) == (given, "us-east-1")
    assert ("AWS_ALLOW_HTTP" in delta) == given.startswith("http:")
    assert "AWS_SESSION_TOKEN" not in delta
    assert found.for_iceberg()["s3.endpoint"] == given
    assert S3Settings().for_delta() == S3Settings().for_iceberg() == {}


def test_settings_of_one_side_are_given_to_the_other() -> None:
    environment = dict(ENVIRONMENT)
    settings = shared_out({PREFIX + "secret.key": "spark"}, environment)
    assert environment["AWS_SECRET_ACCESS_KEY"] == "spark"
    assert settings[PREFIX + "endpoint"] == "http://store:9000"
    assert settings[PREFIX + "endpoint.region"] == "eu-west-1"
    assert settings[PREFIX + "path.style.access"] == "true"
    assert PREFIX + "access.key" not in settings  # S3A finds it in the environment
    assert shared_out({"spark.ui.enabled": "false"}, {}) == {"spark.ui.enabled": "false"}


def test_no_text_of_settings_shows_a_key() -> None:
    assert "secret" not in repr(S3Settings("http://store:9000", "", "key", "secret", "token"))
