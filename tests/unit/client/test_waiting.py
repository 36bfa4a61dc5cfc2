"""A cluster that does not answer: asked until the time is up, and a person learns what is tried."""

from __future__ import annotations

import pytest

from barnabas.cli.connection.connect import say_what_is_tried
from barnabas.client.client import API_TIMEOUT_MS, Client, Trying
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.host import client as host_client
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics_request import CreateTopicsRequest
from tests.unit.client.fake_cluster import FakeCluster
from tests.unit.client.test_silent_bootstrap import SILENT, Silence


def test_a_call_that_is_retried_until_its_timeout_ends_then() -> None:
    cluster = FakeCluster(nodes=1)
    cluster.world.listen(SILENT, Silence)
    client = Client(cluster.world, [SILENT])
    ended: list[float] = []
    outcomes: list[TaskOutcome[object]] = []

    def done(outcome: TaskOutcome[object]) -> None:
        ended.append(client.now_ms())
        outcomes.append(outcome)

    began = client.now_ms()
    client.tasks.start(client.ask_any(CreateTopicsRequest), done)
    cluster.world.run(40_000)
    trying = client.trying
    assert trying is not None
    assert trying.asked == f"CreateTopics of {SILENT}"
    assert isinstance(trying.failure, ChannelError)
    cluster.world.run(2 * API_TIMEOUT_MS)
    assert not client.trying
    assert ended and ended[0] - began <= API_TIMEOUT_MS + 1
    with pytest.raises(ChannelError):
        outcomes[0].result()


@pytest.mark.slow
def test_a_waiting_caller_sees_once_what_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_client, "SLOW_S", 0.01)
    told: list[tuple[str, float]] = []

    def on_slow(trying: Trying, left_s: float) -> None:
        told.append((trying.asked, left_s))

    nowhere = [Endpoint("127.0.0.1", 1)]
    with (
        host_client.Connected(nowhere, "test", "error", on_slow=on_slow) as connected,
        pytest.raises(ChannelError),
    ):
        connected.call(connected.client.ask_any(CreateTopicsRequest, timeout_ms=300))
    [(asked, left_s)] = told
    assert asked == "CreateTopics of 127.0.0.1:1"
    assert 0 < left_s < 0.3


@pytest.mark.parametrize(
    ("failure", "begins"),
    [
        (None, "no answer yet to CreateTopics of h:1: "),
        (ChannelError("timeout", "h:1 is silent"), "h:1 is silent: "),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT), "the request timed out (REQUEST_TIMED_OUT): "),
    ],
)
def test_one_line_on_standard_error(
    failure: ChannelError | KafkaError | None, begins: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trying = Trying(60_000)
    trying.asked, trying.failure = "CreateTopics of h:1", failure
    say_what_is_tried(trying, 57.4)
    said = capsys.readouterr()
    assert said.err.startswith(begins)
    assert said.err.endswith("trying for 57 more seconds\n")
    assert not said.out
