"""The compose files give variables that make a node's configuration, and name the version there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas import __version__
from barnabas.cli.local.node_environment import node_properties
from barnabas.config.properties import format_properties
from barnabas.host.secrets.config_files import node_config

FOLDER = Path(__file__).parents[3] / "examples" / "containers"
VARIABLE = re.compile(r"^ {2,6}(KAFKA_\w+|CLUSTER_ID): (.+)$", re.MULTILINE)


def nodes_of(text: str) -> list[dict[str, str]]:
    """The variables of each service. The files are plain enough to need no reader of YAML."""
    common, _, services = text.partition("\nservices:\n")
    shared = dict(VARIABLE.findall(common))
    parts = re.split(r"(?m)^  \w[\w-]*:\n", services.partition("\nvolumes:")[0])[1:]
    return [{**shared, **dict(VARIABLE.findall(part))} for part in parts]


@pytest.mark.parametrize(("name", "count"), [("compose.yaml", 1), ("compose-three.yaml", 3)])
def test_the_variables_of_a_compose_file_configure_its_nodes(
    name: str, count: int, tmp_path: Path
) -> None:
    text = (FOLDER / name).read_text()
    nodes = [
        node_config(format_properties(node_properties(given, tmp_path / "none")))
        for given in nodes_of(text)
    ]
    assert [node.node_id for node in nodes] == list(range(1, count + 1))
    ports = re.findall(r'- "(\d+):\1"', text)
    advertised = [{spec.name: spec.endpoint.port for spec in node.advertised} for node in nodes]
    assert [found["PUBLIC"] for found in advertised] == [int(port) for port in ports]


def test_each_compose_file_names_the_version_that_there_is() -> None:
    for path in FOLDER.glob("*.yaml"):
        assert set(re.findall(r"image: (\S+)", path.read_text())) == {f"barnabas:{__version__}"}
