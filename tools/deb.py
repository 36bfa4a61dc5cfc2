"""Builds a package for Debian 12 of what is committed: ``python -m tools.deb`` (``make deb``).

It has Barnabas and its run-time packages in a folder of their own, the service of ``packaging/debian``, and
``/etc/barnabas/server.properties``, which an upgrade leaves as it is. Data in ``/var/lib/barnabas`` are never
removed. Two builds of one commit are the same bytes. It needs ``dpkg-deb``.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from barnabas import __version__
from tools import distribution, file_modes, image
from tools.distribution import ROOT, DistributionError, run

SOURCES = ROOT / "packaging" / "debian"
SITE = "usr/lib/barnabas"
PROPERTIES = "etc/barnabas/server.properties"
SCRIPTS = ("postinst", "prerm", "postrm")
LAUNCHER = f"""#!/usr/bin/python3 -I
import os
import sys

sys.path.insert(0, "/{SITE}")
os.environ["PYTHONPATH"] = "/{SITE}"  # of the processes that a command starts

from barnabas.cli.main import main

sys.exit(main())
"""


def control(architecture: str, installed_kib: int) -> str:
    return f"""Package: barnabas
Version: {__version__}
Architecture: {architecture}
Maintainer: The developers of Barnabas <barnabas@localhost>
Installed-Size: {installed_kib}
Depends: python3 (>= {image.PYTHON}), python3 (<< 3.12), libstdc++6, passwd, util-linux
Section: net
Priority: optional
Description: Kafka-wire-compatible event log
 A replicated, partitioned event log that clients, tools and brokers of Apache
 Kafka work with. This package runs one node as a service.
"""


def assemble(folder: Path, wheel: Path) -> None:
    """Lay the package's files below `folder`."""
    image.install_packages(folder / SITE)
    image.install_wheel(folder / SITE, wheel)
    image.compile_modules(folder)
    for name, mode, text in (
        ("usr/bin/barnabas", 0o755, LAUNCHER),
        ("lib/systemd/system/barnabas.service", 0o644, (SOURCES / "barnabas.service").read_text()),
        (PROPERTIES, 0o640, (SOURCES / "server.properties").read_text()),
        ("usr/share/doc/barnabas/README.md", 0o644, (ROOT / "README.md").read_text()),
        ("usr/share/doc/barnabas/copyright", 0o644, (ROOT / "LICENSE").read_text()),
        ("DEBIAN/conffiles", 0o644, f"/{PROPERTIES}\n"),
        *((f"DEBIAN/{name}", 0o755, (SOURCES / name).read_text()) for name in SCRIPTS),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
    architecture = run("dpkg", "--print-architecture").strip()
    kib = sum(path.stat().st_size for path in files(folder)) // 1024
    (folder / "DEBIAN" / "control").write_text(control(architecture, kib))
    file_modes.fix(folder, {PROPERTIES: 0o640})


def files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())


def build(target: Path) -> Path:
    """Write the package into the folder `target`; returns its path."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        dist, tree = work / "dist", work / "tree"
        dist.mkdir()
        tree.mkdir(mode=0o755)
        wheel, _ = distribution.build(dist, distribution.programs(ROOT / "build" / "release"))
        assemble(tree, wheel)
        when_s = run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
        for path in (tree, *tree.rglob("*")):
            os.utime(path, (int(when_s), int(when_s)), follow_symlinks=False)
        command = ("dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, target)
        run(*command, SOURCE_DATE_EPOCH=when_s)
    [package] = target.glob("*.deb")
    return package


def main() -> int:
    target = ROOT / "build" / "deb"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    try:
        package = build(target)
    except DistributionError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{package.stat().st_size / (1 << 20):.1f} MiB  {package.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
