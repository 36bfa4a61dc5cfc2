"""Each program of docs/clients.md writes and reads its ten records, in whatever language it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing.cluster import Cluster
from tests import peers
from tests.docs.blocks import QUICK, ROOT, Block, Reader, blocks, missing_command

pytestmark = [pytest.mark.process, pytest.mark.slow]
FIRST, *REST = blocks("docs/clients.md")
GO_MODULE = "module flights\n\ngo 1.24\n\nrequire github.com/twmb/franz-go v1.22.3\n"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with Cluster(3, tmp_path_factory.mktemp("clients"), QUICK) as cluster:
        reader = Reader(cluster)
        reader.shell(FIRST.text)
        yield reader


@pytest.mark.parametrize("block", REST, ids=[block.title for block in REST])
def test_the_program_writes_and_reads_ten_records(reader: Reader, block: Block) -> None:
    run = {"sh": _shell, "python": _python, "java": _java, "go": _go, "javascript": _javascript}
    lines = run[block.language](reader, block).splitlines()
    assert len(lines) >= 10, lines


def _shell(reader: Reader, block: Block) -> str:
    return reader.shell(block.text)


def _python(reader: Reader, block: Block) -> str:
    return reader.python(block.text)


def _java(reader: Reader, block: Block) -> str:
    _skip_without(peers.missing())
    classes = ":".join(map(str, sorted(peers.LIBS.glob("*.jar"))))
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", classes, "Flights.java"]
    return reader.program("Flights.java", block.text, command)


def _go(reader: Reader, block: Block) -> str:
    """With what the cache of modules has: nothing is downloaded by a test."""
    _skip_without(missing_command("go"))
    folder = reader.home / "go"
    folder.mkdir()
    (folder / "go.mod").write_text(GO_MODULE)
    (folder / "main.go").write_text(block.text)
    offline = {"GOPROXY": "off", "GOSUMDB": "off", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    built = reader.run(["go", "build", "-o", "flights", "."], offline, folder)
    if "module lookup disabled by GOPROXY=off" in built.stderr or "requires go >=" in built.stderr:
        pytest.skip("franz-go is not in the cache of Go's modules, or wants a newer Go")
    assert built.returncode == 0, built.stderr
    done = reader.run([str(folder / "flights")])
    assert done.returncode == 0, done.stderr
    return done.stdout


def _javascript(reader: Reader, block: Block) -> str:
    """With kafkajs from `NODE_PATH`, or from peers/node_modules."""
    _skip_without(missing_command("node"))
    places = [os.environ.get("NODE_PATH", ""), str(ROOT / "peers" / "node_modules")]
    path = os.pathsep.join(filter(None, places))
    found = reader.run(["node", "-e", "require.resolve('kafkajs')"], {"NODE_PATH": path})
    if found.returncode != 0:
        pytest.skip("kafkajs is not in NODE_PATH nor in peers/node_modules")
    return reader.program("flights.js", block.text, ["node", "flights.js"], NODE_PATH=path)


def _skip_without(sentence: str | None) -> None:
    if sentence is not None:
        pytest.skip(sentence)


def test_a_page_has_a_program_for_each_language() -> None:
    languages = [block.language for block in REST]
    assert languages.count("python") == 4
    assert {"java", "go", "javascript", "sh"} <= set(languages)
    assert Path(ROOT / "docs" / "clients.md").read_text().count("BARNABAS_BOOTSTRAP") > 7
