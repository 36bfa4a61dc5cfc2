"""Regular expressions that members subscribe by: RE2, matched against whole names of topics.

RE2 matches in time linear in the text, so that no client's expression can hold the coordinator up.

Source: ``TopicRegexResolver`` of Apache Kafka 4.3 (RE2/J); KIP-848.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.wire.errors import ErrorCode, KafkaError


def check_regex(regex: str) -> None:
    """Raises INVALID_REGULAR_EXPRESSION."""
    _compile(regex)


def matching(regex: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that match as a whole."""
    pattern = _compile(regex)
    return tuple(name for name in names if pattern.fullmatch(name))


def _compile(regex: str) -> Any:
    try:
        import re2  # where no group subscribes by an expression the broker does without
    except ImportError as fault:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"this broker cannot resolve regular expressions: google-re2 is not installed ({fault})",
        ) from fault
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except (re2.error, UnicodeError, ValueError) as fault:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex {regex!r} is not a valid regular expression: {_said(fault)}.",
        ) from fault


def _said(fault: Exception) -> str:
    said = fault.args[0] if fault.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
