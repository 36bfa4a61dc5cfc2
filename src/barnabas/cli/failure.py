"""How a command says that it failed: one sentence and an exit status."""

from __future__ import annotations


class Failure(Exception):
    """Ends the command: `main` prints the sentence on standard error and exits with `status`."""

    def __init__(self, sentence: str, status: int = 1) -> None:
        super().__init__(sentence)
        self.status = status
