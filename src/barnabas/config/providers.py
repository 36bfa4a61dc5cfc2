"""Resolves variables ``${provider:path:key}`` in values by the providers that ``config.providers`` names.

    config.providers=file
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/secrets
    ssl.key.password=${file:/etc/secrets/node.properties:key.password}

Kafka's three providers are supported: `FILE` reads a properties file, `DIRECTORY` a folder with one file per
key, `ENVIRONMENT` variables of the process (``${env:NAME}``). As in Kafka, variables in a provided value are
not resolved, and a variable of an unknown provider stays as it is. A variable that a configured provider
cannot resolve is an error (Kafka keeps the text ``${...}`` as the value). Errors never contain a provided
value.

Source: ``ConfigTransformer``, ``AbstractConfig``, ``AllowedPaths`` of Apache Kafka 4.3.0; KIP-297, 421, 632,
887, 993.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from barnabas.config.definition import ConfigError
from barnabas.config.properties import parse_properties

PROVIDERS = "config.providers"
_PACKAGE = "org.apache.kafka.common.config.provider."
FILE = _PACKAGE + "FileConfigProvider"
DIRECTORY = _PACKAGE + "DirectoryConfigProvider"
ENVIRONMENT = _PACKAGE + "EnvVarConfigProvider"
_VARIABLE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
HIDDEN = "(hidden)"
SHORTEST_SECRET = 4
"""Provided values with fewer characters are not hidden in messages: a `1` is in many."""


class Sources(Protocol):
    """The environment and the files that providers read."""

    @property
    def environment(self) -> Mapping[str, str]: ...

    def exists(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes:
        """A whole file. Raises ``OSError``."""


class Resolved(NamedTuple):
    """`values` of all keys, and the keys whose value was `provided` by a provider."""

    values: dict[str, str]
    provided: frozenset[str] = frozenset()

    def hide(self, error: ConfigError) -> ConfigError:
        """`error` with provided values hidden."""
        texts = {self.values[key] for key in self.provided}
        texts = {text for text in texts if len(text) >= SHORTEST_SECRET}
        if error.key not in self.provided and not any(text in str(error) for text in texts):
            return error
        allowed = error.allowed
        for text in sorted(texts, key=len, reverse=True):
            allowed = allowed.replace(text, HIDDEN)
        return ConfigError(error.key, HIDDEN, allowed)


def resolve(properties: Mapping[str, str], sources: Sources) -> Resolved:
    """Resolve the variables in `properties`. Raises :class:`ConfigError`."""
    providers = _providers(properties, sources)
    if not providers:
        return Resolved(dict(properties), frozenset())
    values, provided = {}, set()
    for key, text in properties.items():
        values[key] = text
        if "${" not in text:
            continue
        found = _VARIABLE.sub(lambda match, key=key: _answer(providers, key, match), text)  # type: ignore[misc]
        if found != text:
            values[key] = found.strip()
            provided.add(key)
    return Resolved(values, frozenset(provided))


_Provider = Callable[[str, str, str], "str | None"]
"""Maps (configuration key, path, name) to a value; None if there is none. Raises :class:`ConfigError`."""


def _answer(providers: Mapping[str, _Provider], key: str, match: re.Match[str]) -> str:
    provider = providers.get(match[1])
    if provider is None:
        return match[0]
    found = provider(key, match[3] or "", match[4])
    if found is None:
        raise ConfigError(key, match[0], f"its provider has no {match[4]!r}")
    return found


def _providers(properties: Mapping[str, str], sources: Sources) -> dict[str, _Provider]:
    found: dict[str, _Provider] = {}
    for name in filter(None, map(str.strip, properties.get(PROVIDERS, "").split(","))):
        start = f"{PROVIDERS}.{name}."
        key = start + "class"
        given = properties.get(key, "").strip()
        if given in (FILE, DIRECTORY):
            allowed = _allowed_paths(start + "param.allowed.paths", properties, sources)
            found[name] = (_Files if given == FILE else _Folders)(sources, allowed)
        elif given == ENVIRONMENT:
            pattern = _pattern(start + "param.allowlist.pattern", properties)
            found[name] = _Environment(sources.environment, pattern)
        else:
            raise ConfigError(key, given, f"it must be {FILE}, {DIRECTORY} or {ENVIRONMENT}")
    return found


def _allowed_paths(
    key: str, properties: Mapping[str, str], sources: Sources
) -> tuple[str, ...] | None:
    """The paths that a provider may read; None allows all. Raises :class:`ConfigError`."""
    given = properties.get(key, "")
    paths = tuple(posixpath.normpath(path) for path in given.split(",")) if given else None
    for path in paths or ():
        if not posixpath.isabs(path) or not sources.exists(path):
            raise ConfigError(key, path, "each path must be absolute and exist")
    return paths


def _pattern(key: str, properties: Mapping[str, str]) -> re.Pattern[str]:
    given = properties.get(key, ".*")
    try:
        return re.compile(given)
    except re.error as error:
        raise ConfigError(key, given, f"it must be a regular expression: {error}") from error


class _Files:
    """A properties file per path, read once."""

    def __init__(self, sources: Sources, allowed: tuple[str, ...] | None) -> None:
        self._sources = sources
        self._allowed = allowed
        self._read: dict[str, dict[str, str]] = {}

    def __call__(self, key: str, path: str, name: str) -> str | None:
        if path not in self._read:
            self._read[path] = self._properties(key, path)
        return self._read[path].get(name)

    def _properties(self, key: str, path: str) -> dict[str, str]:
        text = _text(self._sources, self._allowed, key, path)
        try:
            return parse_properties(text)
        except ValueError as error:
            raise ConfigError(key, path, "it is no properties file") from error


class _Folders:
    """A folder per path, with a file per key; the value is the file's whole text."""

    def __init__(self, sources: Sources, allowed: tuple[str, ...] | None) -> None:
        self._sources = sources
        self._allowed = allowed

    def __call__(self, key: str, path: str, name: str) -> str | None:
        if not name or "/" in name or name in (".", ".."):
            return None
        return _text(self._sources, self._allowed, key, path, name)


class _Environment:
    """The environment variables whose names contain a match of `pattern` (as in Kafka, not a full match)."""

    def __init__(self, variables: Mapping[str, str], pattern: re.Pattern[str]) -> None:
        self._variables = variables
        self._pattern = pattern

    def __call__(self, key: str, path: str, name: str) -> str | None:
        if path:
            raise ConfigError(key, path, "an environment variable has no path: ${provider:NAME}")
        return self._variables.get(name) if self._pattern.search(name) else None


def _text(
    sources: Sources, allowed: tuple[str, ...] | None, key: str, path: str, name: str = ""
) -> str:
    if not path:
        raise ConfigError(key, path, "its variable needs a path: ${provider:path:key}")
    whole = posixpath.normpath(path)
    if allowed is not None and not any(_is_within(whole, folder) for folder in allowed):
        raise ConfigError(key, path, "its provider's allowed.paths do not have it")
    file = posixpath.join(whole, name) if name else whole
    try:
        return sources.read(file).decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(key, file, f"it cannot be read: {error.strerror}") from error


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
