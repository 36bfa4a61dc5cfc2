"""A release gathers fragments into a page; the commit lint names what is too long and what lacks a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.commit_subjects import problems
from tools.release import release


def repository(root: Path) -> Path:
    for folder in ("changes", "docs/releases", "src/barnabas"):
        (root / folder).mkdir(parents=True)
    (root / "changes/README.md").write_text("# Fragments\n")
    (root / "changes/lag.added.md").write_text("Lag has a metric\nin seconds.\n")
    (root / "changes/marker.fixed.md").write_text("A marker is written once.\n")
    (root / "CHANGELOG.md").write_text("# Changelog\n\n- [0.1.0](docs/releases/0.1.0.md)\n")
    (root / "src/barnabas/__init__.py").write_text('"""Log."""\n\n__version__ = "0.1.0"\n')
    return root


def test_a_release_makes_a_page_of_the_fragments_and_removes_them(tmp_path: Path) -> None:
    root = repository(tmp_path)
    page = release("0.2.0", root).read_text()
    assert "## Added\n\n- Lag has a metric\n  in seconds.\n" in page
    assert page.index("## Added") < page.index("## Fixed")
    assert (root / "CHANGELOG.md").read_text().splitlines()[2:] == [
        "- [0.2.0](docs/releases/0.2.0.md)",
        "- [0.1.0](docs/releases/0.1.0.md)",
    ]
    assert '"0.2.0"' in (root / "src/barnabas/__init__.py").read_text()
    assert [path.name for path in (root / "changes").iterdir()] == ["README.md"]


@pytest.mark.parametrize("version", ["0.2", "next"])
def test_a_release_needs_a_version_of_three_numbers(version: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no version"):
        release(version, repository(tmp_path))


def test_a_fragment_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    root = repository(tmp_path)
    (root / "changes/lag.new.md").write_text("Lag.\n")
    with pytest.raises(ValueError, match=r"lag\.new\.md"):
        release("0.2.0", root)


def test_a_version_is_released_once(tmp_path: Path) -> None:
    root = repository(tmp_path)
    release("0.2.0", root)
    with pytest.raises(ValueError, match="is released"):
        release("0.2.0", root)


def test_a_commit_has_a_short_subject_and_a_body() -> None:
    log = f"a1\nShort\nBecause.\n\0\nb2\n{'x' * 73}\nBecause.\n\0\nc3\nNo reason\n\n\0\n"
    assert [sentence.partition(":")[0] for sentence in problems(log)] == ["b2", "c3"]
