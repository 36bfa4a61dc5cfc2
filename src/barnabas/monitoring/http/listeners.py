"""The addresses at which a node answers over HTTP: the key ``metrics.listeners``.

``http://HOST:PORT`` or ``https://HOST:PORT``, several with commas between. Without a host it is the
loopback address, since the figures are for those who run the node. HTTPS takes its certificate from
``listener.name.metrics.ssl.*``, or from the keys without the prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from barnabas.config.definition import ConfigError
from barnabas.config.listeners import ListenerSpec

KEY = "metrics.listeners"
NAME = "METRICS"
"""The listener's name in configuration keys."""
_PROTOCOLS = {"http": "PLAINTEXT", "https": "SSL"}


def parse_listeners(texts: Sequence[str]) -> list[ListenerSpec]:
    """Raises ``ConfigError``."""
    return [_parsed(text.strip()) for text in texts if text.strip()]


def _parsed(text: str) -> ListenerSpec:
    parts = urlsplit(text)
    protocol = _PROTOCOLS.get(parts.scheme)
    if protocol is None:
        raise ConfigError(KEY, text, "it must be http://HOST:PORT or https://HOST:PORT")
    try:
        port = parts.port
    except ValueError:
        port = None
    if port is None or parts.path.strip("/") or parts.query or parts.username is not None:
        raise ConfigError(KEY, text, "it must be http://HOST:PORT or https://HOST:PORT")
    return ListenerSpec(NAME, parts.hostname or "127.0.0.1", port, protocol)
