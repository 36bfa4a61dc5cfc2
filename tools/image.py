"""Builds a container image as an OCI layout, without a daemon: ``python -m tools.image`` (``make image``).

Three layers: Python and what it needs, unpacked from Debian's packages; the run-time packages of
``requirements/image.lock``; Barnabas itself, as the wheel that `tools.distribution` builds. Files have the
time of the commit, and the layout is also written as one archive, which ``docker load``, podman and skopeo
take. The process is user 1000, writes to ``/var/lib/kafka/data`` only, and takes the variables of Apache
Kafka's image (docs/containers.md). It runs on Debian 12 with ``apt-get`` and ``dpkg-deb``.

Sources: OCI image specification 1.1; ``docker/`` of Apache Kafka 4.4.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from barnabas import __version__
from tools import distribution, file_modes
from tools.distribution import ROOT, DistributionError, run

LOCK = ROOT / "requirements" / "image.lock"
PYTHON = "3.11"
DEBIAN = (
    f"python{PYTHON}-minimal", f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib",
    "libbz2-1.0", "libc6", "libcrypt1", "libexpat1", "libffi8", "libgcc-s1", "liblzma5", "libncursesw6",
    "libreadline8", "libsqlite3-0", "libssl3", "libstdc++6", "libtinfo6", "libuuid1", "zlib1g",
    "busybox-static", "ca-certificates", "openssl", "tzdata",
)  # fmt: skip
"""Debian's packages in the first layer. Their scripts are not run."""
LEFT_OUT = (
    "usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/lintian/", "usr/share/info/",
    "usr/share/bash-completion/", "usr/share/zoneinfo/right/", "usr/share/zoneinfo/posix/", "usr/bin/openssl",
    "usr/bin/c_rehash", "usr/lib/ssl/misc/", "usr/sbin/", "sbin/", "etc/ca-certificates/",
)  # fmt: skip
WITHOUT_LIBRARY = ("nis.", "_dbm.", "_tkinter.")
"""Extension modules of Python whose libraries are not in the image."""
SITE = f"usr/local/lib/python{PYTHON}/dist-packages"
SHELL = (
    "sh",
    "cat",
    "ls",
    "ps",
    "df",
    "du",
    "env",
    "grep",
    "head",
    "tail",
    "sleep",
    "vi",
    "nc",
    "wget",
)
USER = 1000
DATA = "var/lib/kafka/data"
MODES = {"tmp": 0o1777, "root": 0o700}
"""Path in the image → its mode, where `tools.file_modes` would give another one."""
ACCOUNTS = {
    "etc/passwd": (
        "root:x:0:0:root:/root:/bin/sh\n"
        f"appuser:x:{USER}:{USER}:Barnabas:/home/appuser:/bin/sh\n"
    ),
    "etc/group": f"root:x:0:\nappuser:x:{USER}:\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}  # fmt: skip
LAUNCHER = (
    f"#!/usr/bin/python{PYTHON}\n"
    "import sys\n\nfrom barnabas.cli.main import main\n\nsys.exit(main())\n"
)  # fmt: skip
MEDIA = "application/vnd.oci.image"


@dataclass
class Layer:
    """Files of one layer below `folder`; those of `owned` belong to the user."""

    folder: Path
    owned: tuple[str, ...] = ()

    def archive(self, when_s: int) -> bytes:
        """A tar archive, the same bytes for the same files."""
        file_modes.fix(self.folder, MODES)
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for path in sorted(self.folder.rglob("*")):
                name = path.relative_to(self.folder).as_posix()
                entry = archive.gettarinfo(path, name)
                owner = USER if name.startswith(self.owned or ("\0",)) else 0
                entry.uid = entry.gid = owner
                entry.uname = entry.gname = ""
                entry.mtime = when_s
                if entry.isreg():
                    with path.open("rb") as content:
                        archive.addfile(entry, content)
                else:
                    archive.addfile(entry)
        return target.getvalue()


def debian_layer(folder: Path, cache: Path) -> None:
    """Unpack `DEBIAN` into `folder`. Raises `DistributionError` where a package cannot be had."""
    cache.mkdir(parents=True, exist_ok=True)
    run("apt-get", "download", "--quiet", *DEBIAN, cwd=cache)
    for package in sorted(cache.glob("*.deb")):
        unpack(package, folder)
    library = folder / f"usr/lib/python{PYTHON}/lib-dynload"
    for extension in library.iterdir():
        if extension.name.startswith(WITHOUT_LIBRARY):
            extension.unlink()
    for name in ("bin", "etc", "home/appuser", "tmp", "proc", "sys", "dev", "run", "root"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, text in ACCOUNTS.items():
        (folder / name).write_text(text)
    for applet in SHELL:
        (folder / "bin" / applet).symlink_to("busybox")
    (folder / "usr/bin/python3").symlink_to(f"python{PYTHON}")
    merge_certificates(folder)


def unpack(package: Path, folder: Path) -> None:
    with tempfile.TemporaryFile() as archive:
        run_into(archive, "dpkg-deb", "--fsys-tarfile", str(package))
        archive.seek(0)
        with tarfile.open(fileobj=archive) as opened:
            members = [
                entry for entry in opened if not entry.name.removeprefix("./").startswith(LEFT_OUT)
            ]
            opened.extractall(folder, members, filter="tar")


def run_into(target: IO[bytes], *command: str) -> None:
    if subprocess.run(command, stdout=target, check=False).returncode:
        raise DistributionError(f"{' '.join(command)} failed")


def merge_certificates(folder: Path) -> None:
    """The file of all authorities, which the package's script would write."""
    authorities = sorted((folder / "usr/share/ca-certificates").rglob("*.crt"))
    target = folder / "etc/ssl/certs/ca-certificates.crt"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(b"".join(path.read_bytes() for path in authorities))


def install_packages(site: Path) -> None:
    """The run-time packages into `site`, as wheels for Python `PYTHON`."""
    machine = os.uname().machine
    run(
        *(
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-compile",
        ),
        *("--target", site, "--python-version", PYTHON, "--implementation", "cp"),
        *(
            f"--platform=manylinux_2_{minor}_{machine}"
            for minor in (36, 35, 34, 31, 28, 27, 24, 17)
        ),
        *(f"--platform=manylinux2014_{machine}", "--only-binary=:all:"),
        *("--require-hashes", "-r", LOCK),
    )
    shutil.rmtree(site / "bin", ignore_errors=True)


def install_wheel(site: Path, wheel: Path) -> None:
    run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--no-compile", "--no-deps", "--target", site, wheel),
    )
    shutil.rmtree(site / "bin", ignore_errors=True)


def own_layer(folder: Path, wheel: Path) -> None:
    """Barnabas, its launcher, and the folders that are volumes."""
    install_wheel(folder / SITE, wheel)
    launcher = folder / "usr/local/bin/barnabas"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    for name in (DATA, "etc/kafka/secrets", "mnt/shared/config"):
        (folder / name).mkdir(parents=True)


def compile_modules(folder: Path) -> None:
    """Byte code that is used without a look at the source's time, since the file system is read-only."""
    run(
        *(sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"),
        *("-s", str(folder), "-p", "/", folder),
    )


@dataclass
class Layout:
    """An OCI layout that is being written."""

    folder: Path
    descriptors: list[dict[str, Any]] = field(default_factory=list)
    """Those of the layers, in order."""
    diff_ids: list[str] = field(default_factory=list)

    def add(self, content: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs = self.folder / "blobs" / "sha256"
        blobs.mkdir(parents=True, exist_ok=True)
        (blobs / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def add_layer(self, archive: bytes) -> None:
        packed = gzip.compress(archive, 9, mtime=0)
        self.descriptors.append(self.add(packed, f"{MEDIA}.layer.v1.tar+gzip"))
        self.diff_ids.append(f"sha256:{hashlib.sha256(archive).hexdigest()}")

    def finish(self, when_s: int) -> None:
        text = json.dumps(configuration(self.diff_ids, when_s), sort_keys=True)
        config = self.add(text.encode(), f"{MEDIA}.config.v1+json")
        manifest: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA}.manifest.v1+json",
            "config": config,
            "layers": self.descriptors,
        }
        entry = self.add(json.dumps(manifest, sort_keys=True).encode(), manifest["mediaType"])
        entry["annotations"] = {
            "org.opencontainers.image.ref.name": __version__,
            "io.containerd.image.name": f"barnabas:{__version__}",
        }
        index = {"schemaVersion": 2, "mediaType": f"{MEDIA}.index.v1+json", "manifests": [entry]}
        (self.folder / "index.json").write_text(json.dumps(index, sort_keys=True))
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def configuration(diff_ids: Sequence[str], when_s: int) -> dict[str, Any]:
    created = datetime.fromtimestamp(when_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "created": created,
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": {"9092/tcp": {}},
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/home/appuser"],
            "Entrypoint": ["barnabas"],
            "Cmd": ["node", "start", "--from-environment"],
            "Volumes": {f"/{DATA}": {}, "/etc/kafka/secrets": {}, "/mnt/shared/config": {}},
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Healthcheck": {
                "Test": ["CMD", "barnabas", "node", "health"],
                "Interval": 10_000_000_000,
                "Timeout": 10_000_000_000,
                "StartPeriod": 10_000_000_000,
                "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "Barnabas",
                "org.opencontainers.image.version": __version__,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": list(diff_ids)},
    }


def layers(folder: Path, wheel: Path, cache: Path) -> Iterator[Layer]:
    debian, packages, own = (folder / name for name in ("debian", "packages", "own"))
    debian.mkdir()
    debian_layer(debian, cache)
    yield Layer(debian, ("home/appuser",))
    install_packages(packages / SITE)
    compile_modules(packages)
    yield Layer(packages)
    own_layer(own, wheel)
    compile_modules(own)
    yield Layer(own, ("var/lib/kafka", "etc/kafka", "mnt/shared"))


def build(target: Path) -> Path:
    """Write the layout below `target`, an empty folder; returns the archive beside it."""
    layout = Layout(target / "layout")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        dist = work / "dist"
        dist.mkdir()
        wheel, _ = distribution.build(dist, distribution.programs(ROOT / "build" / "release"))
        when_s = int(run("git", "log", "-1", "--format=%ct", cwd=ROOT))
        for layer in layers(work, wheel, work / "debs"):
            layout.add_layer(layer.archive(when_s))
        layout.finish(when_s)
    archive = target / f"barnabas-{__version__}-oci.tar"
    with tarfile.open(archive, "w") as opened:
        for path in sorted(layout.folder.rglob("*")):
            opened.add(path, path.relative_to(layout.folder).as_posix(), recursive=False)
    return archive


def main() -> int:
    target = ROOT / "build" / "image"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    try:
        archive = build(target)
    except DistributionError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{archive.stat().st_size / (1 << 20):.1f} MiB  {archive.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
