"""Asks a node on this machine whether it is ready, for the health check of a container or a service."""

from __future__ import annotations

import urllib.error
import urllib.request

from barnabas.cli.failure import Failure

TIMEOUT_S = 5.0


def ask_health(address: str) -> tuple[bool, str]:
    """Whether the node whose metrics are at `address` is ready, and its own words as JSON. Raises
    :class:`Failure` where nothing answers."""
    url = f"{address.rstrip('/')}/health/ready"
    if not url.startswith(("http://", "https://")):
        raise Failure(f"{address!r} is no address such as http://127.0.0.1:9404", 2)
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            return True, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return False, error.read().decode(errors="replace")
    except (OSError, ValueError) as error:
        raise Failure(f"{url} does not answer: {error}") from error
