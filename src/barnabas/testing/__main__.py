"""``python -m barnabas.testing``: a cluster for a test in any language.

One line of JSON on standard output says what was started, once the cluster takes writes::

    {"bootstrap": "127.0.0.1:...", "nodes": [1], "directory": "...", "client": {}, "controls": {}}

`client` are the properties of a client of a secure cluster, `controls` the ports of the nodes' controls by id
and `token` their token, with ``--faults``. Lines on standard input are commands for nodes: ``kill 1``,
``pause 1``, ``resume 1``, ``terminate 1``, ``restart 1``; each is answered by one line, ``{"ok": "kill 1"}``
or ``{"error": "one sentence"}``. The cluster ends, and its directory goes, with SIGTERM, SIGINT or the end of
standard input, which comes however the test ends.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from barnabas.testing.cluster import Cluster, ClusterError


def main(arguments: Sequence[str]) -> int:
    """Run a cluster until standard input ends. Returns the exit status."""
    signal.signal(signal.SIGTERM, _end)
    try:
        with _cluster_of(arguments) as cluster:
            _say(_described(cluster))
            for line in sys.stdin:
                if line.strip():
                    _say(_answer(cluster, line))
    except ClusterError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def _end(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _cluster_of(arguments: Sequence[str]) -> Cluster:
    parser = argparse.ArgumentParser(
        prog="python -m barnabas.testing", description="a cluster for tests"
    )
    parser.add_argument("--nodes", type=int, default=1, help="how many (default: 1)")
    parser.add_argument("--secure", action="store_true", help="TLS and SASL on every listener")
    parser.add_argument("--faults", action="store_true", help="nodes that can be made to fail")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a property of every node"
    )
    given = parser.parse_args(list(arguments))
    settings = {}
    for item in given.set:
        key, equals, value = item.partition("=")
        if not equals or not key:
            parser.error(f"--set takes KEY=VALUE, not {item!r}")
        settings[key] = value
    if given.nodes < 1:
        parser.error("--nodes is at least 1")
    return Cluster(given.nodes, settings=settings, secure=given.secure, faults=given.faults)


def _described(cluster: Cluster) -> dict[str, Any]:
    faults = cluster.faults
    described: dict[str, Any] = {
        "bootstrap": cluster.bootstrap,
        "nodes": cluster.node_ids,
        "directory": str(cluster.directory),
        "client": cluster.client_properties,
        "controls": {},
    }
    if faults is not None:
        described["controls"] = {str(node): faults.port(node) for node in cluster.node_ids}
        described["token"] = faults.token
    return described


def _answer(cluster: Cluster, line: str) -> dict[str, str]:
    commands: dict[str, Callable[[int], None]] = {
        "kill": cluster.kill,
        "pause": cluster.pause,
        "resume": cluster.resume,
        "terminate": cluster.terminate,
        "restart": cluster.restart,
    }
    words = line.split()
    known = ", ".join(commands)
    if len(words) != 2 or words[0] not in commands or not words[1].isdecimal():
        return {"error": f"a command is one of {known} and the id of a node, not {line.strip()!r}"}
    try:
        commands[words[0]](int(words[1]))
    except KeyError:
        return {"error": f"there is no node {words[1]}"}
    except (ClusterError, OSError) as error:
        return {"error": str(error).partition("\n")[0]}
    return {"ok": " ".join(words)}


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
