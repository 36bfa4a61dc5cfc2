"""``ssl.principal.mapping.rules``: from a certificate's name to a principal's (KIP-371).

Rules are tried in order; the first whose pattern matches the whole name decides, DEFAULT takes the name as it
is. ``RULE:pattern/replacement/`` may end in L or U: lower or upper case. A name that no rule matches ends the
connection. Source: Kafka's ``SslPrincipalMapper``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.config.definition import ConfigError

KEY = "ssl.principal.mapping.rules"
ANONYMOUS = "User:ANONYMOUS"
_RULE = re.compile(r"DEFAULT|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_REFERENCE = re.compile(r"\\(.)|\$(\d)")


class NoRuleError(ValueError):
    """No rule matches a certificate's name."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None: DEFAULT."""
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        result = _REFERENCE.sub(lambda ref: _expand(ref, match), self.replacement)
        return (
            result.lower() if self.case == "L" else result.upper() if self.case == "U" else result
        )


class PrincipalMapping:
    """The rules of one listener."""

    def __init__(self, rules: Sequence[_Rule]) -> None:
        self._rules = tuple(rules)

    def principal(self, subject: str) -> str:
        """``User:...`` of a certificate's subject. Raises :class:`NoRuleError`."""
        for rule in self._rules:
            name = rule.apply(subject)
            if name is not None:
                return f"User:{name}"
        raise NoRuleError(f"no rule of {KEY} applies to {subject}")


def parse_rules(text: str) -> PrincipalMapping:
    """Raises :class:`ConfigError`."""
    rules, at, text = [], 0, text.strip()
    while at < len(text):
        match = _RULE.match(text, at)
        end = -1 if match is None else match.end()
        if match is None or (end < len(text) and text[end] not in ", \t\n"):
            raise ConfigError(
                KEY, text, "each rule must be DEFAULT or RULE:pattern/replacement/[LU]"
            )
        rules.append(_rule(text, match))
        while end < len(text) and text[end] in ", \t\n":
            end += 1
        at = end
    return PrincipalMapping(rules or [_Rule(None, "", "")])


def _rule(text: str, match: re.Match[str]) -> _Rule:
    if match.group(0) == "DEFAULT":
        return _Rule(None, "", "")
    try:
        pattern = re.compile(_python_pattern(match.group(1)))
    except re.error as error:
        raise ConfigError(KEY, text, f"a pattern is no regular expression: {error}") from error
    return _Rule(pattern, match.group(2), match.group(3))


def _python_pattern(pattern: str) -> str:
    return pattern.replace("(?<", "(?P<") if "(?<" in pattern and "(?<=" not in pattern else pattern


def _expand(reference: re.Match[str], match: re.Match[str]) -> str:
    if reference.group(1) is not None:
        return reference.group(1)
    number = int(reference.group(2))
    return (match.group(number) or "") if number <= match.re.groups else reference.group(0)
