"""Notes signals that ask a program to end while no loop handles them: while the program is loaded,
and in commands that read in a loop of their own.

Python runs signal handlers between any two bytecodes, also within callbacks of weak references and
``__del__``, where an exception is printed and forgotten. The import system has such callbacks, so a
handler that raises loses a signal now and then. The handler here only takes a note. The program
checks the note before it does anything that takes time, and again once its loop has handlers of its
own.
"""

from __future__ import annotations

import signal


class EndRequest:
    """Whether a signal has asked this program to end. A second one ends it at once. Make it on the main
    thread. `with_input`: the end of standard input asks for the same, once a loop runs."""

    def __init__(self, *, with_input: bool = False) -> None:
        self.is_made = False
        self.with_input = with_input
        self._numbers = [
            number
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
            if signal.getsignal(number) is not signal.SIG_IGN
        ]
        for number in self._numbers:
            signal.signal(number, self._note)

    def _note(self, *_: object) -> None:
        self.is_made = True
        for number in self._numbers:
            if signal.getsignal(number) == self._note:  # a loop has no handler of its own yet
                signal.signal(number, signal.SIG_DFL)

    def __repr__(self) -> str:
        return f"EndRequest({'made' if self.is_made else 'not made'})"
