"""The Debian package in a fresh Debian: installed, run, upgraded, removed; what it never made stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.umask import umask
from tools import deb

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(1800)]

EXPOSURE_MAX = 1.5
"""What `systemd-analyze security` may say of the service; 10 is without any protection."""
IN_DEBIAN = """
set -e
mount --rbind /dev "$ROOT/dev"
mount -t proc proc "$ROOT/proc"
exec /usr/sbin/chroot "$ROOT" "$@"
"""


class Debian:
    """A system in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["/usr/bin/unshare", "--mount", "/bin/bash", "-c", IN_DEBIAN, "bash", *command],
            env={
                "ROOT": str(self.root),
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "LC_ALL": "C.UTF-8",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *command: str) -> str:
        process = self.start(*command)
        said, _ = process.communicate()
        assert process.returncode == 0, said
        return said


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    for program in ("debootstrap", "dpkg-deb"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: apt-get install {program}")
    if os.geteuid() != 0:
        pytest.skip("a system in a folder needs root")
    root = tmp_path_factory.mktemp("debian")
    root.chmod(0o755)  # it is the system's own "/"
    subprocess.run(
        ["debootstrap", "--variant=minbase", "--include=python3,libstdc++6", "bookworm", str(root)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    yield Debian(root)


def serve(debian: Debian, *then: tuple[str, ...]) -> list[str]:
    """Run the service's command as its user, then the commands given; returns what each of them said."""
    as_user = ("setpriv", "--reuid=barnabas", "--regid=barnabas", "--init-groups")
    node = debian.start(*as_user, "barnabas", "node", "start", "/etc/barnabas/server.properties")
    try:
        while debian.start("barnabas", "node", "health").wait() != 0:
            assert node.poll() is None, node.communicate()[0]
            time.sleep(0.2)
        said = [debian.run(*command) for command in then]
        node.terminate()
        assert node.wait(30) == 0
        return said
    finally:
        node.kill()
        node.communicate()


def test_a_package_is_installed_upgraded_and_removed(debian: Debian, tmp_path: Path) -> None:
    with umask(0o077):  # modes follow from what files are, not from who builds
        package = deb.build(tmp_path)
    shutil.copy(package, debian.root / "barnabas.deb")
    debian.run("dpkg", "-i", "/barnabas.deb")
    at = ("--bootstrap", "127.0.0.1:9092")
    serve(
        debian,
        ("barnabas", "topics", "create", "errands", *at),
        ("sh", "-c", "echo done | barnabas produce errands --bootstrap 127.0.0.1:9092"),
    )
    properties = debian.root / "etc/barnabas/server.properties"
    edited = properties.read_text() + "num.partitions=7\n"
    properties.write_text(edited)
    foreign = debian.root / "var/lib/barnabas/not-ours"
    foreign.write_text("kept")
    newer = tmp_path / "newer"
    subprocess.run(["dpkg-deb", "-R", str(package), str(newer)], check=True)
    text = (newer / "DEBIAN/control").read_text()
    (newer / "DEBIAN/control").write_text(text.replace("\nVersion: ", "\nVersion: 1:"))
    subprocess.run(
        [
            "dpkg-deb",
            "--root-owner-group",
            "-Znone",
            "-b",
            str(newer),
            str(debian.root / "newer.deb"),
        ],
        check=True,
    )
    debian.run("dpkg", "-i", "--force-confold", "/newer.deb")
    assert properties.read_text() == edited
    [read] = serve(debian, ("barnabas", "consume", "errands", "--exit", *at))
    assert read == "done\n"
    debian.run("dpkg", "--remove", "barnabas")
    assert properties.read_text() == edited
    debian.run("dpkg", "--purge", "barnabas")
    assert not properties.exists()
    assert foreign.read_text() == "kept"
    assert (debian.root / "var/lib/barnabas/errands-0").is_dir()
    assert not (debian.root / "usr/lib/barnabas").exists()


def test_the_service_is_hardened() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    said = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", str(deb.SOURCES / "barnabas.service")],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    [line] = [line for line in said.splitlines() if "Overall exposure level" in line]
    assert float(line.partition("barnabas.service: ")[2].split()[0]) <= EXPOSURE_MAX, said
