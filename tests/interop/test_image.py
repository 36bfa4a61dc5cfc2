"""The container image, unpacked and run on files that cannot be written, by a user without rights."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.local.free_ports import FreePorts
from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from tests.interop.umask import umask
from tools import image

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(1800)]

MIB_MAX = 120
IN_A_CONTAINER = """
set -e
mount --bind "$ROOT" "$ROOT"
mount -o remount,ro,bind "$ROOT"
mount --rbind /dev "$ROOT/dev"
mount -t proc proc "$ROOT/proc"
mount --bind "$VOLUME" "$ROOT/var/lib/kafka/data"
exec /usr/sbin/chroot --userspec=1000:1000 "$ROOT" "$@"
"""
"""A container runtime's part: mounts, the user, and nothing else."""


def missing() -> str | None:
    """A sentence about what is missing, or None."""
    for program in ("apt-get", "dpkg-deb", "/usr/bin/unshare", "/usr/sbin/chroot"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if os.geteuid() != 0:
        return "mounts need root"
    return None


class Unpacked:
    """The image's files in a folder, its configuration, and a volume."""

    def __init__(self, layout: Path, folder: Path) -> None:
        def blob(descriptor: dict[str, str]) -> Path:
            return layout / "blobs" / descriptor["digest"].replace(":", "/")

        index = json.loads((layout / "index.json").read_text())
        manifest = json.loads(blob(index["manifests"][0]).read_text())
        self.config = json.loads(blob(manifest["config"]).read_text())["config"]
        self.root = folder / "root"
        self.volume = folder / "volume"
        self.volume.mkdir()
        os.chown(self.volume, 1000, 1000)
        for layer in manifest["layers"]:
            with tarfile.open(blob(layer)) as archive:
                archive.extractall(self.root, filter="fully_trusted")

    def start(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        """Run a command of the image, or what its configuration names."""
        given = command or (*self.config["Entrypoint"], *self.config["Cmd"])
        environment = dict(entry.split("=", 1) for entry in self.config["Env"])
        around = {"ROOT": str(self.root), "VOLUME": str(self.volume)}
        return subprocess.Popen(
            ["/usr/bin/unshare", "--mount", "/bin/bash", "-c", IN_A_CONTAINER, "bash", *given],
            env={**environment, **variables, **around},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unpacked]:
    sentence = missing()
    if sentence is not None:
        pytest.skip(sentence)
    folder = tmp_path_factory.mktemp("image")
    with umask(0o077):  # modes follow from what files are, not from who builds
        archive = image.build(folder)
    assert archive.stat().st_size < MIB_MAX << 20
    yield Unpacked(folder / "layout", folder)


def test_a_compose_file_of_apache_kafka_needs_another_image_line_only(unpacked: Unpacked) -> None:
    client, controller = FreePorts().take(2)
    variables = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{client}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@localhost:{controller}",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    }
    for attempt in range(2):  # the second container finds the volume of the first
        node = unpacked.start(**variables)
        try:
            while unpacked.start(*unpacked.config["Healthcheck"]["Test"][1:]).wait() != 0:
                assert node.poll() is None, node.communicate()[0]
                time.sleep(0.2)
            with connect(f"127.0.0.1:{client}") as connected:
                if attempt == 0:
                    connected.create_topic("errands", partitions=1, replication_factor=1)
                with connected.producer() as producer:
                    producer.send(ProducerRecord("errands", b"done"))
            node.send_signal(signal.SIGTERM)
            assert node.wait(30) == 0
        finally:
            node.kill()
            said, _ = node.communicate()
    assert "node.stopped" in said
    assert (unpacked.volume / "errands-0").is_dir()
    assert all(path.stat().st_uid == 1000 for path in unpacked.volume.iterdir())


def test_the_shell_and_the_command_line_are_there(unpacked: Unpacked) -> None:
    said, _ = unpacked.start("/bin/sh", "-c", "barnabas --version && id -u").communicate()
    assert said.splitlines()[-1] == "1000", said


def test_every_library_that_a_module_needs_is_there(unpacked: Unpacked) -> None:
    libraries = [path for path in unpacked.root.rglob("*.so*") if path.is_file()]
    assert len(libraries) > 50
    loader = "/lib64/ld-linux-x86-64.so.2"
    names = " ".join(f"/{path.relative_to(unpacked.root)}" for path in libraries)
    script = f"for f in {names}; do {loader} --list $f; done"
    said, _ = unpacked.start("/bin/sh", "-c", script).communicate()
    assert [line for line in said.splitlines() if "not found" in line] == []
