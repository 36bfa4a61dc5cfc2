"""Asks a node on this machine whether it is ready, for the health check of a container or a service.

Where the node's properties are variables, they say where it is and which token it wants. A proxy is never
asked. On loopback a certificate is not looked at: it has the name by which others know the node.
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from urllib.parse import urlsplit

from barnabas.cli.failure import Failure
from barnabas.cli.local.node_environment import METRICS
from barnabas.cli.plain_text import say

TIMEOUT_S = 5.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")
LISTENERS, TOKEN = "KAFKA_METRICS_LISTENERS", "KAFKA_METRICS_BEARER_TOKEN"
EVERY_ADDRESS = {"://0.0.0.0:": "://127.0.0.1:", "://[::]:": "://[::1]:", "://:": "://127.0.0.1:"}


def own_address(environment: Mapping[str, str]) -> str:
    """The first of the node's ``metrics.listeners``, as this machine reaches it."""
    address = (environment.get(LISTENERS) or METRICS).partition(",")[0].strip()
    for every, loopback in EVERY_ADDRESS.items():
        address = address.replace(every, loopback)
    return address


def ask_health(address: str, token: str = "") -> tuple[bool, str]:
    """Whether the node whose metrics are at `address` is ready, and its own words as JSON. Raises
    :class:`Failure` where nothing answers."""
    url = f"{address.rstrip('/')}/health/ready"
    if not url.startswith(("http://", "https://")):
        raise Failure(f"{address!r} is no address such as {METRICS}", 2)
    checking = ssl.create_default_context()
    if urlsplit(url).hostname in LOOPBACK:
        checking.check_hostname, checking.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=checking)
    )
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        request = urllib.request.Request(url, headers=headers)
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return True, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return False, error.read().decode(errors="replace")
    except (OSError, ValueError) as error:
        raise Failure(f"{url} does not answer: {error}") from error


def print_health(address: str, environment: Mapping[str, str]) -> int:
    """Print the node's answer; the exit status. Raises :class:`Failure`."""
    token = "" if address else environment.get(TOKEN, "")  # the node's own, and for it alone
    is_ready, text = ask_health(address or own_address(environment), token)
    say(text.strip())
    return 0 if is_ready else 1
