"""Regular expressions that requests carry: RE2, matched against whole names.

Members of groups subscribe to topics by them (KIP-848), and administrators filter transactional ids
(KIP-1152). Any client can send one, and the node has one thread: RE2 matches in time linear in the text and
bounds the size of what it compiles.

Source: ``TopicRegexResolver`` and ``TransactionStateManager`` of Apache Kafka 4.3 (RE2/J).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.wire.errors import ErrorCode, KafkaError


class NameExpression:
    """A compiled expression.

    Raises INVALID_REGULAR_EXPRESSION where `text` is none, with the name of the request's `field`.
    """

    def __init__(self, text: str, field: str) -> None:
        self._compiled = _compile(text, field)

    def matches(self, name: str) -> bool:
        """Whether the expression matches the whole name. A name with surrogates matches none."""
        try:
            return self._compiled.fullmatch(name) is not None
        except UnicodeError:
            return False

    def matching(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in names if self.matches(name))


def _compile(text: str, field: str) -> Any:
    try:
        import re2  # a node to which no client sends an expression does not load it
    except ImportError as fault:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"this broker cannot resolve regular expressions: google-re2 is not installed ({fault})",
        ) from fault
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except (re2.error, UnicodeError, ValueError) as fault:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{field} {text!r} is not a valid regular expression: {_reason(fault)}.",
        ) from fault


def _reason(fault: Exception) -> str:
    reason = fault.args[0] if fault.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
