"""The address that a health check asks, by the node's own variables."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from barnabas.cli.failure import Failure
from barnabas.cli.local.node_environment import METRICS
from barnabas.cli.local.node_health import ask_health, own_address


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_ready = self.headers["Authorization"] == "Bearer token"
        self.send_response(200 if is_ready else 401)
        self.end_headers()
        self.wfile.write(self.path.encode())

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, METRICS),
        (
            {"KAFKA_METRICS_LISTENERS": "http://0.0.0.0:7000,http://[::1]:8"},
            "http://127.0.0.1:7000",
        ),
        ({"KAFKA_METRICS_LISTENERS": "https://[::]:7000"}, "https://[::1]:7000"),
    ],
)
def test_an_address_is_that_of_the_nodes_variables(given: dict[str, str], asked: str) -> None:
    assert own_address(given) == asked


@pytest.mark.slow
def test_a_health_check_shows_its_token_and_asks_no_proxy(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert ask_health(address, "token") == (True, "/health/ready")
    assert ask_health(address) == (False, "/health/ready")


def test_a_node_that_does_not_answer_is_a_failure() -> None:
    with pytest.raises(Failure, match="does not answer"):
        ask_health("http://127.0.0.1:1")
    with pytest.raises(Failure, match="is no address"):
        ask_health("ftp://somewhere")
