"""docs/testing-libraries.md: each test passes in a project of its own, with the library that it is about.

Libraries that the tests' own environment lacks are in the environments of ``peers/others``; they are found
there behind it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tools import other_programs

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]
PAGE = "docs/testing-libraries.md"
BROUGHT = ("faststream", "faust", "quix-streams")
RUN_S = 200.0
BEHIND = """
import sys

sys.path.append({folder!r})
"""


@pytest.mark.parametrize("library", ["confluent", "kafka-python", "pyspark", *BROUGHT])
def test_the_pages_test_passes(library: str, tmp_path: Path) -> None:
    [text] = (block.text for block in blocks(PAGE) if library in block.words)
    (tmp_path / "test_it.py").write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    if library in BROUGHT:
        folders = list((other_programs.FOLDER / library).glob("lib/python3*/site-packages"))
        if not folders:
            pytest.skip(f"{library} is not in peers/others: run `make peers`")
        (tmp_path / "conftest.py").write_text(BEHIND.format(folder=str(folders[0])))
    folder = str(Path(sys.executable).parent)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment |= {"PATH": f"{folder}:{os.environ['PATH']}", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tmp_path,
        env=environment, capture_output=True, text=True, timeout=RUN_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert "1 passed" in done.stdout
