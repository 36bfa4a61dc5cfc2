"""The driver's interpreter is chosen where nothing is said, and only there."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.pipeline import interpreter


def test_an_environment_that_is_not_activated_is_named() -> None:
    environment = {"PATH": "/no/such/place"}
    assert interpreter.prefer_own(environment)
    assert environment == {"PATH": "/no/such/place", "PYSPARK_DRIVER_PYTHON": sys.executable}


@pytest.mark.parametrize(
    "name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT"]
)
def test_an_explicit_interpreter_is_not_changed(name: str) -> None:
    environment = {"PATH": "/no/such/place", name: "1"}
    assert not interpreter.prefer_own(environment)
    assert environment == {"PATH": "/no/such/place", name: "1"}


def test_an_activated_environment_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("python", "python3"):
        (tmp_path / name).symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    environment = {"PATH": str(tmp_path)}
    assert not interpreter.prefer_own(environment)
    assert environment == {"PATH": str(tmp_path)}


def context(python: str = "python3", master: str = "local[2]", **configured: str) -> Any:
    return SimpleNamespace(pythonExec=python, master=master, getConf=lambda: configured)


def test_a_session_that_runs_gets_what_was_said_or_the_own(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert interpreter.for_session(context()) == sys.executable
    assert interpreter.for_session(context("/opt/python")) == "/opt/python"
    configured = {interpreter.IN_CONFIGURATION: "/opt/other"}
    assert interpreter.for_session(context(**configured)) == "/opt/other"
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        assert interpreter.for_session(context(master="yarn")) == sys.executable
    assert "PYSPARK_PYTHON" in caplog.text
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    assert interpreter.for_session(context()) == "python3"


@pytest.mark.slow
def test_the_import_is_cheap() -> None:
    program = (
        "import sys, barnabas.pipeline;"
        "print([each for each in ('pyspark', 'numpy', 'pyarrow') if each in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ
    )
    assert shown.stdout.strip() == "[]"
