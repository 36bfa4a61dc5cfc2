"""docs/pipelines.md: each of its jobs is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.main import main
from tests.docs.blocks import blocks

PAGE = "docs/pipelines.md"
PART = "sink"
"""The word of a block in place of the sinks of the page's first job."""


def jobs() -> list[tuple[str, str]]:
    """The TOML blocks of the page as whole files, each with the heading above it."""
    found = [block for block in blocks(PAGE) if block.language == "toml"]
    assert len(found) == 4
    first = found[0].text
    source = first.partition("[transform]")[0]
    return [
        (block.title, f"{source}{block.text}" if PART in block.words else block.text)
        for block in found
    ]


@pytest.mark.parametrize("text", [pytest.param(text, id=title) for title, text in jobs()])
def test_each_job_of_the_page_is_right(
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KAFKA", "127.0.0.1:9092")
    file = tmp_path / "job.toml"
    file.write_text(text)
    assert main(["pipeline", "validate", str(file)]) == 0, capsys.readouterr().err
