"""How commands end, whatever they were doing."""

from __future__ import annotations

import pytest

from barnabas.cli import application
from barnabas.cli import main as module


def test_an_interrupt_while_a_command_is_loaded_sets_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(application, "import_module", interrupt)
    assert module.main(["topics", "list"]) == 130
    assert capsys.readouterr() == ("", "")
