"""The needs of a Spark master before a session starts there, and why one did not start, each in a sentence.

Without these checks Spark waits for an unreachable API of Kubernetes for ever, and ends others with Java's
stack traces. Source: Spark's "Running on YARN", "Running on Kubernetes", ``SparkSubmitArguments``.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping

from barnabas.pipeline.errors import PipelineError

YARN_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
STANDALONE = "spark://"
KUBERNETES = "k8s://"
CONNECT_S = 5.0
CAUSE = re.compile(
    r"^(?:Caused by: |: )?(?:[\w$]+\.)+(\w+(?:Exception|Error)): (.+)$", re.MULTILINE
)


def check_master(
    master: str, settings: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> None:
    """Raises `PipelineError`."""
    if settings.get("spark.submit.deployMode", "client") != "client":
        raise PipelineError(
            "this process is the driver, so spark.submit.deployMode is client: start it on a machine that"
            " executors reach, or in a container of the cluster"
        )
    if master == "yarn" and not any(environment.get(variable) for variable in YARN_FOLDERS):
        raise PipelineError(
            "master yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR: the folder with core-site.xml and"
            " yarn-site.xml of the cluster"
        )
    if master.startswith(STANDALONE):
        places = [_split(place, 7077) for place in master.removeprefix(STANDALONE).split(",")]
        _check_reached(places, f"Spark's master {master}")
    if master.startswith(KUBERNETES) and not any(environment.get(variable) for variable in PROXIES):
        url = master.removeprefix(KUBERNETES)
        scheme, colon, rest = url.rpartition("://")
        place = _split(rest.split("/")[0], 80 if colon and scheme == "http" else 443)
        _check_reached([place], f"the Kubernetes API of {master}")


def _split(place: str, port: int) -> tuple[str, int]:
    host, colon, given = place.rpartition(":")
    if not colon or not given.isdigit():
        return place.strip("[]"), port
    return host.strip("[]"), int(given)


def _check_reached(places: list[tuple[str, int]], what: str) -> None:
    """Raises `PipelineError` if none of the places accepts a connection."""
    why: OSError | None = None
    for place in places:
        try:
            socket.create_connection(place, CONNECT_S).close()
        except OSError as error:
            why = error
        else:
            return
    raise PipelineError(f"{what} is not reached: {why}") from why


def why_not_started(master: str, error: Exception) -> PipelineError:
    """A sentence of what keeps a session from starting: the last cause that the text names."""
    text = str(error)
    causes = CAUSE.findall(text)
    said = f"{causes[-1][0]}: {causes[-1][1]}" if causes else text.strip().splitlines()[0]
    return PipelineError(f"Spark does not start with master {master}: {said}")
