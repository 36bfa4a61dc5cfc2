"""Where a peer is missing, its tests skip with a word; where peers are required, they fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import peers

ROOT = Path(__file__).resolve().parents[2]
KCAT = "tests/clients/test_kcat.py"


def run_without_kcat(tmp_path: Path, *needs: str) -> tuple[int, str]:
    """Exit code of pytest and what it says where no program is installed."""
    environment = {**os.environ, "PATH": str(tmp_path), "BARNABAS_PEERS": ",".join(needs)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", KCAT]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout


def test_tests_of_a_missing_peer_skip_with_a_word(tmp_path: Path) -> None:
    code, said = run_without_kcat(tmp_path)
    assert code == 0 and "kcat is not installed" in said and " skipped in " in said


def test_tests_of_a_missing_peer_fail_where_peers_are_required(tmp_path: Path) -> None:
    code, said = run_without_kcat(tmp_path, "required")
    assert code == 1 and "kcat is not installed" in said and " errors in " in said


def test_jars_of_another_version_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kafka_2.13-4.2.0.jar").touch()
    monkeypatch.setattr(peers, "LIBS", tmp_path)
    assert "make peers" in (peers.missing() or "")
    with pytest.raises(KeyError):
        peers.missing(["no such peer"])
