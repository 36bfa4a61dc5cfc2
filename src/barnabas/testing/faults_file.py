"""The file ``testing.faults.file``: the facts that a cluster with faults gives its nodes.

The cluster writes it before its nodes start, readable by its owner only. A node with that key runs
`barnabas.testing.faulty_node`; every other node refuses the key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

LOOPBACK = "127.0.0.1"


class FaultsFile(NamedTuple):
    """The content of the file."""

    token: str
    """The secret that a command to a node's control must show."""
    control: str
    """The directory in which each node says where its control listens: ``node-1.json``."""
    relay_port: int
    """The port of the links' relay, through which nodes reach each other."""
    advertised: Mapping[int, int]
    """The port of the relay at which clients find a node, by node id."""
    directories: int = 1
    """How many log directories each node has."""

    def write(self, path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(self._asdict(), file)

    def control_file(self, node_id: int) -> Path:
        return Path(self.control) / f"node-{node_id}.json"


def read_faults_file(path: Path | str) -> FaultsFile:
    """Raises ``OSError``, and ``ValueError`` for a file that is not one of these."""
    try:
        values = json.loads(Path(path).read_text())
        ports = {int(node): port for node, port in values.pop("advertised").items()}
        return FaultsFile(advertised=ports, **values)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a file that barnabas.testing wrote") from error
