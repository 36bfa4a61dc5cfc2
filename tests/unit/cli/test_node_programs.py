"""The program of a node: the one with faults only where a test has started it."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.local.node_processes import FAULTY, USUAL, program_of
from barnabas.config.properties import FAULTS_KEY, FAULTS_VARIABLE


@pytest.mark.parametrize(
    ("text", "variable", "program"),
    [
        (f"{FAULTS_KEY}=/a/faults.json", "1", FAULTY),
        (f"{FAULTS_KEY}=/a/faults.json", "", USUAL),
        ("node.id=1", "1", USUAL),
        ("node.id=\\u00", "1", USUAL),
    ],
)
def test_a_line_in_a_configuration_alone_opens_no_control_of_faults(
    text: str, variable: str, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAULTS_VARIABLE, variable)
    (tmp_path / "server.properties").write_text(text)
    assert program_of(tmp_path / "server.properties") == program
