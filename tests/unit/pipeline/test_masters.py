"""Before a session starts: what its master needs, in a sentence."""

from __future__ import annotations

import socket

import pytest

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.workers.masters import check_master, why_not_started


def refusing_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def test_yarn_needs_the_folder_of_its_configuration() -> None:
    with pytest.raises(PipelineError, match="needs HADOOP_CONF_DIR or YARN_CONF_DIR"):
        check_master("yarn", {}, {})
    check_master("yarn", {}, {"YARN_CONF_DIR": "/etc/hadoop"})


def test_the_driver_is_in_no_cluster_mode() -> None:
    with pytest.raises(PipelineError, match=r"spark\.submit\.deployMode is client"):
        check_master("yarn", {"spark.submit.deployMode": "cluster"}, {"HADOOP_CONF_DIR": "/etc"})


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("k8s://https://127.0.0.1:{port}", "the Kubernetes API of k8s://https://127.0.0.1"),
        ("k8s://127.0.0.1:{port}", "the Kubernetes API of k8s://127.0.0.1"),
        ("spark://127.0.0.1:{port},127.0.0.1:{port}", "Spark's master spark://127.0.0.1"),
    ],
)
def test_a_master_that_does_not_answer_is_named(master: str, said: str) -> None:
    with pytest.raises(PipelineError, match=f"{said}.* is not reached: .*refused"):
        check_master(master.format(port=refusing_port()), {}, {})


@pytest.mark.parametrize(
    "master", ["spark://127.0.0.1:1,127.0.0.1:{port}", "k8s://http://127.0.0.1:{port}"]
)
def test_one_master_that_answers_is_enough(master: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(master.format(port=server.getsockname()[1]), {}, {})
    check_master("local[*]", {}, {})


def test_a_session_that_does_not_start_has_its_cause_in_a_sentence() -> None:
    text = (
        "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
        ": org.apache.spark.SparkException: External scheduler cannot be instantiated\n"
        "\tat org.apache.spark.SparkContext$.create(SparkContext.scala:3220)\n"
        "Caused by: org.apache.spark.SparkException: Must specify the executor container image\n"
        "\tat scala.Option.getOrElse(Option.scala:201)\n"
    )
    said = str(why_not_started("k8s://https://host", Exception(text)))
    assert said == (
        "Spark does not start with master k8s://https://host: SparkException: Must specify the executor"
        " container image"
    )
    assert str(why_not_started("yarn", Exception("[JAVA_GATEWAY_EXITED] it ended"))).endswith(
        "it ended"
    )
