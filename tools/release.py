"""Makes the page of a release of the fragments in ``changes/``: ``python -m tools.release VERSION``.

A fragment is ``<slug>.<kind>.md``. The page is ``docs/releases/VERSION.md``; the changelog gets a line that
leads to it, the package gets the version, and the fragments are removed. Nothing is committed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
"""The sections of a page, in the order of Keep a Changelog."""


def fragments(folder: Path) -> dict[str, list[Path]]:
    """Kind → its fragments by name. Raises ValueError for a file whose name has no known kind."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.md")):
        if path.name == "README.md":
            continue
        kind = path.name.removesuffix(".md").rpartition(".")[2]
        if kind not in KINDS:
            raise ValueError(f"{path.name}: the name ends in none of {', '.join(KINDS)}")
        found.setdefault(kind, []).append(path)
    return found


def entry(text: str) -> str:
    """A fragment as an item of a list, its further lines indented."""
    return "- " + text.strip().replace("\n", "\n  ")


def page(version: str, texts: Mapping[str, Sequence[str]]) -> str:
    parts = [
        f"# Barnabas {version}\n\nThe [changelog](../../CHANGELOG.md) lists the other releases.\n"
    ]
    for kind in KINDS:
        if texts.get(kind):
            items = "\n".join(map(entry, texts[kind]))
            parts.append(f"\n## {kind.capitalize()}\n\n{items}\n")
    return "".join(parts)


def release(version: str, root: Path) -> Path:
    """Write the page, the changelog's line and the version; remove the fragments. Returns the page's path."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"{version} is no version such as 0.2.0")
    target = root / "docs" / "releases" / f"{version}.md"
    if target.exists():
        raise ValueError(f"{target.relative_to(root)} exists: that version is released")
    found = fragments(root / "changes")
    texts = {kind: [path.read_text("utf-8") for path in paths] for kind, paths in found.items()}
    target.write_text(page(version, texts), "utf-8")
    changelog = root / "CHANGELOG.md"
    lines = changelog.read_text("utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("- ["))
    lines.insert(first, f"- [{version}](docs/releases/{version}.md)")
    changelog.write_text("\n".join(lines) + "\n", "utf-8")
    package = root / "src" / "barnabas" / "__init__.py"
    text = package.read_text("utf-8")
    package.write_text(re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', text), "utf-8")
    for paths in found.values():
        for path in paths:
            path.unlink()
    return target


if __name__ == "__main__":
    try:
        print(f"wrote {release(sys.argv[1], ROOT).relative_to(ROOT)}")
    except (ValueError, IndexError) as error:
        sys.exit(f"release: {error}")
