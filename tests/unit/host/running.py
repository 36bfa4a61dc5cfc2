"""Runs a loop until something holds."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.host.loop import Loop

PATIENCE_S = 30.0


def run_until(loop: Loop, condition: Callable[[], bool]) -> None:
    """Fails where `condition` does not hold within `PATIENCE_S`."""
    deadline = loop.time() + PATIENCE_S

    def look() -> None:
        if condition():
            loop.stop()
            return
        assert loop.time() < deadline, "it did not happen"
        loop.call_later(0.0005, look)

    handler = loop._on_fault
    loop.set_exception_handler(lambda message, error: raise_or_tell(handler, message, error))
    try:
        look()
        loop.run_forever()
    finally:
        loop._on_fault = handler


def raise_or_tell(
    handler: Callable[[str, Exception], None] | None, message: str, error: Exception
) -> None:
    if handler is None or isinstance(error, AssertionError):
        raise error
    handler(message, error)
