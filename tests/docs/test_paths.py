"""Paths and links of the documentation lead to something."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
]
BASES = (
    ROOT,
    ROOT / "src" / "barnabas",
    ROOT / "src" / "barnabas" / "sim",
    ROOT / "docs",
    ROOT / "tests",
    ROOT / "src",
)
GENERATED_ELSEWHERE = {"kafka-map.md"}
"""Pages that name Kafka's sources, too; a test of their own holds them to ours."""
PATH = re.compile(r"`((?:[a-z0-9_*-]+/)+(?:[a-z0-9_*-]+\.(?:py|md|txt))?)`")
PLANNED = {"zookeeper/", "security/", "console/"}
SEVERAL = {"messages/", "records/"}
"""Folders of these names are in more than one place."""
NOT_OURS = {"node_modules/", *PLANNED, *SEVERAL}
FILE = re.compile(r"`((?:[a-z0-9_-]+/)*[a-z0-9_]+\.py)`")
ROOM = re.compile(r"^\| `([a-z/]+/)` \|(.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
EXAMPLES = {"rules.py", "elections.py", "job.py"}
"""Files that a page's reader writes."""


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^\s*```.*?^\s*```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> Iterator[str]:
    """Of its headings, as a forge makes them, and its own."""
    text = prose(page)
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", title.lower().replace("`", ""))
        yield plain.replace(" ", "-")
    yield from re.findall(r'<a id="([^"]+)">', text)


def is_there(path: str, page: Path) -> bool:
    bases = (*BASES, page.parent)
    if "/" not in path:
        return any(
            next(base.rglob(path), None) for base in (ROOT / "src", ROOT / "tests", ROOT / "tools")
        )
    return any(next(base.glob(path.rstrip("/")), None) is not None for base in bases)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_module_and_folder_that_a_page_names_exists(page: Path) -> None:
    if page.name in GENERATED_ELSEWHERE:
        pytest.skip("it has a test of its own")
    text = prose(page)
    named = (set(FILE.findall(text)) | set(PATH.findall(text))) - EXAMPLES - NOT_OURS
    missing = {path for path in named if not is_there(path, page)}
    for room, line in ROOM.findall(text):
        # A row about a folder names those in it.
        missing -= {path for path in missing if f"`{path}`" in line and is_there(room + path, page)}
    assert not sorted(missing)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    wrong = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in set(anchors(target))):
            wrong.append(link)
    assert not wrong


def test_every_page_is_reached_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    seen, waiting = {index}, [(index, 0)]
    while waiting:
        page, depth = waiting.pop(0)
        if depth == 2:
            continue
        for link in LINK.findall(prose(page)):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.exists() and target not in seen:
                seen.add(target)
                waiting.append((target, depth + 1))
    assert not sorted(
        str(page.relative_to(ROOT))
        for page in PAGES
        if page not in seen and page != ROOT / "README.md"
    )


def test_each_difference_from_kafka_has_one_row_and_one_paragraph() -> None:
    rows = re.findall(r"^\| \[(\d+)\]", (ROOT / "docs/divergence.md").read_text(), re.MULTILINE)
    details = (ROOT / "docs/divergence-details.md").read_text()
    paragraphs = re.findall(r'^<a id="d(\d+)"></a>\1\. ', details, re.MULTILINE)
    assert sorted(rows, key=int) == sorted(set(rows), key=int)
    assert sorted(paragraphs, key=int) == sorted(rows, key=int)


def test_the_changelog_says_each_thing_once() -> None:
    pages = [*sorted((ROOT / "docs/releases").glob("*.md")), *(ROOT / "changes").glob("*.md")]
    lines = [line for page in pages for line in page.read_text().splitlines()]
    bullets = [line for line in lines if line.startswith("- ")]
    assert [line for line, count in Counter(bullets).items() if count > 1] == []
