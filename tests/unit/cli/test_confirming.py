"""Questions before what cannot be taken back."""

from __future__ import annotations

import io
import sys

import pytest

from barnabas.cli.confirming import confirm
from barnabas.cli.failure import Failure


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_yes_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    confirm("Delete it?", True)


def test_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    confirm("Delete it?", False)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    with pytest.raises(Failure, match="nothing was changed"):
        confirm("Delete it?", False)


def test_a_command_without_a_terminal_wants_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(Failure, match="give --yes") as refused:
        confirm("Delete it?", False)
    assert refused.value.status == 2
