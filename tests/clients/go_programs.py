"""franz-go: programs of ``tests/clients/go`` and its own tests, built as Go is set up."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

MODULE = Path(__file__).parent / "go"
BUILT = Path(__file__).resolve().parents[2] / "build" / "go"
BUILD_TIMEOUT_S = 600
SUITE = "github.com/twmb/franz-go/pkg/kgo"


def program() -> Path:
    """The command of `MODULE`. Skips where Go cannot build it."""
    return _built("transactions", "build", ".")


def franz_go_tests() -> Path:
    """franz-go's own tests, of the version in ``go.sum``. Skips where Go cannot build them."""
    return _built("kgo.test", "test", SUITE, "-c")


def _built(name: str, verb: str, what: str, *options: str) -> Path:
    """Go keeps what it has built: a second call takes a moment."""
    target = BUILT / name
    command = ["go", verb, *options, "-mod=readonly", "-o", str(target), what]
    try:
        done = subprocess.run(
            command,
            cwd=MODULE,
            env={**os.environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"Go cannot build franz-go: {error}")
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no reason"]
        pytest.skip(f"Go cannot build franz-go: {lines[-1]}")
    return target
