"""Where a peer is missing, its tests skip with a word; where peers are required, they fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import peers
from tools import peers as fetching

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


@pytest.fixture
def no_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh clone on a machine with the right Java, but without Maven and a repository."""
    monkeypatch.setattr(fetching, "SETS", {"clients": tmp_path / "clients"})
    monkeypatch.setattr(peers, "CLIENTS", tmp_path / "clients")
    monkeypatch.setattr(fetching, "java_version", lambda: fetching.JAVA_MIN)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.delenv("MAVEN_CENTRAL", raising=False)
    monkeypatch.delenv("BARNABAS_CLIENTS_PROBLEM", raising=False)
    return tmp_path


@pytest.mark.parametrize("version", [None, 11])
def test_java_clients_are_not_fetched_where_java_cannot_run_them(
    no_clients: Path, monkeypatch: pytest.MonkeyPatch, version: int | None
) -> None:
    monkeypatch.setattr(fetching, "java_version", lambda: version)
    assert fetching.problem_of_clients() == "Java 17 is not installed"
    assert not (no_clients / "clients").exists()


def test_java_clients_need_maven_or_a_repository(no_clients: Path) -> None:
    assert "install Maven, or set MAVEN_CENTRAL" in (fetching.problem_of_clients() or "")


def test_a_repository_that_cannot_be_reached_gives_a_sentence(
    no_clients: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAVEN_CENTRAL", f"{no_clients.as_uri()}/nothing")
    assert "the repository cannot be reached" in (fetching.problem_of_clients() or "")


def test_jars_with_another_sha_256_are_refused(
    no_clients: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in fetching.locked("clients"):
        jar = no_clients / "repository" / path
        jar.parent.mkdir(parents=True, exist_ok=True)
        jar.write_bytes(b"not what was locked")
    monkeypatch.setenv("MAVEN_CENTRAL", (no_clients / "repository").as_uri())
    assert "not what clients.lock says" in (fetching.problem_of_clients() or "")


def test_tests_skip_with_the_sentence_that_make_test_left(
    no_clients: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "make peers" in (peers.missing(["clients"]) or "")
    monkeypatch.setenv("BARNABAS_CLIENTS_PROBLEM", "the repository cannot be reached")
    assert peers.missing(["clients"]) == "the repository cannot be reached"
